"""Proxies files: every shape people write, every kind of dirt, and no secret in any text."""

import base64
import re

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from retryscrape.policy.proxies import Exit, parse_proxies


def read(*lines: str):
    return parse_proxies(lines, "proxies.txt")


def only(line: str) -> Exit:
    found = read(line)
    assert not found.problems, list(found.complaints())
    return found.exits[0]


def parts(line: str):
    exit_ = only(line)
    return exit_.host, exit_.port, exit_.username, exit_.password


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("127.0.0.1:81", ("127.0.0.1", 81, None, "")),
        ("http://127.0.0.1:82", ("127.0.0.1", 82, None, "")),
        ("HTTP://Proxy.Test:82/", ("proxy.test", 82, None, "")),
        ("u:p@127.0.0.1:83", ("127.0.0.1", 83, "u", "p")),
        ("http://u:p@127.0.0.1:84", ("127.0.0.1", 84, "u", "p")),
        ("127.0.0.1:85:u:p", ("127.0.0.1", 85, "u", "p")),
        ("http://h:85:u:p", ("h", 85, "u", "p")),
        ("u:p:127.0.0.1:86", ("127.0.0.1", 86, "u", "p")),
        ("127.0.0.1:87@u:p", ("127.0.0.1", 87, "u", "p")),
        ("[::1]:87", ("::1", 87, None, "")),
        ("http://u:p@[2001:DB8::1]:87", ("2001:db8::1", 87, "u", "p")),
        ("[::1]:87:u:p", ("::1", 87, "u", "p")),
        ("bücher.test:80", ("xn--bcher-kva.test", 80, None, "")),
        ("a_b.test:80", ("a_b.test", 80, None, "")),
        ("http://user@h:8080", ("h", 8080, "user", "")),
        ("http://KEY:@h:7", ("h", 7, "KEY", "")),
        ("h:7:token", ("h", 7, "token", "")),
        ("http://:@h:7", ("h", 7, None, "")),
        ("http://user:p@ss@h:1", ("h", 1, "user", "p@ss")),
        ("http://user:p%40ss@h:1", ("h", 1, "user", "p@ss")),
        ("http://user:p:ss@h:1", ("h", 1, "user", "p:ss")),
        ("http://user:p#ss@h:1", ("h", 1, "user", "p#ss")),
        ("http://user:p/ss@h:1", ("h", 1, "user", "p/ss")),
        ("http://user:p?ss@h:1", ("h", 1, "user", "p?ss")),
        ("http://user:pa%ss@h:1", ("h", 1, "user", "pa%ss")),
        ("http://user:pa%FFss@h:1", ("h", 1, "user", "pa%FFss")),
        ("http://u:päß€@h:8", ("h", 8, "u", "päß€")),
        ("http://u:p%C3%A4@h:8", ("h", 8, "u", "pä")),
        ("http://me@mail.test:pw@h:8", ("h", 8, "me@mail.test", "pw")),
        ("h:8080:user:p@ss", ("h", 8080, "user", "p@ss")),
        ("h:8080:user:p:ss/", ("h", 8080, "user", "p:ss/")),
    ],
)
def test_shapes(line, right):
    assert parts(line) == right


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("u:1234:127.0.0.1:8080", ("127.0.0.1", 8080, "u", "1234")),
        ("gate.test:7777:user.name:12345", ("gate.test", 7777, "user.name", "12345")),
        ("10.0.0.1:8080:user:p@ss:99", ("10.0.0.1", 8080, "user", "p@ss:99")),
        ("1.2.3.4:80@user:1234", ("1.2.3.4", 80, "user", "1234")),
        ("john.smith:12345@squid:3128", ("squid", 3128, "john.smith", "12345")),
    ],
)
def test_where_two_readings_are_possible_the_likelier_host_wins(line, right):
    assert parts(line) == right


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("http://proxy.test", "the port is missing"),
        ("127.0.0.1", "the port is missing"),
        ("proxy.test:", "the port is missing"),
        ("127.0.0.1:99999", "the port is not between 1 and 65535"),
        ("127.0.0.1:0", "the port is not between 1 and 65535"),
        ("127.0.0.1:٨٠٨٠", "expected host:port"),
        ("300.1.1.1:80", "the host is no valid name or address"),
        ("a..b:80", "the host is no valid name or address"),
        ("x" * 64 + ".test:80", "the host is no valid name or address"),
        ("[::zz]:80", "the host is no valid name or address"),
        ("::1:8080", "an IPv6 address needs brackets"),
        ("socks5://127.0.0.1:9", "socks5 proxies are not supported"),
        ("SOCKS4://127.0.0.1:9", "socks4 proxies are not supported"),
        ("https://127.0.0.1:9", "https:// proxies"),
        ("s3cret://h:9", "only http:// proxies are supported"),
        ("http://u%3Ax:s3cret@h:9", "a user name cannot hold a colon"),
        ("http://u:s3cret%0d%0aX@h:9", "a control character"),
        ("h:9 cost=s3cret", "the value of cost is not a number of 0 or more"),
        ("h:9 country=s3cret", "the value of country is not a two-letter code"),
        ("h:9 colour=s3cret", "unknown text after the proxy"),
        ("http://u:s3cret@", "expected host:port"),
        ("http://u:s3\udcffcret@h:1", "the line is not UTF-8 text"),
        ("hello", "the port is missing"),
    ],
)
def test_a_bad_line_is_named_by_number_and_reason_never_by_content(line, why):
    found = read("# first", line, "127.0.0.1:81")
    assert [problem.line for problem in found.problems] == [2]
    assert len(found.exits) == 1
    (complaint,) = found.complaints()
    assert complaint.startswith("proxies.txt, line 2: ")
    assert why in complaint
    assert "cret" not in complaint


