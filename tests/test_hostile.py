"""The hostile web misbehaves exactly as it says, so that other tests can rely on it."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import socket
import ssl
import time
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import brotli
import pytest
import zstandard

from retryscrape.hostile import manifest
from retryscrape.hostile.blockpages import BLOCK_PAGES
from retryscrape.hostile.framing import Framing
from retryscrape.hostile.lookalikes import LOOKALIKES
from retryscrape.hostile.names import Names
from retryscrape.hostile.process import WebHandle, hostile_process
from retryscrape.hostile.proxy_http import decode_basic
from retryscrape.hostile.scenarios import ALL, SCENARIOS, respond
from retryscrape.hostile.scene import Memory, Scene
from retryscrape.hostile.text import article
from retryscrape.hostile.wire import End, Send, Wait, parse_head
from retryscrape.policy.outcomes import Outcome

pytest_plugins = ("tests.hostile_fixture",)


@dataclass
class Got:
    """An answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def fetch(url: str, proxy: str | None = None, timeout: float = 10, **headers: str) -> Got:
    """One request, plain or through an http proxy; redirects are not followed."""
    parts, via = urlsplit(url), urlsplit(proxy or url)
    connection = http.client.HTTPConnection(via.hostname, via.port, timeout=timeout)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if proxy and via.username is not None:
        sent["Proxy-Authorization"] = basic(f"{via.username}:{via.password}")
    path = url if proxy else parts._replace(scheme="", netloc="").geturl()
    try:
        connection.request("GET", path, headers=sent)
        response = connection.getresponse()
        return Got(response.status, response.headers, response.read())
    finally:
        connection.close()


def basic(pair: str) -> str:
    return "Basic " + base64.b64encode(pair.encode()).decode()


