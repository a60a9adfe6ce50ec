"""What a client of the plain rung does with good sites: what leaves, comes, and stays open."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from scrapy import Request, signals
from scrapy.exceptions import StopDownload
from scrapy.utils.test import get_crawler

from retryscrape.config import Config, ConfigError
from retryscrape.crawl.clients import CLIENTS as CLIENTS_BY_NAME
from retryscrape.crawl.clients import make_client
from retryscrape.crawl.clients.connection import Connection
from retryscrape.crawl.clients.pool import IDLE, Pool
from retryscrape.crawl.clients.resolver import Resolver
from retryscrape.crawl.faults import At, FetchError
from retryscrape.hostile.process import WebHandle
from retryscrape.hostile.tls import Authority
from tests.client_bench import Fetcher, fetch, run, with_client

pytest_plugins = ("tests.hostile_fixture", "tests.client_reactor")

CLIENTS = ("asyncio", "http11")
both = pytest.mark.parametrize("client", CLIENTS)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture(autouse=True)
def trusted(web: WebHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL trusts the hostile web's authority."""
    monkeypatch.setenv("SSL_CERT_FILE", web.ca_file)


@asynccontextmanager
async def site(*replies: bytes, close: bool = False):
    """A site that says ``replies`` in turn (the last one again and again): its URL, and what
    it heard, a list for each connection."""
    heard: list[list[bytes]] = []
    left = list(replies)
    writers: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine: list[bytes] = []
        heard.append(mine)
        writers.append(writer)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                mine.append(head)
                writer.write(left.pop(0) if len(left) > 1 else left[0])
                if close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


async def until(true):
    """What ``true`` gives as soon as it is something; the test's own timeout bounds it."""
    while not (given := await asyncio.to_thread(true)):  # noqa: ASYNC110 -- another process's event
        await asyncio.sleep(0.01)
    return given


def with_site(client: str, use, *replies: bytes, close: bool = False, settings=None):
    """Run ``use(fetcher, url, heard)`` with a client and a site."""

    async def body(fetcher: Fetcher):
        async with site(*replies, close=close) as (url, heard):
            return await use(fetcher, url, heard)

    return with_client(client, body, settings)


def test_an_unknown_client_is_a_wrong_setting():
    with pytest.raises(ConfigError, match=r"RETRYSCRAPE_HTTP_CLIENT.*asyncio, auto, http11.*curly"):
        make_client("curly", get_crawler())


@pytest.mark.parametrize("name", sorted(CLIENTS_BY_NAME))
def test_the_setting_takes_every_client_that_there_is(name: str):
    assert Config.from_settings({"RETRYSCRAPE_HTTP_CLIENT": name}).http_client == name


@both
def test_a_page_comes_as_scrapy_gives_it(web: WebHandle, client: str):
    response = fetch(client, web.url("/ok/1"))
    assert (response.status, response.protocol) == (200, "HTTP/1.1")
    assert type(response).__name__ == "HtmlResponse"
    assert str(response.ip_address) == "127.0.0.1"
    assert b"</html>" in response.body


@both
def test_a_page_comes_over_tls_through_a_proxy(web: WebHandle, client: str):
    url = web.url("/ok/1", "shop.test", secure=True)
    response = fetch(client, url, proxy=web.proxy("auth1"))
    assert response.status == 200
    assert response.certificate is not None


@both
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_a_body_is_left_encoded(web: WebHandle, client: str, coding: str):
    """Our middleware decodes, and strictly; a client would hide a truncated body."""
    response = fetch(client, web.url(f"/encoded/{coding}/1"))
    assert response.headers[b"Content-Encoding"] == coding.encode()
    assert b"</html>" not in response.body


@both
def test_redirects_are_not_followed_and_cookies_not_kept(client: str):
    async def use(fetcher: Fetcher, url: str, heard):
        first = await fetcher(url)
        await fetcher(url)
        return first, heard

    redirect = (
        b"HTTP/1.1 302 Found\r\nLocation: /there\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"
    )
    response, heard = with_site(client, use, redirect + b"Content-Length: 0\r\n\r\n")
    assert (response.status, response.headers[b"Location"]) == (302, b"/there")
    assert b"ookie" not in b"".join(b"".join(requests) for requests in heard)


@both
def test_headers_leave_as_they_are(client: str):
    """Repeated ones, bytes beyond ASCII; nothing is added but the host."""

    async def use(fetcher: Fetcher, url: str, heard):
        headers = {"X-Two": ["b", "a"], "X-Name": "Bücher", "Accept": "*/*"}
        await fetcher(Request(f"{url}/a?b=c#d", headers=headers))
        return heard[0][0]

    lines = with_site(client, use, OK).split(b"\r\n")
    assert lines[0] == b"GET /a?b=c HTTP/1.1"
    assert lines.index(b"X-Two: b") < lines.index(b"X-Two: a")
    assert "X-Name: Bücher".encode() in lines
    names = [line.partition(b":")[0].lower() for line in lines[1:] if line]
    assert set(names) <= {b"host", b"x-two", b"x-name", b"accept", b"connection"}


