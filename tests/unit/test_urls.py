"""Which addresses may be offered for opening: tables of hostile and ordinary ones, and properties over both."""

import string
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.session.urls import (
    ADDRESS_WARNING,
    INTERNATIONAL_WARNING,
    MAX_URL_CHARS,
    UNENCRYPTED_WARNING,
    UrlVerdict,
    judge_url,
)

SENTINEL = "S3NT1NELvalue"

OAUTH = (
    "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?client_id=4b%2Bx&redirect_uri=http%3A%2F%2F127.0.0.1%3A8080"
    "%2Fcb%3Fa%3D1%26b%3D2&scope=openid%20offline_access&state=a%23b==&code_challenge=E9Melhoa2OwvFrEM~_-&x=~tilde!*'(),;:@/?"
)

ORDINARY = [
    OAUTH,
    "https://as.example/authorize?response_type=code&resource=https%3A%2F%2Fmcp.example%2Fa",
    "https://as.example",
    "https://as.example/",
    "https://as.example:8443/a",
    "https://as.example?x=%2B%26%23",
    "https://as.example#fragment",
    "HTTPS://AS.Example/Path",
    "https://intranet/login",
    "https://as.example./a",
    "https://a_b.example/filter[a]=1",
    "https://as.example/odata?$filter=a",
    "https://as.example/x?next=https://other.example/@user",
    "http://127.0.0.1:49152/callback?code=1",
    "http://127.8.9.10/",
    "http://localhost:3000/",
    "http://LocalHost/",
    "http://[::1]:8080/cb",
]


def opened(verdict: UrlVerdict) -> str:
    assert verdict.allowed, verdict.reason
    assert verdict.url is not None
    return verdict.url.reveal()


@pytest.mark.parametrize("url", ORDINARY)
def test_an_ordinary_address_is_passed_on_byte_for_byte(url: str) -> None:
    assert opened(judge_url(url)) == url


SCHEMES = [
    "javascript",
    "data",
    "file",
    "vbscript",
    "blob",
    "ftp",
    "ssh",
    "vscode",
    "ms-msdt",
    "smb",
    "mailto",
    "tel",
    "about",
    "chrome",
    "view-source",
    "ws",
    "wss",
    "intent",
    "x",
]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("form", ["{0}:{1}", "{0}://host.example/{1}", "{0}:///{1}"])
def test_another_scheme_is_refused_in_any_letter_case_with_a_reason_that_names_only_the_scheme(scheme: str, form: str) -> None:
    for spelled in (scheme, scheme.upper(), scheme.title()):
        verdict = judge_url(form.format(spelled, SENTINEL))
        assert not verdict.allowed
        assert f"{scheme}:" in verdict.reason
        assert SENTINEL not in repr(verdict)
        assert "host.example" not in verdict.reason