def raw(port: int, request: bytes, timeout: float = 5) -> bytes:
    """Everything that comes back on a bare socket until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as sock:
        sock.sendall(request)
        parts = []
        while part := sock.recv(65_536):
            parts.append(part)
        return b"".join(parts)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x.test\r\nConnection: close\r\n\r\n".encode()


def scene(path: str, client: str = "127.0.0.1", memory: Memory | None = None, **headers: str):
    """A request as scenarios see it, without a network."""
    fields = "".join(f"\r\n{name}: {value}" for name, value in headers.items())
    request = parse_head(f"GET {path} HTTP/1.1\r\nHost: shop.test{fields}".encode())
    assert request is not None
    request.client = client
    return Scene(request, memory or Memory(), now=100.0, epoch=1_700_000_000.0)


def status(reply) -> int:
    return int(reply[0].data[9:12])


# Scenarios, without a network


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_every_scenario_answers_its_own_example(scenario):
    reply = respond(scene(scenario.path))
    assert reply
    assert isinstance(reply[0], Send | End | Wait)
    assert scenario.about


def test_scenarios_have_different_names():
    assert len({scenario.name for scenario in ALL}) == len(ALL)


def test_the_same_url_gives_the_same_page_and_no_two_urls_share_one():
    pages = {article(f"shop.test/ok/{n}", 13_000) for n in range(500)}
    assert len(pages) == 500
    assert article("shop.test/ok/1", 13_000) in pages
    assert 11_000 < min(map(len, pages)) < max(map(len, pages)) < 15_000


def test_a_fault_that_happens_twice_happens_twice_and_then_the_page_comes():
    memory = Memory()
    seen = [status(respond(scene("/status/503/x?times=2", memory=memory))) for _ in range(4)]
    assert seen == [503, 503, 200, 200]


def test_a_fault_per_client_is_counted_for_each_client():
    memory = Memory()
    path = "/status/503/x?times=1&per=client"
    clients = ("127.0.1.1", "127.0.1.2", "127.0.1.1")
    assert [status(respond(scene(path, c, memory))) for c in clients] == [503, 503, 200]


def test_latency_comes_before_the_answer():
    assert respond(scene("/ok/1?ms=200"))[0] == Wait(0.2)


@pytest.mark.parametrize(
    ("query", "sent"),
    [
        ("after=2", "Retry-After: 2\r\n"),
        ("after=1.5", "Retry-After: 1.5\r\n"),
        ("after=-1", "Retry-After: -1\r\n"),
        ("after=", "Retry-After: \r\n"),
        ("after=1,3&form=two", "Retry-After: 1\r\nRetry-After: 3\r\n"),
        ("after=5&form=imf", "Retry-After: Tue, 14 Nov 2023 22:13:25 GMT\r\n"),
        ("after=5&form=rfc850", "Retry-After: Tuesday, 14-Nov-23 22:13:25 GMT\r\n"),
        ("after=5&form=asctime", "Retry-After: Tue Nov 14 22:13:25 2023\r\n"),
        ("after=5&skew=-60&form=imf", "Retry-After: Tue, 14 Nov 2023 22:12:25 GMT\r\n"),
    ],
)
def test_retry_after_in_every_form(query, sent):
    data = respond(scene(f"/throttle/1?{query}"))[0].data.decode()
    assert data.startswith("HTTP/1.1 429 ")
    assert sent in data


def test_no_retry_after_unless_asked():
    assert b"Retry-After" not in respond(scene("/throttle/1"))[0].data


@pytest.mark.parametrize("name", BLOCK_PAGES)
def test_a_block_page_is_reached_by_its_name(name):
    row = BLOCK_PAGES[name]
    reply = respond(scene(f"/block/{name}"))
    assert status(reply) == row.status
    assert reply[0].data.endswith(row.body.encode())
    assert row.outcome == "blocked"


def test_lookalikes_are_not_blocked():
    assert {row.outcome for row in LOOKALIKES.values()} == {
        "ok", "gone", "refused", "throttled", "target_error"
    }  # fmt: skip


def test_a_busy_host_throttles_everybody_for_a_while_and_then_recovers():
    memory = Memory()
    hosts = {"shop.test": ("busy", {"after": 2, "seconds": 4})}

    def ask(now: float) -> int:
        asked = scene("/ok/1", memory=memory)
        asked.now = now
        return status(respond(asked, hosts))

    assert [ask(0), ask(0), ask(1), ask(4.9), ask(5.1), ask(60)] == [200, 200, 429, 429, 200, 200]


def test_a_ban_is_for_addresses_and_leaves_robots_txt_alone():
    hosts = {"shop.test": ("banned", {"clients": ("127.0.1.1",)})}
    assert status(respond(scene("/ok/1", "127.0.1.1"), hosts)) == 403
    assert status(respond(scene("/robots.txt", "127.0.1.1"), hosts)) == 200
    assert status(respond(scene("/ok/1", "127.0.1.2"), hosts)) == 200


def test_a_share_of_all_addresses_is_banned_on_each_host_in_its_own_way():
    def banned(host: str) -> set[str]:
        hosts = {"shop.test": ("banned", {"share": 0.2, "seed": host})}
        clients = [f"127.0.1.{n}" for n in range(1, 201)]
        return {c for c in clients if status(respond(scene("/ok/1", c), hosts)) == 403}

    assert 20 < len(banned("a")) < 60
    assert banned("a") == banned("a") != banned("b")


def test_a_parameter_without_sense_is_said():
    reply = respond(scene("/throttle/1?after=soon&form=imf"))
    assert status(reply) == 400


def test_an_address_wears_out_on_a_host():
    memory, hosts = Memory(), {"shop.test": ("wears_out", {"after": 2})}
    clients = ["127.0.1.1"] * 3 + ["127.0.1.2"]
    seen = [status(respond(scene("/ok/1", c, memory), hosts)) for c in clients]
    assert seen == [200, 200, 403, 200]


def test_a_cookie_is_tied_to_the_client_that_got_it():
    first = respond(scene("/tied/1", "127.0.1.1"))[0].data
    assert b"Set-Cookie: sid=c-127.0.1.1" in first
    mine = scene("/tied/1", "127.0.1.1", Cookie="sid=c-127.0.1.1")
    other = scene("/tied/1", "127.0.1.2", Cookie="sid=c-127.0.1.1")
    assert (status(respond(mine)), status(respond(other))) == (200, 403)


def test_a_solved_challenge_lets_plain_requests_of_that_client_pass():
    page = respond(scene("/challenge/1", "127.0.1.1"))[0].data.decode()
    assert "cf-mitigated: challenge" in page
    cookie = page.partition("document.cookie = '")[2].partition(";")[0]
    assert status(respond(scene("/challenge/1", "127.0.1.1", Cookie=cookie))) == 200
    assert status(respond(scene("/challenge/1", "127.0.1.2", Cookie=cookie))) == 403


def test_a_redirect_to_itself_ends_with_its_cookie():
    assert b"Location: /selfcookie/1\r\n" in respond(scene("/selfcookie/1"))[0].data
    assert status(respond(scene("/selfcookie/1", Cookie="seen=1"))) == 200


# Where names lead, and where answers end


@pytest.mark.parametrize(
    ("host", "port", "found"),
    [
        ("shop.test", 80, ("127.0.0.1", 8000)),
        ("SHOP.test.", 443, ("127.0.0.1", 8443)),
        ("shop.test", 8000, ("127.0.0.1", 8000)),
        ("localhost", 8000, ("127.0.0.1", 8000)),
        ("127.0.0.3", 8000, ("127.0.0.3", 8000)),
        ("odd.test", 443, ("127.0.0.9", 1)),
        ("nosuch.test", 80, "unknown"),
        ("x.invalid", 80, "unknown"),
        ("93.184.216.34", 80, "outside"),
        ("example.com", 80, "unknown"),
    ],
)
def test_names_lead_to_loopback_or_nowhere(host, port, found):
    assert Names(8000, 8443, {"odd.test": ("127.0.0.9", 1)}).find(host, port) == found


@pytest.mark.parametrize(
    ("method", "answer", "done"),
    [
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", True),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", False),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", True),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", True),
        ("GET", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\r\n\r\n", True),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\nuntil the end", False),
        ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                b"3\r\nabc\r\n0\r\n\r\n", True),
        ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", False),
        ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc", False),
        ("GET", b"SSH-2.0-OpenSSH\r\n", False),
    ],
)  # fmt: skip
def test_the_end_of_an_answer_is_found_however_its_bytes_arrive(method, answer, done):
    for size in (1, 7, len(answer)):
        framing = Framing(method)
        for start in range(0, len(answer), size):
            framing.feed(answer[start : start + size])
        assert framing.done is done


@pytest.mark.parametrize("pair", ["u:p", "u:p@ss:/#%", "u:päß€", ":x", "key:"])
def test_credentials_are_decoded_exactly(pair):
    assert decode_basic(basic(pair)) == pair


# The origin, over sockets


def test_pages_arrive_and_are_logged_with_all_headers(web: WebHandle):
    got = fetch(web.url("/ok/1?kb=13"), X_Odd="yes")
    assert got.status == 200
    assert 11_000 < len(got.body) < 15_000
    (entry,) = web.requests(path="/ok/1*")
    assert (entry["client"], entry["host"], entry["method"]) == ("127.0.0.1", "127.0.0.1", "GET")
    assert ["X-Odd", "yes"] in entry["headers"]
    assert abs(entry["epoch"] - time.time()) < 60


def test_hosts_by_address_see_the_same_port(web: WebHandle):
    for address in web.addresses["addresses"]:
        assert fetch(web.url("/ok/1", address)).status == 200
    assert len(web.requests(host=web.addresses["addresses"][-1])) == 1


def test_a_reset_forgets_counts_rules_pages_and_proxies(web: WebHandle):
    web.set_host("127.0.0.1", "failing", status=500)
    web.set_page("/mine", "hello", 418, headers={"X-Mine": "1"})
    url = web.add_proxy("extra", user="a", password="b c")
    assert fetch(web.url("/ok/1")).status == 500
    assert "b%20c@" in url
    mine = fetch(web.url("/mine", "127.0.0.2"))
    assert (mine.status, mine.body, mine.headers["X-Mine"]) == (418, b"hello", "1")
    web.reset()
    assert web.requests() == []
    assert fetch(web.url("/ok/1")).status == 200
    assert fetch(web.url("/mine", "127.0.0.2")).status == 404
    assert "extra" not in web.addresses["proxies"]


def test_a_wrong_command_is_refused_with_a_sentence(web: WebHandle):
    with pytest.raises(ValueError, match="no kind of proxy is called 'magic'"):
        web.add_proxy("x", kind="magic")
    with pytest.raises(ValueError, match="nonsense"):
        web.set_host("shop.test", "nonsense")


@pytest.mark.parametrize(
    ("name", "decode"),
    [
        ("gzip", gzip.decompress),
        ("deflate", zlib.decompress),
        ("br", brotli.decompress),
        ("zstd", lambda data: zstandard.ZstdDecompressor().decompressobj().decompress(data)),
    ],
)
def test_compressed_pages_are_whole(web: WebHandle, name, decode):
    got = fetch(web.url(f"/encoded/{name}/1"))
    assert got.headers["Content-Encoding"] == name
    assert decode(got.body).endswith(b"</html>\n")


def test_a_cut_gzip_stream_has_a_matching_length(web: WebHandle):
    got = fetch(web.url("/cutgzip/1"))
    assert int(got.headers["Content-Length"]) == len(got.body)
    with pytest.raises(EOFError):
        gzip.decompress(got.body)


@pytest.mark.parametrize("path", ["/shortlength/1", "/cutbody/1", "/cutchunked/1"])
def test_bodies_that_end_too_early(web: WebHandle, path):
    with pytest.raises(http.client.IncompleteRead):
        fetch(web.url(path))


@pytest.mark.parametrize("path", ["/reset/1", "/resetbody/1", "/nolengthreset/1"])
def test_resets_are_real_tcp_resets(web: WebHandle, path):
    with pytest.raises(ConnectionResetError):
        fetch(web.url(path))


def test_answers_that_are_no_http(web: WebHandle):
    port = web.http_port
    assert raw(port, get("/close/1")) == b""
    assert raw(port, get("/garbage/1")).startswith(b"SSH-2.0")
    assert raw(port, get("/status/999/1")).startswith(b"HTTP/1.1 999 Odd\r\n")
    assert raw(port, get("/emptystatus/1")) == b"\r\n\r\n"


@pytest.mark.parametrize("path", ["/hang/1", "/hangbody/1"])
def test_hanging_answers_do_hang(web: WebHandle, path):
    with pytest.raises(TimeoutError):
        fetch(web.url(path), timeout=0.3)


def test_an_endless_body_goes_on_and_stops_when_the_client_leaves(web: WebHandle):
    with socket.create_connection(("127.0.0.1", web.http_port), timeout=5) as sock:
        sock.sendall(get("/endless/1"))
        taken = 0
        while taken < 2_000_000:
            taken += len(sock.recv(65_536))
    assert fetch(web.url("/ok/1")).status == 200


def test_a_slow_drip_comes_in_pieces(web: WebHandle):
    begun = time.monotonic()
    body = fetch(web.url("/drip/1?every=0.02&size=1000")).body
    assert body.endswith(b"</html>\n")
    assert time.monotonic() - begun > 0.2


def test_listeners_that_reset_hang_and_refuse(web: WebHandle):
    with pytest.raises(ConnectionResetError):
        fetch(web.addresses["resets"] + "/")
    with pytest.raises(TimeoutError):
        fetch(web.addresses["hangs"] + "/", timeout=0.3)
    with pytest.raises(ConnectionRefusedError):
        fetch(web.addresses["refused"] + "/")


def test_an_outage_refuses_at_one_address_and_ends(web: WebHandle):
    web.outage("127.0.0.4", 0.5)
    with pytest.raises(ConnectionRefusedError):
        fetch(web.url("/ok/1", "127.0.0.4"))
    assert fetch(web.url("/ok/1", "127.0.0.3")).status == 200
    assert until(lambda: fetch(web.url("/ok/1", "127.0.0.4")).status == 200)


def until(good, seconds: float = 10) -> bool:
    """Ask again, without a pause of luck, until it is so."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if good():
                return True
        except OSError:
            time.sleep(0.02)
    return False


