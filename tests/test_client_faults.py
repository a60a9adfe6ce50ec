"""Each client tells faults apart: what failed, on whose side, and what a proxy answered.

The hostile web plays the sites and proxies. A timeout is 1.5 s here.
"""

from __future__ import annotations

import time

import pytest

from retryscrape.crawl.faults import At, FetchError
from retryscrape.hostile.process import WebHandle
from tests.client_bench import fetch

pytest_plugins = ("tests.hostile_fixture", "tests.client_reactor")

CLIENTS = ("asyncio", "http11")
TIMEOUT = 1.5

#: path at the target, fetched directly; what it comes to
DIRECT = {
    "/reset/1": "reset",
    "/close/1": "reset",
    "/hang/1": "timeout",
    "/hangbody/1": "timeout",
    "/resetbody/1": "truncated",
    "/cutbody/1": "truncated",
    "/shortlength/1": "truncated",
    "/cutchunked/1": "truncated",
    "/garbage/1": "decode",
    "/badstatus/1": "decode",
}

#: proxy, and what it comes to (reason, side, the proxy's status) for http:// and https:// targets
PROXIES = {
    "dead": (("connect", At.PROXY, None), ("connect", At.PROXY, None)),
    "always-407": (407, ("connect", At.PROXY, 407)),
    "wrong-auth": (407, ("connect", At.PROXY, 407)),
    "refuses-403": (403, ("connect", At.PROXY, 403)),
    "bad-gateway": (502, ("connect", At.PROXY, 502)),
    "unavailable": (503, ("connect", At.PROXY, 503)),
    "no-tunnels": (200, ("connect", At.PROXY, 403)),
    "hangs": (("timeout", At.UNKNOWN, None), ("timeout", At.UNKNOWN, None)),
    "hangs-after": (("timeout", At.UNKNOWN, None), ("timeout", At.UNKNOWN, None)),
    "closes": (("reset", At.UNKNOWN, None), ("reset", At.PROXY, None)),
    "closes-after": (("reset", At.UNKNOWN, None), ("reset", At.PROXY, None)),
    "closes-partial": (("reset", At.UNKNOWN, None), ("reset", At.PROXY, None)),
    "garbage": (("decode", At.UNKNOWN, None), ("decode", At.PROXY, None)),
    # 2,000 bytes are a page's beginning, or not even a TLS handshake
    "cuts": (("truncated", At.UNKNOWN, None), ("reset", At.UNKNOWN, None)),
}

#: Scrapy's handler does not notice that a proxy closed during CONNECT.
HTTP11_WAITS = {"closes", "closes-after", "closes-partial"}