def test_headers_leave_in_their_order():
    async def use(fetcher: Fetcher, url: str, heard):
        await fetcher(Request(url, headers=[("Zeta", "1"), ("Alpha", "2"), ("Mid", "3")]))
        return heard[0][0]

    lines = with_site("asyncio", use, OK).split(b"\r\n")
    assert lines[2:5] == [b"Zeta: 1", b"Alpha: 2", b"Mid: 3"]


def test_a_line_break_in_a_header_makes_no_second_header():
    async def use(fetcher: Fetcher, url: str, heard):
        await fetcher(Request(url, headers={"X-A": "1\r\nX-Evil: 2"}))
        return heard[0][0]

    assert b"X-A: 1 X-Evil: 2\r\n" in with_site("asyncio", use, OK)


@both
def test_user_and_password_of_a_url_are_in_no_line(client: str):
    async def use(fetcher: Fetcher, url: str, heard):
        response = await fetcher(url.replace("//", "//me:s3cr3t@") + "/a")
        return response, heard[0][0]

    response, head = with_site(client, use, OK)
    assert b"s3cr3t" not in head
    assert "me:s3cr3t@" in response.url


@both
def test_a_body_is_posted_with_its_length(web: WebHandle, client: str):
    fetch(client, Request(web.url("/ok/1"), method="POST", body=b"a=b"))
    (arrived,) = web.requests(path="/ok/1")
    assert arrived["method"] == "POST"
    assert ["content-length", "3"] in [[name.lower(), value] for name, value in arrived["headers"]]


@both
@pytest.mark.parametrize("secure", [False, True])
def test_a_proxys_credentials_reach_the_proxy_and_no_target(
    web: WebHandle, client: str, secure: bool
):
    url = web.url("/ok/1", "shop.test", secure=secure)
    request = Request(url, headers={"Proxy-Authorization": "Basic c3RhbGU6b25l"})
    assert fetch(client, request, proxy=web.proxy("auth1")).status == 200
    (arrived,) = web.requests(path="/ok/1")
    assert "proxy-authorization" not in str(arrived["headers"]).lower()
    (connection,) = web.connections("auth1")
    assert "user1" in str(connection["requests"])


@both
def test_a_proxy_without_credentials_gets_none_of_an_older_request(web: WebHandle, client: str):
    request = Request(web.url("/ok/1", "shop.test"))
    request.headers[b"Proxy-Authorization"] = b"Basic c3RhbGU6b25l"
    fetch(client, request, proxy=web.proxy("good1"))
    assert "stale" not in str(web.connections("good1"))


@both
def test_the_environment_names_no_proxy(web: WebHandle, client: str, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetch(client, web.url("/ok/1")).status == 200


@both
def test_a_connection_is_used_again_unless_a_fresh_one_is_asked_for(client: str):
    async def use(fetcher: Fetcher, url: str, heard):
        for fresh in (False, False, True, True):
            await fetcher(url, fresh=fresh)
        return [len(requests) for requests in heard]

    assert with_site(client, use, OK) == [2, 1, 1]


@both
@pytest.mark.parametrize("fresh", [True, False])
def test_a_gateway_gives_another_exit_for_each_fresh_connection(
    web: WebHandle, client: str, fresh: bool
):
    async def use(fetcher: Fetcher):
        for number in range(4):
            url = web.url(f"/ok/{number}", "shop.test", secure=True)
            await fetcher(url, proxy=web.proxy("gateway"), fresh=fresh)

    with_client(client, use)
    exits = {arrived["client"] for arrived in web.requests(path="/ok/*")}
    assert len(exits) == (4 if fresh else 1)


def test_one_connection_to_a_proxy_serves_all_plain_hosts(web: WebHandle):
    hosts = ["shop.test", "other.test", "shop.test"]

    async def use(fetcher: Fetcher):
        for host in hosts:
            await fetcher(web.url("/ok/1", host), proxy=web.proxy("good1"))

    with_client("asyncio", use)
    assert [request["host"] for request in web.requests()] == hosts
    assert len(web.connections("good1")) == 1


def test_a_tunnel_belongs_to_one_proxy_and_its_credentials(web: WebHandle):
    async def use(fetcher: Fetcher):
        url = web.url("/ok/1", "shop.test", secure=True)
        for name in ("good1", "good2", "good1"):
            assert (await fetcher(url, proxy=web.proxy(name))).status == 200
        authorized = web.proxy("auth1")
        assert (await fetcher(url, proxy=authorized)).status == 200
        with pytest.raises(FetchError) as caught:
            await fetcher(url, proxy=authorized.replace("user1", "user2"))
        return caught.value

    error = with_client("asyncio", use)
    assert (error.at, error.status) == (At.PROXY, 407)
    assert [len(web.connections(name)) for name in ("good1", "good2")] == [1, 1]


def test_a_connection_that_the_site_closed_meanwhile_costs_nothing():
    """The site answers, promises to keep the connection, and closes it."""

    async def use(fetcher: Fetcher, url: str, heard):
        return [(await fetcher(url)).status for _ in range(5)], len(heard)

    assert with_site("asyncio", use, OK, close=True) == ([200] * 5, 5)


def test_a_request_that_changes_something_is_never_sent_twice():
    """A rested connection could be closed just as the request leaves."""

    async def use(fetcher: Fetcher, url: str, heard):
        await fetcher(url)
        await fetcher(Request(url, method="POST", body=b"x"))
        return [len(requests) for requests in heard]

    assert with_site("asyncio", use, OK) == [1, 1]


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    ],
    ids=["close", "HTTP/1.0", "more than was asked"],
)
def test_a_connection_that_cannot_go_on_is_not_used_again(reply: bytes):
    async def use(fetcher: Fetcher, url: str, heard):
        bodies = [(await fetcher(url)).body for _ in range(2)]
        return bodies, len(heard)

    assert with_site("asyncio", use, reply) == ([b"ok", b"ok"], 2)