def test_a_keep_alive_connection_serves_requests_that_arrive_together(web: WebHandle):
    both = get("/ok/1").replace(b"Connection: close\r\n", b"") + get("/gone/2")
    answer = raw(web.http_port, both)
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    assert answer.count(b"HTTP/1.1 404 Not Found") == 1


# TLS


def secure(web: WebHandle, url: str, verify: bool = True) -> str:
    context = ssl.create_default_context(cafile=web.ca_file)
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    handler = urllib.request.HTTPSHandler(context=context)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), handler)
    with opener.open(url, timeout=10) as response:
        return response.read().decode()


def test_certificates_can_be_verified(web: WebHandle):
    assert json.loads(secure(web, web.url("/echo/1", secure=True)))["secure"] is True
    assert json.loads(secure(web, web.url("/echo/1", "127.0.0.5", secure=True)))["secure"] is True


@pytest.mark.parametrize(
    ("name", "words"), [("expired", "expired"), ("wrong_host", "doesn't match|mismatch|not valid")]
)
def test_bad_certificates_are_bad_in_the_way_they_say(web: WebHandle, name, words):
    url = web.addresses[name] + "/echo/1"
    with pytest.raises(OSError, match=words):
        secure(web, url)
    assert json.loads(secure(web, url, verify=False))["secure"] is True