REFUSED = [
    ("", "empty"),
    (" https://as.example/", "blank"),
    ("https://as.example/ ", "blank"),
    ("\thttps://as.example/", "invisible"),
    ("-new-window https://x", "dash"),
    ("--remote-debugging-port=9222", "dash"),
    ("-https://as.example", "dash"),
    ("as.example/a", "no scheme"),
    ("//as.example/a", "no scheme"),
    ("/etc/passwd", "no scheme"),
    ("https", "no scheme"),
    ("%68ttps://as.example", "no scheme"),
    ("https:evil", "two slashes"),
    ("https:/evil.example", "two slashes"),
    ("https:\\\\evil.example", "backslash"),
    ("https://good.example\\@evil.example/", "backslash"),
    ("https:///evil.example", "no host"),
    ("https://", "no host"),
    ("https://?x", "no host"),
    ("https://:443/", "no host"),
    ("https://as.example:/", "port"),
    ("https://as.example:0/", "port"),
    ("https://as.example:65536/", "port"),
    ("https://as.example:080/", "port"),
    ("https://as.example:8a/", "port"),
    ("https://as.example:-1/", "port"),
    ("https://as.example:\u0664/", "port"),
    ("https://a%2eexample/", "percent-encoded"),
    ("https://as.example%00.evil.example/", "percent-encoded"),
    ("https://[::1%25eth0]/", "percent-encoded"),
    ("https://[::1/", "IPv6"),
    ("https://[::1]x/", "IPv6"),
    ("https://[zz]/", "IPv6"),
    ("https://[]/", "IPv6"),
    ("https://-a.example/", "not a valid host"),
    ("https://a-.example/", "not a valid host"),
    ("https://a..example/", "not a valid host"),
    ("https://.example/", "not a valid host"),
    ("https://./", "not a valid host"),
    ("https://a,b.example/", "not a valid host"),
    ("https://a;b/", "not a valid host"),
    ("https://$(id).example/", "not a valid host"),
    (f"https://{'a' * 64}.example/", "not a valid host"),
    (f"https://{'a.' * 130}example/", "longer than"),
    ("https://0x7f.1/", "four plain numbers"),
    ("https://2130706433/", "four plain numbers"),
    ("https://127.1/", "four plain numbers"),
    ("https://0177.0.0.1/", "four plain numbers"),
    ("https://as.example.0x1/", "four plain numbers"),
    ("https://1.2.3.4.5/", "four plain numbers"),
    ("https://1.2.3.256/", "out of range"),
    ("https://\u2024\u2024/", "international"),
    ("https://as.example\uff0fevil.example/", "international"),
    ("https://as.example/`id`", "percent-encoded"),
    ("https://as.example/a|b", "percent-encoded"),
    ('https://as.example/"', "percent-encoded"),
    ("https://as.example/<a>", "percent-encoded"),
    ("https://as.example/^{a}", "percent-encoded"),
    ("https://as.example/?e=%zz", "percent-encoded"),
    ("https://as.example/?e=%", "percent-encoded"),
    ("https://as.example/?e=%2", "percent-encoded"),
    ("https://as.example/\u00fcber", "percent-encoded"),
    ("https://as.example/$(id)", "shell"),
    ("https://as.example/?a=$(touch%20x)", "shell"),
    ("https://as.example/$(touch x)?a=`id`&b=1|c;d&e=%action", "blank"),
    ("http://as.example/", "this machine"),
    ("http://128.0.0.1/", "this machine"),
    ("http://[::2]/", "this machine"),
    ("http://[::ffff:127.0.0.1]/", "this machine"),
    ("http://localhost.evil.example/", "this machine"),
    ("http://127.0.0.1.evil.example/", "this machine"),
    ("http://localhost./", "this machine"),
    ("https://as.example/" + "a" * MAX_URL_CHARS, "longer than"),
]


@pytest.mark.parametrize(("url", "why"), REFUSED)
def test_a_malformed_or_hostile_address_is_refused_for_its_own_reason(url: str, why: str) -> None:
    verdict = judge_url(url)
    assert not verdict.allowed
    assert why in verdict.reason
    assert verdict.url is None
    assert verdict.display == ""


INVISIBLE = [
    0,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
    27,
    127,
    0x80,
    0x85,
    0x9B,
    0xA0,
    0xAD,
    0x61C,
    0x200B,
    0x200D,
    0x200E,
    0x2028,
    0x2029,
    0x202A,
    0x202E,
    0x2060,
    0x2066,
    0x2069,
    0x3000,
    0xD800,
    0xDFFF,
    0xE000,
    0xFEFF,
    0xFFF9,
    0xE0001,
    0xE0041,
    0x34F,
    0x115F,
    0x1160,
    0x17B4,
    0x180B,
    0x2800,
    0x3164,
    0xFE0F,
    0xFFA0,
    0xE0100,
]


@pytest.mark.parametrize("point", INVISIBLE)
@pytest.mark.parametrize(
    "place", ["{0}https://as.example/", "ht{0}tps://as.example/", "https://as{0}.example/", "https://as.example/a{0}b"]
)
def test_an_invisible_or_control_character_anywhere_is_refused(point: int, place: str) -> None:
    assert not judge_url(place.format(chr(point))).allowed


@pytest.mark.parametrize("user", ["login.microsoftonline.com", "user:password", "", ":", "a@b", "%40", "real.example:443"])
def test_a_user_name_is_refused_and_the_host_told_is_the_real_one(user: str) -> None:
    verdict = judge_url(f"https://{user}@evil.example/a")
    assert not verdict.allowed
    assert verdict.host == "evil.example"
    assert "microsoft" not in verdict.reason