@both
@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_ends_at_its_head(client: str, status: int):
    reply = b"HTTP/1.1 %d X\r\nContent-Length: 50\r\n\r\n" % status

    async def use(fetcher: Fetcher, url: str, heard):
        return await fetcher(url)

    response = with_site(client, use, reply)
    assert (response.status, response.body) == (status, b"")


@both
def test_head_has_no_body(client: str):
    async def use(fetcher: Fetcher, url: str, heard):
        return await fetcher(Request(url, method="HEAD"))

    response = with_site(client, use, b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")
    assert (response.status, response.body) == (200, b"")


def billed(web: WebHandle, name: str) -> int:
    """Bytes that a proxy counted at its client's socket, both ways."""
    return sum(one["received"] + one["sent"] for one in web.connections(name))


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("path", ["/ok/{}", "/chunked/{}", "/encoded/gzip/{}"])
def test_bytes_are_those_that_a_proxys_provider_bills(web: WebHandle, secure: bool, path: str):
    """TLS, its handshake and the tunnel included. In fact to the byte; 3 % is the promise."""

    async def use(fetcher: Fetcher):
        total = 0
        for number in range(3):
            request = Request(web.url(path.format(number), "shop.test", secure=secure))
            await fetcher(request, proxy=web.proxy("good1"))
            total += request.meta["retryscrape_bytes"]
        return total

    counted = with_client("asyncio", use)
    assert counted == pytest.approx(billed(web, "good1"), rel=0.03)


def test_scrapys_handler_counts_bytes_without_tls(web: WebHandle):
    request = Request(web.url("/ok/1", "shop.test"))
    fetch("http11", request, proxy=web.proxy("good1"))
    assert request.meta["retryscrape_bytes"] == pytest.approx(billed(web, "good1"), rel=0.03)


def test_bytes_of_an_attempt_that_failed_are_counted(web: WebHandle):
    request = Request(web.url("/cutbody/1", "shop.test", secure=True))
    with pytest.raises(FetchError) as caught:
        fetch("asyncio", request, proxy=web.proxy("good1"))
    assert request.meta["retryscrape_bytes"] == caught.value.bytes
    assert caught.value.bytes == pytest.approx(billed(web, "good1"), rel=0.03)


@asynccontextmanager
async def in_tls(context: ssl.SSLContext, port: int):
    """TLS before a proxy's port: its URL."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ahead = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError):
            await asyncio.wait(
                {
                    asyncio.ensure_future(copy(reader, ahead[1])),
                    asyncio.ensure_future(copy(ahead[0], writer)),
                },
                return_when=asyncio.FIRST_COMPLETED,
            )
        ahead[1].close()
        writer.close()

    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
    yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.mark.parametrize("secure", [False, True])
def test_an_https_proxy_is_spoken_to_in_tls(
    web: WebHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secure: bool
):
    """And to an https target in TLS within it."""
    behind = urlsplit(web.proxy("good1")).port
    authority, both_trusted = Authority(tmp_path), tmp_path / "both.pem"
    both_trusted.write_text(authority.ca_file.read_text() + Path(web.ca_file).read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(both_trusted))

    async def use(fetcher: Fetcher):
        async with in_tls(authority.context(addresses=("127.0.0.1",)), behind) as proxy:
            return await fetcher(web.url("/ok/1", "shop.test", secure=secure), proxy=proxy)

    assert with_client("asyncio", use).status == 200


def test_scrapys_handler_refuses_https_proxies():
    """It would speak to them without TLS."""
    with pytest.raises(FetchError) as caught:
        fetch("http11", "http://shop.test/", proxy="https://127.0.0.1:1")
    assert (caught.value.reason, caught.value.at) == ("unavailable", At.PROXY)


@both
def test_a_warning_names_a_large_page_once(web: WebHandle, client: str, caplog):
    with caplog.at_level(logging.WARNING):
        assert fetch(client, web.url("/ok/1"), warn_size=1000).status == 200
    assert len([one for one in caplog.records if "/ok/1" in one.getMessage()]) == 1


@both
def test_a_handler_of_scrapys_signals_can_stop_a_download(web: WebHandle, client: str):
    crawler = get_crawler(settings_dict={})
    seen = []

    def heard(headers, body_length, request, spider):
        seen.append(body_length)
        raise StopDownload(fail=False)

    crawler.signals.connect(heard, signals.headers_received)

    async def body():
        made = make_client(client, crawler)
        try:
            return await Fetcher(made)(web.url("/ok/1"))
        finally:
            await made.close()

    response = run(body())
    assert response.flags == ["download_stopped"]
    assert seen[0] > 1000


def test_a_fetch_that_is_cancelled_leaves_no_connection(web: WebHandle):
    async def use(fetcher: Fetcher):
        task = asyncio.ensure_future(
            fetcher(web.url("/hang/1", "shop.test"), proxy=web.proxy("good1"), timeout=20)
        )
        await until(lambda: web.requests(path="/hang/1"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await until(lambda: web.connections("good1")[0]["closed"])

    assert with_client("asyncio", use)


@both
@pytest.mark.parametrize("url", ["http://a b/", "http://h.test:99999/", "http:///a"])
def test_a_url_without_a_usable_host_is_a_fault_and_no_traceback(client: str, url: str):
    request = Request("http://127.0.0.1/")
    request._url = url
    with pytest.raises(FetchError) as caught:
        fetch(client, request, timeout=2)
    assert caught.value.reason in {"scheme", "dns", "connect"}


class FakeConnection(Connection):
    """A connection that is only counted."""

    def __init__(self) -> None:
        super().__init__(At.TARGET)
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def test_resting_connections_are_bounded_over_many_exits():
    async def body():
        pool = Pool(64)
        made = [FakeConnection() for _ in range(1000)]
        for number, connection in enumerate(made):
            pool.give(f"exit {number}", connection)
        try:
            assert len(pool) == 64
            assert [one.aborted for one in made] == [True] * 936 + [False] * 64
            assert pool.take("exit 999") is made[999]
            assert pool.take("exit 0") is None
            made[998].connection_lost(None)
            assert pool.take("exit 998") is None
            assert len(pool) == len(pool._by_key) == 62
        finally:
            pool.close()

    run(body())


def test_resting_connections_are_closed_after_a_while(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("retryscrape.crawl.clients.pool.IDLE", IDLE / 1000)

    async def body():
        pool, connection = Pool(8), FakeConnection()
        pool.give("exit", connection)
        await until(lambda: connection.aborted)
        assert len(pool) == 0

    run(body())


def test_a_name_is_looked_up_once_for_all_that_ask(monkeypatch: pytest.MonkeyPatch):
    """IPv4 comes first, and the answer is remembered."""
    asked = []

    def getaddrinfo(host, port, **how):
        asked.append(host)
        addresses = [(socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1")]
        return [(family, 1, 6, "", (address, 0)) for family, address in addresses]

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)

    async def body():
        resolver = Resolver()
        return await asyncio.gather(*(resolver.lookup("h.test") for _ in range(3)))

    assert run(body()) == [("127.0.0.1", "::1")] * 3
    assert asked == ["h.test"]


def test_a_name_without_an_address_is_asked_for_again():
    async def body():
        resolver = Resolver()
        for _ in range(2):
            with pytest.raises(OSError):
                await resolver.lookup("nosuch.invalid")
        assert resolver._known == resolver._asked == {}

    run(body())


def test_the_next_address_is_tried_where_one_refuses(monkeypatch: pytest.MonkeyPatch):
    async def lookup(self, host):
        return ("127.0.0.2", "127.0.0.1")

    monkeypatch.setattr("retryscrape.crawl.clients.resolver.Resolver.lookup", lookup)

    async def use(fetcher: Fetcher, url: str, heard):
        return await fetcher(url.replace("127.0.0.1", "h.test"))

    response = with_site("asyncio", use, OK)
    assert (response.body, str(response.ip_address)) == (b"ok", "127.0.0.1")