def test_tls_to_a_plain_port_fails_at_once(web: WebHandle):
    context = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", web.http_port), timeout=5) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain, server_hostname="x.test")


# Proxies


def through(web: WebHandle, name: str, url: str, timeout: float = 5) -> Got:
    return fetch(url, web.proxy(name), timeout)


def test_each_proxy_leaves_from_its_own_address(web: WebHandle):
    for name in ("good1", "good2", "good3", "auth1"):
        seen = json.loads(through(web, name, "http://shop.test/echo/1").body)
        assert (seen["client"], seen["host"]) == (web.exit(name), "shop.test")
        assert not [h for h, _ in seen["headers"] if h.lower().startswith("proxy-")]


def tunnel(web: WebHandle, name: str, host: str, verify: str | None = None) -> dict:
    """``/echo`` of a host through CONNECT."""
    via = urlsplit(web.proxy(name))
    context = ssl.create_default_context(cafile=web.ca_file)
    connection = http.client.HTTPSConnection(via.hostname, via.port, timeout=5, context=context)
    headers = {"Proxy-Authorization": basic(f"{via.username}:{via.password}")}
    connection.set_tunnel(host, 443, headers if via.username else {})
    try:
        connection.request("GET", "/echo/1")
        return json.load(connection.getresponse())
    finally:
        connection.close()