def test_an_at_sign_after_the_host_is_no_user_name() -> None:
    assert judge_url("https://as.example/@user").host == "as.example"
    assert judge_url("https://as.example?u=a@b").host == "as.example"
    assert judge_url("https://as.example#a@evil.example").host == "as.example"


LOOKALIKES = [
    ("https://\u0430pple.com/a", "xn--pple-43d.com"),
    ("https://M\u00dcNCHEN.example/a", "xn--mnchen-3ya.example"),
    ("https://fa\u00df.example/a", "xn--fa-hia.example"),
    ("https://a\u3002example.com/a", "a.example.com"),
    ("https://\uff21.example/a", "a.example"),
]


@pytest.mark.parametrize(("url", "host"), LOOKALIKES)
def test_an_international_host_is_shown_and_opened_in_its_punycode_form(url: str, host: str) -> None:
    verdict = judge_url(url)
    assert verdict.host == host
    assert opened(verdict) == f"https://{host}/a"
    assert (INTERNATIONAL_WARNING in verdict.warnings) == host.startswith("xn--")


def test_a_host_that_comes_as_punycode_is_warned_of_too() -> None:
    verdict = judge_url("https://www.xn--pple-43d.com/a")
    assert verdict.warnings == (INTERNATIONAL_WARNING,)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.255.255.254", "[::1]", "[0:0:0:0:0:0:0:1]", "localhost"])
def test_http_to_this_machine_is_allowed_with_a_visible_note(host: str) -> None:
    verdict = judge_url(f"http://{host}:1234/cb")
    assert verdict.allowed
    assert verdict.unencrypted
    assert verdict.warnings == (UNENCRYPTED_WARNING,)


def test_an_encrypted_address_has_no_such_note_and_a_bare_network_address_is_pointed_out() -> None:
    assert judge_url("https://as.example/").warnings == ()
    assert judge_url("https://localhost/").warnings == ()
    assert judge_url("https://10.0.0.1/").warnings == (ADDRESS_WARNING,)
    assert judge_url("https://[2001:db8::1]/").warnings == (ADDRESS_WARNING,)
    assert not judge_url("https://10.0.0.1/").unencrypted


def test_the_display_shows_host_port_and_path_but_never_query_or_fragment() -> None:
    verdict = judge_url(f"https://AS.example:8443/authorize?state={SENTINEL}#{SENTINEL}")
    assert verdict.display == "https://as.example:8443/authorize?…"
    assert SENTINEL not in repr(verdict)
    assert SENTINEL not in str(verdict)


def test_a_long_path_is_cut_with_a_visible_mark() -> None:
    assert judge_url("https://as.example/" + "a" * 500).display.endswith("a…")


@settings(deadline=None)
@given(st.text())
def test_no_text_makes_the_judgement_fail(text: str) -> None:
    verdict = judge_url(text)
    assert verdict.allowed is (verdict.url is not None)
    assert verdict.allowed is (verdict.reason == "")


PIECES = st.sampled_from(
    [*"/:@?#%[]\\.-$()`|;&= \n\t\u202e\u0430", "https", "http", "://", "evil.example", "localhost", "%2B", "$("]
)


@settings(deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_whatever_is_allowed_is_plain_printable_ascii_that_leads_to_the_host_shown(tail: str) -> None:
    for text in (tail, "https://" + tail, "http://" + tail):
        verdict = judge_url(text)
        if verdict.allowed:
            url = opened(verdict)
            assert url.isascii()
            assert url.isprintable()
            assert not set(url) & set(' \\`|"<>^{}')
            authority = url.split("://", 1)[1].split("/", 1)[0].split("?", 1)[0].split("#", 1)[0]
            assert "@" not in authority
            assert authority.lower() == verdict.host or authority.lower().rpartition(":")[0] == verdict.host or "[" in authority


LABELS = st.text(string.ascii_lowercase, min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(LABELS, min_size=2, max_size=4), st.dictionaries(LABELS, st.text(max_size=30), max_size=5))
def test_any_encoded_query_on_any_plain_host_passes_unchanged(labels: list[str], query: dict[str, str]) -> None:
    encoded = "&".join(f"{key}={quote(value.encode('utf-8', 'replace'), safe='')}" for key, value in query.items())
    url = f"https://{'.'.join(labels)}/authorize?{encoded}"
    verdict = judge_url(url)
    assert opened(verdict) == url
    assert verdict.host == ".".join(labels)