@pytest.fixture(autouse=True)
def trusted(web: WebHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL trusts the hostile web's authority."""
    monkeypatch.setenv("SSL_CERT_FILE", web.ca_file)


def fault(client: str, url: str, **how) -> FetchError:
    with pytest.raises(FetchError) as caught:
        fetch(client, url, **{"timeout": TIMEOUT, **how})
    return caught.value


def told(client: str, url: str, **how):
    """(reason, side, status) of a fault, or the status of an answer."""
    try:
        return fetch(client, url, **{"timeout": TIMEOUT, **how}).status
    except FetchError as error:
        return error.reason, error.at, error.status


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("path", DIRECT)
def test_a_fault_of_the_target_has_its_own_reason(web: WebHandle, client: str, path: str):
    assert told(client, web.url(path)) == (DIRECT[path], At.TARGET, None)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", PROXIES)
def test_faults_of_a_proxy_on_the_way_to_an_http_target(web: WebHandle, client: str, name: str):
    url = web.url("/ok/1", "shop.test")
    assert told(client, url, proxy=web.proxy(name)) == PROXIES[name][0]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", PROXIES)
def test_faults_of_a_proxy_on_the_way_to_an_https_target(web: WebHandle, client: str, name: str):
    url = web.url("/ok/1", "shop.test", secure=True)
    expected = PROXIES[name][1]
    if client == "http11" and name in HTTP11_WAITS:
        expected = ("timeout", At.UNKNOWN, None)
    assert told(client, url, proxy=web.proxy(name)) == expected


def test_a_proxy_that_closes_during_connect_is_noticed_at_once(web: WebHandle):
    before = time.monotonic()
    error = fault(
        "asyncio", web.url("/", "shop.test", secure=True), proxy=web.proxy("closes"), timeout=20
    )
    assert (error.reason, error.at) == ("reset", At.PROXY)
    assert time.monotonic() - before < 5


def test_a_proxy_that_resets_at_once_is_at_fault_whenever_the_reset_arrives(web: WebHandle):
    """It can arrive before the connection counts as made, or after."""
    error = fault("asyncio", web.url("/", "shop.test", secure=True), proxy=web.proxy("resets"))
    assert error.reason in {"connect", "reset"}
    assert error.at is At.PROXY


@pytest.mark.parametrize("client", CLIENTS)
def test_a_refused_connection_is_the_targets(client: str):
    assert told(client, "http://127.0.0.1:1/") == ("connect", At.TARGET, None)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_host_without_an_address_is_a_dns_fault(client: str):
    assert told(client, "http://nosuch.invalid/") == ("dns", At.TARGET, None)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_proxy_without_an_address_is_the_proxys_dns_fault(client: str):
    url = "http://shop.test/"
    assert told(client, url, proxy="http://nosuch.invalid:8080") == ("dns", At.PROXY, None)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("host", ["expired.test", "wrong.test"])
def test_a_bad_certificate_is_a_tls_fault_of_nobody_certain(web: WebHandle, client: str, host: str):
    url = web.url("/ok/1", host, secure=True)
    assert told(client, url, proxy=web.proxy("good1")) == ("tls", At.UNKNOWN, None)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_bad_certificate_is_taken_where_the_setting_says_so(web: WebHandle, client: str):
    url = web.url("/ok/1", "expired.test", secure=True)
    settings = {"DOWNLOAD_VERIFY_CERTIFICATES": False}
    assert fetch(client, url, proxy=web.proxy("good1"), settings=settings).status == 200


@pytest.mark.parametrize("client", CLIENTS)
def test_tls_to_a_plain_port_is_a_tls_fault(web: WebHandle, client: str):
    url = f"https://127.0.0.1:{web.http_port}/"
    assert told(client, url) == ("tls", At.TARGET, None)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("path", ["/hugelength/1", "/endless/1"])
def test_a_body_over_the_limit_is_given_up(web: WebHandle, client: str, path: str):
    """Announced, and found while it streams."""
    error = fault(client, web.url(path), max_size=100_000, timeout=10)
    assert (error.reason, error.at) == ("too_large", At.TARGET)
    assert error.bytes < 3_000_000


@pytest.mark.parametrize("client", CLIENTS)
def test_an_answer_that_ends_with_the_connection_is_partial(web: WebHandle, client: str):
    assert fetch(client, web.url("/nolength/1")).flags == ["partial"]


def test_a_reset_is_no_end_of_an_answer(web: WebHandle):
    """Scrapy's own handler takes it for one, with the flag ``partial``."""
    assert told("asyncio", web.url("/nolengthreset/1")) == ("truncated", At.TARGET, None)


@pytest.mark.parametrize("client", CLIENTS)
def test_truncated_bodies_are_given_where_scrapys_setting_wants_them(web: WebHandle, client: str):
    settings = {"DOWNLOAD_FAIL_ON_DATALOSS": False}
    response = fetch(client, web.url("/cutbody/1"), settings=settings)
    assert "dataloss" in response.flags
    assert 0 < len(response.body) < 13_000


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ["socks", "good1"])
def test_http_is_never_spoken_to_a_socks_port(web: WebHandle, client: str, name: str):
    where = web.proxy(name).partition("://")[2]
    url = web.url("/ok/1", "shop.test")
    assert told(client, url, proxy=f"socks4://{where}")[:2] == ("unavailable", At.PROXY)
    assert web.connections(name) == []


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", ["auth1", "wrong-auth", "closes", "cuts", "hangs"])
def test_no_fault_says_a_secret(web: WebHandle, client: str, name: str):
    proxy = web.proxy(name).replace("http://127", "http://user:s3cr3t@127")
    url = web.url("/ok/1", "shop.test", secure=True).replace("https://", "https://me:s3cr3t@")
    try:
        said = repr(fetch(client, url, proxy=proxy, timeout=TIMEOUT).headers)
    except FetchError as error:
        said = f"{error!r} {error}"
    assert "s3cr3t" not in said