@pytest.mark.parametrize("name", ["good1", "auth2"])
def test_tunnels_lead_to_https_hosts_by_name(web: WebHandle, name):
    seen = tunnel(web, name, "shop.test")
    assert (seen["secure"], seen["host"], seen["client"]) == (True, "shop.test", web.exit(name))


def test_hosts_with_bad_certificates_by_name(web: WebHandle):
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        tunnel(web, "good1", "expired.test")
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for|mismatch"):
        tunnel(web, "good1", "wrong.test")
    with pytest.raises(ssl.SSLError):
        tunnel(web, "good1", "plain-tls.test")


@pytest.mark.parametrize(
    ("host", "wanted"), [("nosuch.test", 502), ("refused.test", 502), ("93.184.216.34", 403)]
)
def test_targets_that_cannot_be_reached_are_the_proxys_answer(web: WebHandle, host, wanted):
    assert through(web, "good1", f"http://{host}/").status == wanted
    with pytest.raises(OSError, match=f"Tunnel connection failed: {wanted}"):
        tunnel(web, "good1", host)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("always-407", 407),
        ("wrong-auth", 407),
        ("refuses-403", 403),
        ("bad-gateway", 502),
        ("unavailable", 503),
        ("gateway-timeout", 504),
    ],
)
def test_proxies_that_answer_for_the_target(web: WebHandle, name, wanted):
    assert through(web, name, "http://shop.test/ok/1").status == wanted
    with pytest.raises(OSError, match=f"Tunnel connection failed: {wanted}"):
        tunnel(web, name, "shop.test")
    assert web.requests() == []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("dead", ConnectionRefusedError),
        ("closes", ConnectionError),
        ("resets", ConnectionResetError),
        ("closes-after", http.client.RemoteDisconnected),
        ("resets-after", ConnectionResetError),
        ("garbage", http.client.BadStatusLine),
        ("cuts", http.client.IncompleteRead),
    ],
)
def test_proxies_that_break_the_connection(web: WebHandle, name, error):
    with pytest.raises(error):
        through(web, name, "http://shop.test/large/1")