def test_a_dirty_file():
    found = parse_proxies(
        [
            "\ufeff# my proxies\r\n",
            "\r\n",
            "  http://u:p@h:1  \r\n",
            '"http://u:p@h:2",\r\n',
            "'h:3'\n",
            "http://u:p@h:1/\n",
            "h:4   # the old one\n",
            "  # indented\n",
            "h\n",
            "h:5,\n",
        ],
        "proxies.txt",
    )
    assert [exit_.port for exit_ in found.exits] == [1, 2, 3, 4, 5]
    assert found.summary() == "5 proxies loaded from proxies.txt, 1 duplicate, 1 rejected (line 9)"


def test_a_bom_glued_to_the_first_proxy_is_removed():
    assert parts("\ufeffh:1") == ("h", 1, None, "")


def test_attributes():
    exit_ = only("http://u:p@h:1  tier=residential country=gb cost=3 cost_gb=8.5 sticky=url # x")
    assert (exit_.tier, exit_.country, exit_.cost, exit_.cost_gb) == ("residential", "GB", 3, 8.5)
    assert exit_.sticky == "url"
    assert only('"h:1" tier=dc').tier == "dc"


def test_a_password_with_spaces_in_a_url():
    exit_ = only("http://u:p w  d@h:3 tier=a")
    assert (exit_.password, exit_.tier) == ("p w  d", "a")


def test_two_users_of_one_gateway_are_two_exits_with_names_that_stay():
    ann, ben = read("http://ann:x@h:1", "http://amy:x@h:1").exits
    assert ann.id != ben.id
    assert re.fullmatch(r"http://a\*\*\*@h:1#[0-9a-f]{6}", ann.id)
    assert only("h:1:ann:x tier=new").id == ann.id


def test_ten_thousand_users_of_one_gateway_have_distinct_names():
    found = read(*(f"http://user{n}:pw@gate.test:1" for n in range(10_000)))
    assert len({exit_.id for exit_ in found.exits}) == 10_000


def test_addresses_for_the_downloader_carry_no_credentials():
    assert only("http://u:p@[::1]:3128").proxy_url == "http://[::1]:3128"
    assert only("u:p@h:1").proxy_url == "http://h:1"


def test_a_session_token_is_filled_in_and_the_exit_keeps_its_name():
    exit_ = only("http://user-session-{session}:pw@gate.test:7000 sticky=url")
    assert exit_.session
    filled = exit_.with_session("ab12")
    assert filled.username == "user-session-ab12"
    assert filled.id == exit_.id
    assert not filled.session
    assert only("h:1").with_session("x") == only("h:1")


def test_secrets_come_in_every_spelling():
    exit_ = only("http://user:s3cr%65t/ä@h:1")
    basic = base64.b64encode("user:s3cret/ä".encode()).decode()
    assert {"s3cret/ä", "s3cr%65t/ä", "s3cret%2F%C3%A4", "s3cret/%C3%A4", basic} <= exit_.secrets()


def test_a_user_name_without_a_password_is_a_token():
    exit_ = only("http://tok3n@h:1")
    assert "tok3n" in exit_.secrets()
    assert "t" not in exit_.id.removeprefix("http")
    assert only("h:1").secrets() == frozenset()


def test_very_short_secrets_are_masked_only_in_their_surroundings():
    secrets = only("http://u:x@h:1").secrets()
    assert "x" not in secrets
    assert ":x@" in secrets


# Surrogates are no text; white space around an entry is not part of it.
SECRET = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=20)
USER = SECRET.filter(lambda text: ":" not in text)


def percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def literal(text: str) -> str:
    return text.replace("%", "%25")


@given(USER, SECRET, st.sampled_from(["10.1.2.3", "gate.test", "[::1]"]), st.integers(1, 65535))
@example("u", "@", "gate.test", 1)
@example('"u', 'p"', "gate.test", 1)
@example("u", "://", "gate.test", 1)
def test_any_credentials_survive_every_shape(user, password, host, port):
    right = (host.strip("[]"), port, user, password)
    assert parts(f"http://{percent(user)}:{percent(password)}@{host}:{port}") == right
    assert parts(f"http://{literal(user)}:{literal(password)}@{host}:{port}") == right
    assert parts(f"{host}:{port}:{percent(user)}:{percent(password)}") == right
    # A password that itself ends in "@host:port" cannot be told from one in front of a host.
    assume(not re.search(r"@[^@]*:[0-9]+[/,]*$", password))
    assume(not re.search(r"[^:@]+:[0-9]+$", f"{user}:{password}"))
    assert parts(f"http://{host}:{port}:{literal(user)}:{literal(password)}") == right


@given(USER, SECRET)
def test_the_proxy_receives_exactly_the_credentials(user, password):
    value = only(f"http://{percent(user)}:{percent(password)}@h:1").authorization()
    assert value.startswith(b"Basic ")
    assert base64.b64decode(value[6:]).decode() == f"{user}:{password}"


@given(SECRET)
def test_no_secret_in_any_text_of_an_exit(ending):
    password = f"s3cr3t{ending}"
    exit_ = only(f"http://user:{percent(password)}@127.0.0.1:1")
    broken = read(f"u:{literal(password)}@h:1 x", f"u:{literal(password)}@h")
    for text in (exit_.id, repr(exit_), repr(broken), *broken.complaints()):
        assert "s3cr3t" not in text


@given(st.lists(st.text(), max_size=5))
def test_no_text_breaks_it(lines):
    found = parse_proxies(lines, "x")
    assert len(found.exits) + len(found.problems) + found.duplicates <= len(lines)
