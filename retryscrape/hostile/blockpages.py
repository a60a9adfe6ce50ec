"""Block pages of the vendors. Data only; ``lookalikes`` has what resembles them.

After the public facts in block_pages.md (row numbers in the comments); the prose is ours.
"""

from __future__ import annotations

from dataclasses import dataclass

from retryscrape.hostile.text import page
from retryscrape.hostile.wire import HTML

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class BlockPage:
    """One answer, and what a good classifier says of it."""

    status: int
    body: str
    headers: tuple[tuple[str, str], ...] = ()
    kind_header: str = HTML
    outcome: str = "blocked"
    vendor: str | None = None


def _row(
    vendor: str | None,
    status: int,
    title: str,
    body: str,
    *headers: tuple[str, str],
    head: str = "",
) -> BlockPage:
    return BlockPage(status, page(title, body, head), headers, vendor=vendor)


def _raw(
    vendor: str | None, status: int, body: str, *headers: tuple[str, str], kind: str = HTML
) -> BlockPage:
    return BlockPage(status, body, headers, kind, vendor=vendor)


_CF = ("Server", "cloudflare")
_REF = "18.2d351ab8.1557333295.a4e16ab"

BLOCK_PAGES: dict[str, BlockPage] = {
    # 1, 2: header, body marker alone, localised title, large 200.
    "cloudflare": _row(
        "cloudflare",
        403,
        "Just a moment...",
        '<div id="challenge-spinner"></div><script>window._cf_chl_opt={cType:"managed"}</script>',
        ("cf-mitigated", "challenge"),
        _CF,
    ),
    "cloudflare-local": _row(
        "cloudflare",
        403,
        "Even geduld...",
        "<p>Even geduld</p>",
        ("CF-Mitigated", "Challenge"),
        _CF,
    ),
    "cloudflare-body": _row(
        "cloudflare", 503, "Un momento", "<script>window._cf_chl_opt={cvId:'3'}</script>", _CF
    ),
    "cloudflare-large": _row(
        "cloudflare",
        200,
        "Just a moment...",
        "<script>window._cf_chl_opt={}</script>" + "<!-- filler -->" * 8000,
        _CF,
    ),
    # 3: denials.
    "cloudflare-deny": _row(
        "cloudflare",
        403,
        "Attention Required! | Cloudflare",
        '<h1 data-translate="block_headline">Sorry, you have been blocked</h1>',
        _CF,
    ),
    "cloudflare-1020": _row(
        "cloudflare",
        403,
        "Access denied | shop.test used Cloudflare to restrict access",
        '<span class="cf-error-code">1020</span><div id="cf-error-details"></div>',
        _CF,
    ),
    # 6, 7: Akamai.
    "akamai": _row(
        "akamai",
        403,
        "Access Denied",
        '<h1>Access Denied</h1>You don\'t have permission to access "http://shop.test/" on this '
        f"server.<p>Reference&#32;&#35;{_REF.replace('.', '&#46;')}</p>",
        ("Server", "AkamaiGHost"),
        ("Set-Cookie", "_abck=1; Path=/"),
    ),
    "akamai-interstitial": _row(
        "akamai",
        200,
        "Challenge Page",
        '<div id="sec-if-cpt-container"></div><p>Powered and protected by Akamai</p>',
    ),
    # 9: DataDome, as a page and as JSON.
    "datadome": _row(
        "datadome",
        403,
        "shop.test",
        "<script>var dd={'rt':'c','cid':'x','host':'geo.captcha-delivery.com'}</script>"
        '<script src="https://ct.captcha-delivery.com/c.js"></script>',
        ("x-datadome", "protected"),
        ("x-dd-b", "1"),
    ),
    "datadome-json": _raw(
        "datadome",
        403,
        '{"url":"https://geo.captcha-delivery.com/captcha/?initialCid=x"}',
        ("x-dd-b", "2"),
        kind=JSON,
    ),
    # 10: HUMAN / PerimeterX, 403, 404 and JSON.
    "perimeterx": _row(
        "perimeterx",
        403,
        "Access to this page has been denied",
        '<div id="px-captcha"></div><script>window._pxAppId="PX1";window._pxUuid="u"</script>',
        head='<meta name="description" content="px-captcha">',
    ),
    "perimeterx-404": _row(
        "perimeterx",
        404,
        "Shop - Access has been denied",
        "<p>Press and hold</p>",
        ("Retry-After", "0"),
        head='<meta name="description" content="px-captcha">',
    ),
    "perimeterx-json": _raw(
        "perimeterx",
        403,
        '{"appId":"PX1","vid":"v","uuid":"u","blockScript":"/x/captcha.js"}',
        kind=JSON,
    ),
    # 11, 12, 13: Imperva.
    "imperva": _raw(
        "imperva",
        403,
        '<html><body><iframe id="main-iframe" src="/_Incapsula_Resource?SWUDNSAI=9&amp;'
        'incident_id=1-2">Request unsuccessful. Incapsula incident ID: 1-2</iframe></body></html>',
        ("x-iinfo", "1-2-3 NNYN"),
        ("x-cdn", "Incapsula"),
    ),
    "imperva-script": _raw(
        "imperva",
        200,
        '<html><head><META NAME="robots" CONTENT="noindex,nofollow"><script '
        f'src="/_Incapsula_Resource?SWJIYLWA={"a1" * 16},{"b2" * 16}"></script></head>'
        "<body></body></html>",
        ("x-iinfo", "1-2-3 NNYN"),
    ),
    "pardon": _row(
        "imperva",
        200,
        "Pardon Our Interruption",
        "<p>Something about your browser made us think you were a bot.</p>",
    ),
    # 14, 15, 16: AWS.
    "aws-waf": _raw("aws-waf", 202, "", ("x-amzn-waf-action", "challenge")),
    "aws-waf-page": _raw(
        "aws-waf",
        202,
        "<html><head><script>window.gokuProps={}</script><script src="
        '"https://x.token.awswaf.com/x/challenge.js"></script></head><body></body></html>',
        ("x-amzn-waf-action", "challenge"),
    ),
    "aws-waf-captcha": _row(
        "aws-waf",
        405,
        "Human Verification",
        "<script>window.gokuProps={}</script>",
        ("x-amzn-waf-action", "captcha"),
    ),
    "cloudfront": _row(
        "cloudfront",
        403,
        "ERROR: The request could not be satisfied",
        "<p>Request blocked.</p><pre>Generated by cloudfront (CloudFront)</pre>",
        ("Server", "CloudFront"),
        ("x-cache", "Error from cloudfront"),
    ),
    # 17, 18: Vercel.
    "vercel": _row(
        "vercel",
        429,
        "Vercel Security Checkpoint",
        "<p>We're verifying your browser</p>",
        ("x-vercel-mitigated", "challenge"),
        ("Server", "Vercel"),
    ),
    "vercel-deny": _raw(
        "vercel", 403, "Forbidden", ("x-vercel-mitigated", "deny"), kind="text/plain"
    ),
    # 19: Kasada.
    "kasada": _raw(
        "kasada",
        429,
        "<html><script>window.KPSDK={};KPSDK.scriptStart=0</script>"
        "<script src='/a/b/ips.js'></script></html>",
        ("x-kpsdk-ct", "abc"),
    ),
    # 20, 21: Sucuri.
    "sucuri": _row(
        "sucuri",
        403,
        "Sucuri WebSite Firewall - Access Denied",
        '<link href="https://cdn.sucuri.net/sucuri-firewall-block.css">',
        ("x-sucuri-block", "EXP1"),
        ("Server", "Sucuri/Cloudproxy"),
    ),
    "sucuri-script": _row(
        "sucuri",
        200,
        "You are being redirected...",
        "<script>var s={},sucuri_cloudproxy_js='';</script>",
        ("Server", "Sucuri/Cloudproxy"),
    ),
    # 22 to 27.
    "fastly": _row(
        "fastly",
        200,
        "Client Challenge",
        '<script src="/_fs-ch-1AbC/script.js"></script>A required part of this site '
        "couldn't load.",
    ),
    "f5": _row(
        "f5",
        200,
        "Request Rejected",
        "The requested URL was rejected. Please consult with your administrator.<br>"
        "Your support ID is: 1234567890",
    ),
    "anubis": _row(
        "anubis",
        200,
        "Making sure you&#39;re not a bot!".replace("&#39;", "\u2019"),
        '<script id="anubis_challenge" type="application/json">{}</script>',
    ),
    "ddos-guard": _row(
        "ddos-guard",
        403,
        "DDoS-Guard",
        '<div id="link-ddg"></div><script src="/.well-known/ddos-guard/x.js"></script>',
        ("Server", "ddos-guard"),
    ),
    "qrator": _raw(
        "qrator",
        401,
        "<html><body><script src='/__qrator/qauth.js'></script></body></html>",
        ("Server", "QRATOR"),
    ),
    # 28 to 33.
    "azure": _row(
        "azure",
        403,
        "403 Forbidden",
        "<center>Microsoft-Azure-Application-Gateway/v2</center>",
        ("Server", "Microsoft-Azure-Application-Gateway/v2"),
    ),
    "azure-front-door": _row(
        "azure", 403, "Blocked", "<p>The request is blocked.</p>", ("x-azure-ref", "0abc")
    ),
    "wordfence": _row(
        "wordfence",
        503,
        "Your access to this site has been limited",
        "<p>Your access to this site has been limited by the site owner</p>"
        "<p>Generated by Wordfence</p>",
        ("Server", "wfWAF"),
    ),
    "modsecurity": _row(
        "modsecurity", 406, "Not Acceptable!", "<p>This error was generated by Mod_Security.</p>"
    ),
    "stackpath": _row(
        "stackpath",
        403,
        "StackPath",
        "<p>This request triggered the service and "
        "blocked your request.</p><p>Protected by StackPath</p>",
    ),
    "radware": _row("radware", 200, "Radware Bot Manager Captcha", "<p>shieldsquare</p>"),
    # 34, 35, 36, 37.
    "alibaba": _raw(
        "alibaba",
        200,
        "<html><script>var x5secdata='a'; "
        "location='/_____tmd_____/punish?x5secdata=a'</script></html>",
        ("bxpunish", "1"),
    ),
    "aliyun": _raw(
        "yundun",
        405,
        "<html><body><img src='https://g.alicdn.com/sd-base/static/"
        "1.0/image/405.png'><a href='https://errors.aliyun.com/'>405</a></body></html>",
    ),
    "tencent": _row("tencent", 403, "501", "<a href='https://waf.tencent-cloud.com/'>WAF</a>"),
    "imunify360": _row(
        "imunify360",
        403,
        "One moment",
        "<p>protected by Imunify360</p>",
        ("Server", "imunify360-webshield/1.21"),
    ),
    "fortiweb": _row(
        "fortiweb",
        403,
        "Server Unavailable!",
        "<div class='fgd_icon'></div><p>Attack ID: 20000010</p><p>Message ID: 00012</p>",
    ),
    "barracuda": _row(
        "barracuda",
        403,
        "Application Firewall Block Page",
        "<p>The page cannot be displayed</p>",
        ("Set-Cookie", "barra_counter_session=1; Path=/"),
    ),
    # 38, 40, 41, 42, 43.
    "google": _raw(
        "google",
        429,
        "<html><body><form id='captcha-form'></form><div id='infoDiv0'>Our systems have detected "
        "unusual traffic from your computer network. <a href='//www.google.com/policies/terms/'>"
        "Terms</a></div></body></html>",
    ),
    "amazon": _raw(
        "amazon",
        200,
        '<html><head><title dir="ltr">Robot Check</title></head><body>'
        '<form action="/errors/validateCaptcha"></form></body></html>',
    ),
    "reddit": _row(
        "reddit",
        403,
        "Blocked",
        f"<style>{'.x{color:red}' * 9000}</style><p>You've been blocked by network security.</p>",
        ("Server", "snooserv"),
    ),
    "linkedin": _raw("linkedin", 999, "<html><script>location='/authwall'</script></html>"),
    "weibo": _row("weibo", 200, "Sina Visitor System", "<script>visitor()</script>"),
    # 47 and look-alikes of our own making: markers that need reading, not searching.
    "turnstile-403": _row(None, 403, "Check", '<div class="cf-turnstile"></div>'),
    "entities": _raw(
        "cloudflare",
        403,
        "<html><head><TITLE>\n Attention&nbsp;Required&#33; &#124; Cloudflare\n</TITLE></head>"
        "<body></body></html>",
    ),
}
