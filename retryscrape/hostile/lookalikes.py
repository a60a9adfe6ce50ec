"""Ordinary answers that look like block pages (F1 to F22 of block_pages.md). Data only."""

from __future__ import annotations

from retryscrape.hostile.blockpages import JSON, BlockPage
from retryscrape.hostile.text import page, prose

_TEXT = prose("look-alikes", 2500)


def _fine(title: str, extra: str, *headers: tuple[str, str]) -> BlockPage:
    body = page(title, f"<h1>{title}</h1>{extra}{_TEXT}")
    return BlockPage(200, body, headers, outcome="ok")


def _other(
    outcome: str, status: int, title: str, body: str, *headers: tuple[str, str]
) -> BlockPage:
    return BlockPage(status, page(title, body), headers, outcome=outcome)


#: F1 to F22 of block_pages.md and rows 4, 5, 46: what must not be called blocked.
LOOKALIKES: dict[str, BlockPage] = {
    "cloudflare-1015": BlockPage(
        429,
        page("Access denied | shop.test used Cloudflare to restrict access", "<p>Error 1015</p>"),
        (("Server", "cloudflare"), ("Retry-After", "2")),
        outcome="throttled",
    ),
    "cloudflare-521": _other(
        "target_error",
        521,
        "shop.test | 521: Web server is down",
        '<div id="cf-error-details"></div>',
        ("Server", "cloudflare"),
    ),
    "csp": _fine(
        "Hacker forum",
        "",
        (
            "Content-Security-Policy",
            "script-src cdnjs.cloudflare.com https://www.google.com/recaptcha/",
        ),
    ),
    "jsd": _fine(
        "Coffee makers",
        "<script>window.__CF$cv$params={};var a='/cdn-cgi/challenge-"
        "platform/scripts/jsd/main.js'</script>",
        ("Server", "cloudflare"),
    ),
    "turnstile-form": _fine(
        "Sign up",
        '<form><div class="cf-turnstile"></div><script '
        'src="https://challenges.cloudflare.com/turnstile/v0/api.js"></script></form>',
    ),
    "recaptcha-form": _fine(
        "Contact us",
        '<form class="search-captcha"><div class="g-recaptcha">'
        '</div><script src="https://www.google.com/recaptcha/api.js"></script></form>',
    ),
    "captcha-article": _fine("How reCAPTCHA works: attention required before you sign", ""),
    "moment-article": _fine("Just a moment while we finish setup", ""),
    "denied-article": _fine("Access denied: a history of the velvet rope", _TEXT),
    "imperva-headers": _fine(
        "Coffee makers", "", ("x-iinfo", "1-2-3 NNYN"), ("x-cdn", "Incapsula")
    ),
    "akamai-404": _other("gone", 404, "Not found", "<p>gone</p>", ("Server", "AkamaiGHost")),
    "akamai-telemetry": _fine(
        "Newsletter",
        "<script>bmak.form_submit()</script>",
        ("akamai-grn", "0.1"),
        ("Set-Cookie", "_abck=1; Path=/"),
    ),
    "aws-sdk": _fine(
        "Checkout",
        '<script src="https://x.edge.captcha-sdk.awswaf.com/jsapi.js"></script>',
        ("x-amzn-requestid", "1"),
    ),
    "fastly-asset": _fine("Magazine", '<script src="/_fs-ch-1AbC/script.js"></script>'),
    "vendor-words": _fine("DataDome or PerimeterX? A comparison", "<p>Imperva, Kasada, Akamai</p>"),
    "datadome-headers": _fine(
        "Coffee makers", "", ("x-datadome", "protected"), ("Set-Cookie", "datadome=abc; Path=/")
    ),
    "svg-title": BlockPage(
        200,
        f"<html><body><svg><title>Access denied</title></svg>{_TEXT}</body></html>",
        outcome="ok",
    ),
    "accepted": BlockPage(202, '{"status":"queued"}', (), JSON, "ok"),
    "forum": _fine("A thread", "<p>It said: access denied, you have been blocked.</p>" + _TEXT),
    "legal": _other(
        "refused",
        451,
        "Unavailable For Legal Reasons",
        "<p>Court order</p>",
        ("Link", '<https://court.test/>; rel="blocked-by"'),
    ),
    "json-phrase": BlockPage(
        200, '{"text":"Sorry, you have been blocked. _cf_chl_opt"}', (), JSON, "ok"
    ),
}