@pytest.mark.parametrize("name", ["hangs", "hangs-after"])
def test_proxies_that_hang(web: WebHandle, name):
    with pytest.raises(TimeoutError):
        through(web, name, "http://shop.test/ok/1", timeout=0.3)


def test_a_proxy_that_closes_within_its_headers(web: WebHandle):
    port = urlsplit(web.proxy("closes-partial")).port
    assert raw(port, get("http://shop.test/ok/1")) == b"HTTP/1.1 200 OK\r\nContent-Ty"


def test_a_proxy_with_its_own_block_page_for_some_hosts(web: WebHandle):
    assert "Attack ID" in through(web, "injects", "http://shop.test/ok/1").text
    assert through(web, "injects", "http://news.test/ok/1").status == 200


def test_a_proxy_without_tunnels(web: WebHandle):
    assert through(web, "no-tunnels", "http://shop.test/ok/1").status == 200
    with pytest.raises(OSError, match="403"):
        tunnel(web, "no-tunnels", "shop.test")


def test_a_proxy_that_dies_and_recovers(web: WebHandle):
    web.add_proxy("flap", kind="flaps", dies=2, recovers=0.4)
    seen = [through(web, "flap", "http://shop.test/ok/1").status for _ in range(2)]
    assert seen == [200, 200]
    for error in (ConnectionResetError, ConnectionRefusedError):
        with pytest.raises(error):
            through(web, "flap", "http://shop.test/ok/1")
    assert until(lambda: through(web, "flap", "http://shop.test/ok/1").status == 200)


def test_a_gateway_gives_each_connection_an_exit_of_its_own(web: WebHandle):
    exits = {
        json.loads(through(web, "gateway", "http://shop.test/echo/1").body)["client"]
        for _ in range(4)
    }
    assert len(exits) == 4


def test_a_sticky_gateway_gives_each_user_an_exit(web: WebHandle):
    port = urlsplit(web.proxy("sticky")).port
    seen = [
        json.loads(fetch("http://shop.test/echo/1", f"http://{user}:x@127.0.0.1:{port}").body)
        for user in ("anna", "bert", "anna")
    ]
    first, second, third = (entry["client"] for entry in seen)
    assert first == third != second


