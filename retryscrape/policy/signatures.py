"""How block pages are recognised: data, and nothing but data.

A new vendor is a new row here; ``match.py`` knows what the fields mean. ``row`` is the
source, a row of the public facts in docs/design/block-pages.md. What is on ordinary
pages too (``server: cloudflare``, ``x-iinfo``, ``_abck``, a captcha widget in a form)
is never enough by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from retryscrape.policy.outcomes import Kind

CHALLENGE, DENIAL, CAPTCHA, CONSENT = Kind.CHALLENGE, Kind.DENIAL, Kind.CAPTCHA, Kind.CONSENT

#: Visible characters below which a page is little more than its marker, and a denial with
#: its explanation (Cloudflare's and Distil's have some 800).
FEW = 1000
#: And those of a page that is nothing but a script.
NONE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Statuses:
    """The statuses that a signature counts on; both empty: any."""

    least: int = 0
    only: frozenset[int] = frozenset()

    def __contains__(self, status: int) -> bool:
        return status in self.only if self.only else status >= self.least


ANY = Statuses()
FINE = Statuses(only=frozenset(range(200, 300)))
ERROR = Statuses(least=400)
FORBIDDEN = Statuses(only=frozenset({403}))
AUTH = Statuses(only=frozenset({401, 403}))
BUSY = Statuses(only=frozenset({403, 429, 503}))
CLIENT = Statuses(only=frozenset({400, 401, 403, 404, 405, 406, 418, 428, 429}))
DENIED = Statuses(only=frozenset({403, 405, 406, 429, 501, 503}))


class Header(NamedTuple):
    """A header that is evidence: its name (a pattern as of ``fnmatch``) and its value."""

    name: str
    value: str
    vendor: str
    kind: Kind | None
    row: str
    status: Statuses = ANY


#: Decisive headers, on any status unless one is given. The first that matches counts.
HEADERS: tuple[Header, ...] = (
    Header("cf-mitigated", r"challenge", "cloudflare", CHALLENGE, "1"),
    Header("cf-mitigated", r".+", "cloudflare", DENIAL, "1"),
    Header("x-dd-b", r".+", "datadome", None, "9"),
    Header("x-datadome-cid", r".+", "datadome", None, "9", AUTH),
    Header("x-px-authorization", r".+", "perimeterx", None, "10", BUSY),
    Header("x-amzn-waf-action", r"challenge", "aws-waf", CHALLENGE, "14"),
    Header("x-amzn-waf-action", r"captcha", "aws-waf", CAPTCHA, "15"),
    Header("x-amzn-waf-action", r".+", "aws-waf", DENIAL, "14"),
    Header("x-vercel-mitigated", r"challenge", "vercel", CHALLENGE, "17"),
    Header("x-vercel-mitigated", r".+", "vercel", DENIAL, "18"),
    Header("x-vercel-challenge-token", r".+", "vercel", CHALLENGE, "17"),
    Header("x-kpsdk-*", r".*", "kasada", CHALLENGE, "19", CLIENT),
    Header("x-kasada*", r".*", "kasada", CHALLENGE, "19", CLIENT),
    Header("x-sucuri-block", r".+", "sucuri", DENIAL, "20"),
    Header("x-reference-error", r"\d+\.[0-9a-f]+\..*", "akamai", DENIAL, "6", FORBIDDEN),
    Header("akamai-cache-status", r"error from child", "akamai", DENIAL, "6", FORBIDDEN),
    Header("bxpunish", r"(?!0$).+", "alibaba", CAPTCHA, "34"),
    Header("server", r"qrator.*", "qrator", CHALLENGE, "27", AUTH),
    Header("server", r"wfwaf.*", "wordfence", DENIAL, "30", BUSY),
    Header("server", r".*mod_security.*", "modsecurity", DENIAL, "31", DENIED),
    Header("server", r"microsoft-azure-application-gateway.*", "azure", DENIAL, "28", FORBIDDEN),
    Header("server", r"yundun.*", "yundun", DENIAL, "36", FORBIDDEN),
    Header("server", r"arvancloud.*", "arvancloud", DENIAL, "36", FORBIDDEN),
    Header("server", r"imunify360-webshield.*", "imunify360", DENIAL, "36", DENIED),
    Header("cneonction", r".*", "netscaler", DENIAL, "37", FORBIDDEN),
    Header("nncoection", r".*", "netscaler", DENIAL, "37", FORBIDDEN),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A page that is evidence.

    All of ``has`` (lower-case bytes) must be in the page's head part; ``script`` asks
    that the first of them stands inside a script, ``pattern`` must be found too,
    ``visible`` must be among the words that a reader sees, ``headers`` (name pattern,
    value) must match,
    ``titles`` must have the page's title, and fewer than ``few`` characters be visible.
    ``large`` ones count however much text the page has; others that name no ``few`` are
    looked for on good answers only where little is visible: no vendor serves them otherwise.
    """

    vendor: str | None
    kind: Kind | None
    row: str
    has: tuple[bytes, ...]
    script: bool = False
    pattern: re.Pattern[bytes] | None = None
    visible: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    titles: frozenset[str] = frozenset()
    few: int | None = None
    large: bool = False
    status: Statuses = ANY


def _p(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def _id(name: bytes) -> re.Pattern[bytes]:
    """An element with this id, class or name, in any spelling of the attribute."""
    return _p(
        rb"<[^<>]{0,400}?(?<![\w-])(?:id|class|name)\s*=\s*[\"']?(?:[^\"'<>]{0,100}[\s\"'])?"
        + name
        + rb"(?![\w-])"
    )


_AKAMAI_REFERENCE = rb"reference(?:\s|&nbsp;|&#32;|&#x20;)*(?:#|&#35;|&#x23;)"
_DOT = rb"(?:\.|&#46;|&#x2e;)"

#: Decisive body markers, HTML only. The first that matches counts.
BODIES: tuple[Body, ...] = (
    # Cloudflare
    Body(
        vendor="cloudflare", kind=CHALLENGE, row="1", has=(b"_cf_chl_opt",), large=True, script=True
    ),
    Body(
        vendor="cloudflare",
        kind=CHALLENGE,
        row="1",
        has=(b"/cdn-cgi/challenge-platform/",),
        pattern=_p(rb"/cdn-cgi/challenge-platform/[^\"'<>\s]{0,200}/?orchestrate/"),
    ),
    Body(
        vendor="cloudflare",
        kind=CHALLENGE,
        row="1",
        has=(b"challenge-form", b"__cf_chl_f_tk"),
        pattern=_id(b"challenge-form"),
    ),
    Body(
        vendor="cloudflare",
        kind=CHALLENGE,
        row="1",
        has=(b"cf-challenge-running",),
        pattern=_id(b"cf-challenge-running"),
    ),
    Body(
        vendor="cloudflare",
        kind=CHALLENGE,
        row="1",
        has=(b"challenge-spinner",),
        pattern=_id(b"challenge-spinner"),
        few=FEW,
    ),
    Body(
        vendor="cloudflare",
        kind=CHALLENGE,
        row="1",
        has=(b"turnstile-wrapper",),
        pattern=_id(b"turnstile-wrapper"),
        few=FEW,
        status=ERROR,
    ),
    Body(
        vendor="cloudflare",
        kind=CHALLENGE,
        row="1",
        has=(b"cf-please-wait",),
        pattern=_id(b"cf-please-wait"),
    ),
    Body(
        vendor="cloudflare",
        kind=CHALLENGE,
        row="1",
        has=(b"cf-im-under-attack",),
        pattern=_id(b"cf-im-under-attack"),
    ),
    Body(
        vendor="cloudflare",
        kind=CHALLENGE,
        row="1",
        has=(b"jschl_vc",),
        pattern=_p(rb"<input[^<>]{0,200}jschl_vc"),
    ),
    Body(
        vendor="cloudflare",
        kind=DENIAL,
        row="3",
        has=(b"block_headline",),
        pattern=_p(rb"<[^<>]{0,200}data-translate\s*=\s*[\"']?block_headline"),
        status=FORBIDDEN,
    ),
    Body(
        vendor="cloudflare",
        kind=DENIAL,
        row="3",
        has=(b"cf-error-code",),
        pattern=_id(b"cf-error-code"),
        status=FORBIDDEN,
    ),
    # the same page as a browser may report it; not a 429 (row 4) nor a 5xx (row 5)
    Body(
        vendor="cloudflare",
        kind=DENIAL,
        row="3",
        has=(b"block_headline",),
        pattern=_p(rb"<[^<>]{0,200}data-translate\s*=\s*[\"']?block_headline"),
        status=FINE,
        few=FEW,
    ),
    Body(
        vendor="cloudflare",
        kind=DENIAL,
        row="3",
        has=(b"used cloudflare to restrict access",),
        pattern=_p(rb"<title[^<>]{0,100}>[^<>]{0,300}used cloudflare to restrict access"),
        status=FINE,
        few=FEW,
    ),
    # Akamai
    Body(
        vendor="akamai",
        kind=DENIAL,
        row="6",
        has=(b"reference", b"18"),
        pattern=_p(_AKAMAI_REFERENCE + rb"18" + _DOT + rb"[0-9a-f]+" + _DOT),
        status=ERROR,
    ),
    Body(
        vendor="akamai",
        kind=DENIAL,
        row="6",
        has=(b"edgesuite.net/",),
        pattern=_p(rb"errors\.edgesuite\.net/18" + _DOT),
        status=ERROR,
    ),
    Body(
        vendor="akamai",
        kind=DENIAL,
        row="6",
        has=(b"reference",),
        status=FORBIDDEN,
        pattern=_p(_AKAMAI_REFERENCE + rb"\d+" + _DOT + rb"[0-9a-f]+" + _DOT),
        headers=(("server", r"akamaighost.*"),),
    ),
    Body(
        vendor="akamai",
        kind=DENIAL,
        row="6",
        has=(b"reference", b"18"),
        pattern=_p(_AKAMAI_REFERENCE + rb"18" + _DOT + rb"[0-9a-f]+" + _DOT),
        titles=frozenset({"access denied"}),
    ),
    Body(
        vendor="akamai",
        kind=CHALLENGE,
        row="7",
        has=(b"sec-if-cpt-container",),
        pattern=_id(b"sec-if-cpt-container"),
        few=FEW,
    ),
    Body(
        vendor="akamai",
        kind=CHALLENGE,
        row="7",
        has=(b"behavioral-content", b"akamai"),
        few=FEW,
    ),
    Body(vendor="akamai", kind=CHALLENGE, row="7", has=(b"bm-verify",), few=FEW),
    Body(vendor="akamai", kind=CHALLENGE, row="7", has=(b"/.well-known/sbsd",), few=NONE * 3),
    Body(
        vendor="akamai",
        kind=CHALLENGE,
        row="7",
        has=(b"powered and protected by",),
        pattern=_p(rb"akamai"),
        few=FEW,
        titles=frozenset({"challenge page"}),
    ),
    # DataDome
    Body(
        vendor="datadome",
        kind=None,
        row="9",
        has=(b"captcha-delivery.com", b"dd"),
        pattern=_p(rb"\bvar\s+dd\s*=\s*\{"),
        status=AUTH,
    ),
    Body(
        vendor="datadome",
        kind=None,
        row="9",
        has=(b"captcha-delivery.com", b"dd"),
        pattern=_p(rb"\bvar\s+dd\s*=\s*\{"),
        few=FEW,
    ),
    Body(
        vendor="datadome",
        kind=CAPTCHA,
        row="9",
        has=(b"captcha-delivery.com",),
        few=FEW,
        pattern=_p(
            rb"<(?:iframe|script)[^<>]{0,300}(?:geo|ct|interstitial)\.captcha-delivery\.com"
        ),
    ),
    # HUMAN / PerimeterX
    Body(
        vendor="perimeterx",
        kind=CAPTCHA,
        row="10",
        has=(b"px-captcha", b"<meta"),
        large=True,
        pattern=_p(rb"<meta(?=[^<>]{0,200}description)[^<>]{0,300}content\s*=\s*[\"']?px-captcha"),
    ),
    Body(
        vendor="perimeterx",
        kind=CAPTCHA,
        row="10",
        has=(b"_pxappid", b"_pxuuid"),
        large=True,
        script=True,
    ),
    # alone it is the sensor, which a site's own 404 carries too
    Body(
        vendor="perimeterx",
        kind=CAPTCHA,
        row="10",
        has=(b"_pxappid",),
        script=True,
        status=FORBIDDEN,
    ),
    Body(
        vendor="perimeterx",
        kind=CAPTCHA,
        row="10",
        has=(b"px-captcha",),
        pattern=_id(b"px-captcha"),
        few=FEW,
    ),
    Body(
        vendor="perimeterx",
        kind=CAPTCHA,
        row="10",
        has=(b"captcha.px-c",),
        few=FEW,
        pattern=_p(rb"captcha\.px-(?:cdn|cloud)\.net"),
    ),
    Body(vendor="perimeterx", kind=DENIAL, row="10", has=(b"perimeterx.com/whywasiblocked",)),
    # Imperva, Distil
    Body(
        vendor="imperva",
        kind=DENIAL,
        row="11",
        has=(b"incapsula incident id",),
        large=True,
        pattern=_p(rb"<iframe[^<>]{0,600}_incapsula_resource"),
    ),
    Body(
        vendor="imperva",
        kind=DENIAL,
        row="11",
        has=(b"incapsula incident id",),
        large=True,
        headers=(("x-iinfo", r".+"),),
    ),
    Body(
        vendor="imperva",
        kind=DENIAL,
        row="11",
        has=(b"incapsula incident id",),
        large=True,
        status=ERROR,
    ),
    Body(
        vendor="imperva",
        kind=DENIAL,
        row="11",
        has=(b"_incapsula_resource", b"incident_id="),
        pattern=_p(rb"<iframe[^<>]{0,600}_incapsula_resource[^<>]{0,600}incident_id="),
        few=FEW,
    ),
    Body(
        vendor="imperva",
        kind=CHALLENGE,
        row="12",
        has=(b"_incapsula_resource?swjiylwa=",),
        pattern=_p(rb"swjiylwa=[0-9a-f]{32},[0-9a-f]{32}"),
        few=NONE,
    ),
    Body(vendor="imperva", kind=CHALLENGE, row="13", has=(b"distilcaptchaform",)),
    Body(
        vendor="imperva",
        kind=CHALLENGE,
        row="13",
        has=(b"distilnetworks.com/images/anomaly-detected",),
    ),
    Body(
        vendor="imperva",
        kind=CHALLENGE,
        row="13",
        few=FEW,
        has=(b"something about your browser made us think you were a bot",),
    ),
    # AWS WAF
    Body(
        vendor="aws-waf",
        kind=CAPTCHA,
        row="15",
        has=(b"gokuprops", b"captcha.js"),
        large=True,
        script=True,
    ),
    Body(
        vendor="aws-waf",
        kind=CAPTCHA,
        row="15",
        has=(b"gokuprops",),
        script=True,
        titles=frozenset({"human verification"}),
    ),
    Body(
        vendor="aws-waf",
        kind=CHALLENGE,
        row="14",
        has=(b"gokuprops", b"awswaf"),
        large=True,
        script=True,
    ),
    # CloudFront: 403 only, the same page with a 5xx is the target's fault
    Body(
        vendor="cloudfront",
        kind=DENIAL,
        row="16",
        status=FORBIDDEN,
        has=(b"generated by cloudfront",),
    ),
    Body(
        vendor="cloudfront",
        kind=DENIAL,
        row="16",
        status=FINE,
        has=(b"generated by cloudfront", b"request blocked"),
        titles=frozenset({"error: the request could not be satisfied"}),
    ),
    # Vercel
    Body(
        vendor="vercel",
        kind=CHALLENGE,
        row="17",
        has=(b"verifying your browser",),
        few=FEW,
        pattern=_p(rb"vercel"),
    ),
    Body(vendor="vercel", kind=CHALLENGE, row="17", has=(b"/vercel/security/",), few=FEW),
    # Kasada
    Body(vendor="kasada", kind=CHALLENGE, row="19", has=(b"kpsdk", b"ips.js"), few=FEW),
    # Sucuri
    Body(
        vendor="sucuri",
        kind=CHALLENGE,
        row="21",
        has=(b"sucuri_cloudproxy_js",),
        script=True,
    ),
    Body(vendor="sucuri", kind=DENIAL, row="20", status=ERROR, has=(b"sucuri-firewall-block.css",)),
    Body(vendor="sucuri", kind=DENIAL, row="20", status=ERROR, has=(b"cloudproxy@sucuri.net",)),
    Body(vendor="sucuri", kind=DENIAL, row="20", status=ERROR, has=(b"sucuri website firewall",)),
    # Fastly: the asset's path alone is on every served page
    Body(
        vendor="fastly",
        kind=CHALLENGE,
        row="22",
        has=(b"_fs-ch-",),
        large=True,
        titles=frozenset({"client challenge"}),
    ),
    # F5
    Body(
        vendor="f5",
        kind=DENIAL,
        row="23",
        has=(b"support id",),
        large=True,
        titles=frozenset({"request rejected"}),
    ),
    Body(
        vendor="f5",
        kind=DENIAL,
        row="23",
        few=FEW,
        has=(b"the requested url was rejected", b"support id"),
    ),
    # F5 Shape: its header is on served pages too, hence the call as well
    Body(
        vendor="shape",
        kind=CHALLENGE,
        row="24",
        has=(b"shapesecurity.",),
        headers=(("x-????????-[abcdfz]", r".+"),),
        status=FORBIDDEN,
    ),
    Body(
        vendor="shape",
        kind=CHALLENGE,
        row="24",
        has=(b"shapesecurity.",),
        headers=(("x-????????-[abcdfz]", r".+"),),
        few=NONE,
    ),
    # Anubis
    Body(
        vendor="anubis",
        kind=CHALLENGE,
        row="25",
        has=(b"anubis_challenge",),
        large=True,
        pattern=_p(rb"<script[^<>]{0,200}id\s*=\s*[\"']?anubis_challenge"),
    ),
    Body(
        vendor="anubis",
        kind=CHALLENGE,
        row="25",
        has=(b"/.within.website/x/cmd/anubis/",),
        few=FEW,
    ),
    # DDoS-Guard
    Body(
        vendor="ddos-guard",
        kind=CHALLENGE,
        row="26",
        has=(b"/.well-known/ddos-guard/",),
        headers=(("server", r"ddos-guard.*"),),
        status=BUSY,
    ),
    Body(vendor="ddos-guard", kind=CAPTCHA, row="26", has=(b"ddg-captcha-page",)),
    Body(
        vendor="ddos-guard",
        kind=CHALLENGE,
        row="26",
        has=(b"link-ddg",),
        pattern=_id(b"link-ddg"),
        few=FEW,
    ),
    Body(
        vendor="ddos-guard",
        kind=CHALLENGE,
        row="26",
        has=(b"/.well-known/ddos-guard/",),
        few=NONE,
        status=ERROR,
    ),
    # Qrator
    Body(
        vendor="qrator",
        kind=CHALLENGE,
        row="27",
        has=(b"/__qrator/qauth",),
        few=FEW,
        pattern=_p(rb"<script[^<>]{0,200}/__qrator/qauth"),
    ),
    # Azure
    Body(
        vendor="azure",
        kind=DENIAL,
        row="28",
        status=FORBIDDEN,
        has=(b"microsoft-azure-application-gateway",),
    ),
    Body(
        vendor="azure",
        kind=DENIAL,
        row="29",
        has=(b"the request is blocked",),
        headers=(("x-azure-ref", r".+"),),
        status=Statuses(only=frozenset({403, 429})),
    ),
    # Wordfence
    Body(vendor="wordfence", kind=DENIAL, row="30", has=(b"generated by wordfence",), status=ERROR),
    Body(
        vendor="wordfence",
        kind=DENIAL,
        row="30",
        status=BUSY,
        has=(b"your access to this site has been limited",),
    ),
    # ModSecurity
    Body(
        vendor="modsecurity",
        kind=DENIAL,
        row="31",
        status=ERROR,
        has=(b"this error was generated by mod_security",),
    ),
    # StackPath
    Body(
        vendor="stackpath",
        kind=DENIAL,
        row="32",
        has=(b"protected by stackpath", b"triggered the service and blocked your request"),
    ),
    Body(
        vendor="stackpath",
        kind=DENIAL,
        row="32",
        status=ERROR,
        has=(b"this website is using a security service to protect itself", b"stackpath"),
    ),
    # Radware
    Body(vendor="radware", kind=DENIAL, row="33", has=(b"cloudwebsec@radware.com",)),
    Body(
        vendor="radware",
        kind=DENIAL,
        row="33",
        status=ERROR,
        has=(b"because we have detected unauthorized activity",),
    ),
    Body(
        vendor="radware",
        kind=DENIAL,
        row="33",
        few=FEW,
        has=(b"because we have detected unauthorized activity",),
    ),
    Body(vendor="radware", kind=CAPTCHA, row="33", has=(b"shieldsquare",), status=FORBIDDEN),
    Body(vendor="radware", kind=CAPTCHA, row="33", has=(b"validate.perfdrive.com",), few=FEW),
    # Alibaba
    Body(vendor="alibaba", kind=CAPTCHA, row="34", has=(b"x5secdata",), large=True),
    Body(vendor="alibaba", kind=CAPTCHA, row="34", has=(b"/_____tmd_____/punish",)),
    Body(
        vendor="alibaba",
        kind=DENIAL,
        row="35",
        has=(b"errors.aliyun.com",),
        status=Statuses(only=frozenset({405})),
    ),
    Body(
        vendor="alibaba",
        kind=DENIAL,
        row="35",
        has=(b"alicdn.com/sd-base/",),
        status=Statuses(only=frozenset({405})),
    ),
    # the smaller ones
    Body(vendor="tencent", kind=DENIAL, row="36", status=ERROR, has=(b"waf.tencent-cloud.com",)),
    Body(
        vendor="yundun", kind=DENIAL, row="36", status=ERROR, has=(b"blocked by yundun cloud waf",)
    ),
    Body(
        vendor="cloudbric",
        kind=DENIAL,
        row="36",
        status=ERROR,
        has=(b"your request was blocked by cloudbric",),
    ),
    Body(
        vendor="reblaze",
        kind=DENIAL,
        row="36",
        status=ERROR,
        has=(b"access denied (", b"do not hesitate to contact us"),
        pattern=_p(rb"access denied \(\d+\)"),
    ),
    Body(vendor="sitelock", kind=DENIAL, row="36", status=ERROR, has=(b"sitelock incident id",)),
    Body(
        vendor="imunify360", kind=DENIAL, row="36", status=ERROR, has=(b"protected by imunify360",)
    ),
    Body(vendor="arvancloud", kind=DENIAL, row="36", has=(b"arvancloud",), status=FORBIDDEN),
    Body(
        vendor="fortiweb",
        kind=DENIAL,
        row="37",
        has=(b"fgd_icon", b"attack id", b"message id"),
    ),
    Body(vendor="fortiweb", kind=DENIAL, row="37", status=ERROR, has=(b"attack id", b"message id")),
    # with a 503 it is what any server says that is down
    Body(
        vendor="fortiweb",
        kind=DENIAL,
        row="37",
        status=FORBIDDEN,
        has=(b"server unavailable",),
        titles=frozenset({"server unavailable!"}),
    ),
    Body(vendor="barracuda", kind=DENIAL, row="37", status=ERROR, has=(b"barra_counter_session",)),
    Body(vendor="netscaler", kind=DENIAL, row="37", has=(b"appfw session id",)),
    # Google
    Body(
        vendor="google",
        kind=CAPTCHA,
        row="38",
        has=(b"unusual traffic from your computer network",),
        pattern=_p(rb"captcha-form|/policies/terms/|/sorry/"),
    ),
    Body(
        vendor="google",
        kind=CAPTCHA,
        row="38",
        status=ERROR,
        has=(b"unusual traffic from your computer network",),
    ),
    # Amazon
    Body(
        vendor="amazon",
        kind=CAPTCHA,
        row="40",
        has=(b"/errors/validatecaptcha",),
        large=True,
        pattern=_p(
            rb"<form[^<>]{0,400}action\s*=\s*[\"']?[^\"'<>\s]{0,200}/errors/validatecaptcha"
        ),
    ),
    Body(vendor="amazon", kind=CAPTCHA, row="40", has=(b"opfcaptcha",), few=FEW),
    Body(vendor="amazon", kind=CAPTCHA, row="40", has=(b"csm-captcha-instrumentation",), few=FEW),
    Body(
        vendor="amazon", kind=DENIAL, row="40", has=(b"api-services-support@amazon.com",), few=FEW
    ),
    # any site may be sorry: the page must name Amazon
    Body(
        vendor="amazon",
        kind=DENIAL,
        row="40",
        status=ERROR,
        has=(b"amazon",),
        titles=frozenset({"sorry! something went wrong!"}),
    ),
    # Reddit: the phrase stands behind 100 KB of styles and scripts
    Body(
        vendor="reddit",
        kind=DENIAL,
        row="41",
        has=(b"network security",),
        status=ERROR,
        visible=("blocked by network security",),
    ),
    Body(
        vendor="reddit",
        kind=DENIAL,
        row="41",
        has=(b"network security",),
        few=FEW,
        visible=("blocked by network security",),
    ),
    Body(
        vendor="reddit", kind=CHALLENGE, row="41", has=(b"please wait for verification",), few=FEW
    ),
    # a captcha's widget on an error page, nobody's in particular
    Body(
        vendor=None,
        kind=CAPTCHA,
        row="47",
        has=(b"captcha",),
        status=BUSY,
        pattern=_id(rb"(?:g-recaptcha|h-captcha)"),
    ),
    Body(
        vendor=None,
        kind=CAPTCHA,
        row="47",
        has=(b"cf-turnstile",),
        status=BUSY,
        pattern=_id(b"cf-turnstile"),
    ),
)

#: The same for JSON: forms that the vendors send to scripts.
JSON_BODIES: tuple[Body, ...] = (
    Body(
        vendor="datadome",
        kind=CAPTCHA,
        row="9",
        has=(b"captcha-delivery.com",),
        pattern=_p(rb"\"url\"\s*:\s*\"https?:(?:\\?/){2}geo\.captcha-delivery\.com"),
    ),
    Body(
        vendor="perimeterx",
        kind=CAPTCHA,
        row="10",
        has=(b'"appid"', b'"vid"', b'"uuid"'),
        pattern=_p(rb"\"(?:blockscript|jsclientsrc|hosturl)\""),
    ),
    Body(vendor="akamai", kind=CHALLENGE, row="7", has=(b"sec-cp-challenge",), status=ERROR),
    Body(
        vendor="alibaba",
        kind=CAPTCHA,
        row="34",
        has=(b"x5secdata=",),
        pattern=_p(rb"\"url\"\s*:\s*\"[^\"]{0,500}_____tmd_____(?:\\?/)punish"),
    ),
)

#: What narrows a vendor's kind down, by a pattern in the body.
KINDS: Mapping[str, tuple[tuple[re.Pattern[bytes], Kind], ...]] = {
    "datadome": (
        (_p(rb"[\"']t[\"']\s*:\s*[\"']bv[\"']"), DENIAL),
        (_p(rb"[\"']rt[\"']\s*:\s*[\"']c[\"']|captcha-delivery\.com/c\.js"), CAPTCHA),
        (_p(rb"[\"']rt[\"']\s*:\s*[\"']i[\"']|captcha-delivery\.com/i\.js"), CHALLENGE),
    ),
    "perimeterx": ((_p(rb"px-captcha|captcha\.js"), CAPTCHA),),
}


class Title(NamedTuple):
    """What a title says. ``strong`` ones count on any status, others on an error only."""

    vendor: str | None
    kind: Kind
    row: str
    strong: bool = False


#: Exact titles, normalised (``titles.py``).
TITLES: Mapping[str, Title] = {
    "just a moment...": Title("cloudflare", CHALLENGE, "1", strong=True),
    "please wait... | cloudflare": Title("cloudflare", CHALLENGE, "1", strong=True),
    "attention required! | cloudflare": Title("cloudflare", DENIAL, "3", strong=True),
    "pardon our interruption": Title("imperva", CHALLENGE, "13", strong=True),
    "pardon our interruption...": Title("imperva", CHALLENGE, "13", strong=True),
    "vercel security checkpoint": Title("vercel", CHALLENGE, "17", strong=True),
    "ddos-guard": Title("ddos-guard", CHALLENGE, "26", strong=True),
    "robot check": Title("amazon", CAPTCHA, "40", strong=True),
    "sina visitor system": Title("weibo", CHALLENGE, "43", strong=True),
    "radware bot manager captcha": Title("radware", CAPTCHA, "33", strong=True),
    "shieldsquare captcha": Title("radware", CAPTCHA, "33", strong=True),
    "unauthorized request blocked": Title("radware", DENIAL, "33", strong=True),
    "application firewall block page": Title("netscaler", DENIAL, "37", strong=True),
    "making sure you're not a bot!": Title("anubis", CHALLENGE, "25", strong=True),
    "before you continue to google": Title("google", CONSENT, "39", strong=True),
    "before you continue to google search": Title("google", CONSENT, "39", strong=True),
    "even geduld...": Title("cloudflare", CHALLENGE, "1"),
    "access denied": Title(None, DENIAL, "6"),
    "access to this page has been denied": Title("perimeterx", CAPTCHA, "10"),
    "access to this page has been denied.": Title("perimeterx", CAPTCHA, "10"),
    "robot or human?": Title("perimeterx", CAPTCHA, "10"),
    "request rejected": Title("f5", DENIAL, "23"),
    "client challenge": Title("fastly", CHALLENGE, "22"),
    "human verification": Title("aws-waf", CAPTCHA, "15"),
    "you are being redirected...": Title("sucuri", CHALLENGE, "21"),
    "blocked": Title(None, DENIAL, "41"),
    "forbidden": Title(None, DENIAL, "45"),
    "403 forbidden": Title(None, DENIAL, "28"),
    "challenge page": Title("akamai", CHALLENGE, "7"),
    "security check": Title(None, CAPTCHA, "47"),
    "your access to this site has been limited": Title("wordfence", DENIAL, "30"),
    "not acceptable!": Title("modsecurity", DENIAL, "31"),
    "stackpath": Title("stackpath", DENIAL, "32"),
}

#: Parts of a title, on an error only.
TITLE_PARTS: tuple[tuple[str, Title], ...] = (
    ("used cloudflare to restrict access", Title("cloudflare", DENIAL, "3")),
    ("sucuri website firewall", Title("sucuri", DENIAL, "20")),
    ("godaddy security - access denied", Title("sucuri", DENIAL, "20")),
    ("godaddy website firewall", Title("sucuri", DENIAL, "20")),
    ("cloudbric", Title("cloudbric", DENIAL, "36")),
    ("access has been denied", Title("perimeterx", CAPTCHA, "10")),
    ("- access denied", Title(None, DENIAL, "20")),
)

#: Titles that a CDN serves for its origin's faults as well: not on a 5xx.
NOT_ON_5XX: Mapping[str, Title] = {
    "error: the request could not be satisfied": Title("cloudfront", DENIAL, "16"),
}

#: A weak title without a vendor gets the one whose header stands beside it.
TITLE_SIGNS: tuple[tuple[str, str, str], ...] = (
    ("server", r"akamaighost.*", "akamai"),
    ("server", r"cloudfront.*", "cloudfront"),
    ("server", r"microsoft-azure.*", "azure"),
    ("server", r"snooserv.*", "reddit"),
    ("server", r"sucuri.*", "sucuri"),
)


class Wall(NamedTuple):
    """An address that is evidence, as a redirect's target or as the page's own."""

    pattern: re.Pattern[str]
    vendor: str
    kind: Kind
    row: str
    evidence: str


def _wall(pattern: str, vendor: str, kind: Kind, row: str, evidence: str) -> Wall:
    return Wall(re.compile(pattern, re.IGNORECASE), vendor, kind, row, evidence)


WALLS: tuple[Wall, ...] = (
    _wall(
        r"^(?:https?:)?//(?:[^/?#]*\.)?perfdrive\.com(?:[:/?#]|$)",
        "radware",
        CAPTCHA,
        "33",
        "perfdrive.com",
    ),
    _wall(
        r"/\.within\.website/(?:x/cmd/anubis/)?[^#]*[?&]?redir=",
        "anubis",
        CHALLENGE,
        "25",
        "/.within.website/",
    ),
    _wall(
        r"^(?:(?:https?:)?//[^/?#]*)?/sorry/(?:index|image)?(?:[?#]|$)",
        "google",
        CAPTCHA,
        "38",
        "/sorry/",
    ),
    _wall(
        r"^(?:https?:)?//(?:[^/?#@]*\.)?google\.[a-z.]+(?::\d+)?/sorry(?:[/?#]|$)",
        "google",
        CAPTCHA,
        "38",
        "/sorry/",
    ),
    _wall(
        r"^(?:https?:)?//consent\.(?:google|youtube)\.[a-z.]+(?:[:/?#]|$)",
        "google",
        CONSENT,
        "39",
        "consent.google.com",
    ),
    _wall(r"x5secdata=|/_____tmd_____/punish", "alibaba", CAPTCHA, "34", "x5secdata"),
    _wall(
        r"^(?:https?:)?//(?:[^/?#]*\.)?captcha-delivery\.com(?:[:/?#]|$)",
        "datadome",
        CAPTCHA,
        "9",
        "captcha-delivery.com",
    ),
    _wall(r"/errors/validatecaptcha(?:[?#]|$)", "amazon", CAPTCHA, "40", "/errors/validateCaptcha"),
    _wall(
        r"^(?:https?:)?//passport\.weibo\.c[a-z.]+/visitor/",
        "weibo",
        CHALLENGE,
        "43",
        "passport.weibo.com/visitor",
    ),
    _wall(
        r"^(?:(?:https?:)?//(?:[^/?#]*\.)?linkedin\.com)/authwall(?:[/?#]|$)",
        "linkedin",
        DENIAL,
        "42",
        "/authwall",
    ),
    _wall(r"/blocked\?url=[^#]*[?&](?:uuid|vid)=", "perimeterx", CAPTCHA, "10", "/blocked?url="),
)

#: Statuses that only one vendor sends.
STATUSES: Mapping[int, tuple[str, Kind, str]] = {999: ("linkedin", DENIAL, "42")}