def test_a_socks_port_notes_what_it_was_told(web: WebHandle):
    with pytest.raises(http.client.BadStatusLine):
        through(web, "socks", "http://shop.test/ok/1")
    (entry,) = web.connections("socks")
    assert entry["first"].startswith("GET http://shop.test/ok/1")


def test_credentials_and_bytes_are_noted(web: WebHandle):
    url = web.add_proxy("odd", kind="auth", user="u", password="p@s:s/%ä€")
    port = urlsplit(url).port
    ask = (
        "GET http://shop.test/ok/1 HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n"
        f"Proxy-Authorization: {basic('u:p@s:s/%ä€')}\r\n\r\n"
    ).encode()
    answer = raw(port, ask)
    assert answer.startswith(b"HTTP/1.1 200")
    (note,) = web.connections("odd")
    assert (note["received"], note["sent"]) == (len(ask), len(answer))
    assert note["requests"][0]["credentials"] == "u:p@s:s/%ä€"


def test_faults_of_the_target_pass_through_a_proxy(web: WebHandle):
    with pytest.raises(ConnectionResetError):
        through(web, "good1", "http://shop.test/resetbody/1")
    with pytest.raises(http.client.IncompleteRead):
        through(web, "good1", "http://shop.test/cutchunked/1")
    got = through(web, "good1", "http://shop.test/nolengthcut/1")
    assert got.status == 200
    assert not got.body.endswith(b"</html>\n")


def test_a_connection_through_a_proxy_serves_several_hosts(web: WebHandle):
    via = urlsplit(web.proxy("good1"))
    connection = http.client.HTTPConnection(via.hostname, via.port, timeout=5)
    for host in ("shop.test", "news.test", "shop.test"):
        for path in ("/ok/1", "/chunked/1", "/nocontent/1"):
            connection.request("GET", f"http://{host}{path}")
            connection.getresponse().read()
    connection.close()
    assert len(web.connections("good1")) == 1
    assert len(web.requests(client=web.exit("good1"))) == 9


def test_a_ban_by_exit_is_seen_through_proxies(web: WebHandle):
    seen = [through(web, f"good{n}", "http://ban.test/ok/1").status for n in (1, 2, 3, 4)]
    assert seen == [403, 200, 200, 200]


# The demo's manifest


def test_the_demo_file_is_the_table():
    path = Path(__file__).parent.parent / "urls" / "demo.txt"
    assert path.read_text(encoding="utf-8") == manifest.text()


def test_the_demo_expects_outcomes_that_exist_and_has_each_kind():
    outcomes = {end.outcome for end in manifest.expected().values()}
    assert outcomes <= {outcome.value for outcome in Outcome}
    assert outcomes >= {"ok", "gone", "throttled", "blocked", "refused", "empty", "invalid"}
    assert outcomes >= {"target_error", "network_error", "unexpected", "rejected"}
    assert 50 <= len(manifest.expected()) <= 80


@pytest.mark.parametrize("line", list(manifest.lines()), ids=lambda line: line.url)
def test_every_demo_line_names_a_scenario(line):
    parts = urlsplit(line.url)
    if line.expected.outcome != "rejected" and parts.path != "/private/4":
        assert parts.path[1:].partition("/")[0] in SCENARIOS


# Its own life


def test_a_web_inside_of_this_process(web_in_thread: WebHandle):
    assert fetch(web_in_thread.url("/ok/1")).status == 200
    assert through(web_in_thread, "good1", "http://shop.test/ok/1").status == 200


def test_a_web_ends_with_its_owner_and_leaves_its_log(tmp_path):
    log = tmp_path / "log.jsonl"
    with hostile_process(log) as own:
        fetch(own.url("/ok/1"))
        url = own.url("/ok/2")
    with pytest.raises(ConnectionRefusedError):
        fetch(url)
    assert json.loads(log.read_text())["path"] == "/ok/1"
