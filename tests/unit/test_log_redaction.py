"""Nothing secret survives redaction."""

import base64
import json
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.log.redaction import SecretRegister, redact, register_environment, register_secret
from sidecar.secret import SecretText, looks_secret


@pytest.fixture(autouse=True)
def no_other_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests registered must not change what is read here."""
    monkeypatch.setattr("sidecar.log.redaction._REGISTER", SecretRegister())


TABLE = [
    ("Authorization: Bearer abc.def.ghi", "abc"),
    ("authorization:Basic dXNlcjpwYXNz", "dXNl"),
    ("proxy-authorization: Negotiate YIIabc", "YIIabc"),
    ("Cookie: session=abc123; other=zz9", "zz9"),
    ("Set-Cookie: id=a3fWa; Secure", "a3fWa"),
    ("X-Api-Key: k-12345", "k-12345"),
    ("{'Authorization': 'Bearer abcdefgh'}", "abcdefgh"),
    ('{"accessToken": "abc\\"def", "expiresAt": 1}', "def"),
    ('{\\"refresh_token\\":\\"abcdef\\"}', "abcdef"),
    ("client_secret='two words' rest", "two words"),
    ("client_secret=abc&grant_type=x", "abc"),
    ("code_verifier=dBjftJeZ4CVP", "dBjf"),
    ("OPENAI_API_KEY=zzz111", "zzz111"),
    ("password: hunter2", "hunter2"),
    ("passwd = hunter2", "hunter2"),
    ("credentials: {user: a, pass: b}", "pass: b"),
    ("run --api-key k-999 --verbose", "k-999"),
    ("run --token=k-999", "k-999"),
    ("https://user:pw77@host.example/path", "pw77"),
    ("see https://as.example/authorize?state=abc&code_challenge=xyz now", "xyz"),
    ("see https://as.example/callback#access_token=abc", "abc"),
    ("wss://host.example/events?ticket=abc", "abc"),
    ("redirect /callback?code=SplxlOBeZQQYbYS6WxSbIA&x=1", "Splxl"),
    ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "eyJ"),
    ("key sk-proj-abcdefghijklmnop1234", "abcdefgh"),
    ("ghp_abcdefghijklmnopqrst1234", "abcdef"),
    ("AKIAIOSFODNN7EXAMPLE", "IOSF"),
    ("xoxb-1234-abcdefgh", "1234-abc"),
    ("id Zm9vYmFyQmF6MTIzNDU2Nzg5MEFiQ2RFZg rest", "Zm9v"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpA\n-----END RSA PRIVATE KEY-----", "MIIEpA"),
    ("-----BEGIN PRIVATE KEY-----\nMIIEpA cut", "MIIEpA"),
]


@pytest.mark.parametrize(("text", "gone"), TABLE, ids=[text[:30] for text, _ in TABLE])
def test_credentials_nobody_registered_are_found_by_their_place_or_shape(text: str, gone: str) -> None:
    assert gone in text
    assert gone not in redact(text)
    assert "***" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "agent kiro exited with code 7 after 0.3 s (state=cancelling)",
        "session sess_0190aaaa-bbbb-7ccc-8ddd-eeeeffff0000 of /srv/u/Projects/fooBar",
        "inputTokens=500 totalTokens: 20",
        "https://docs.example/mcp/path is not reachable",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "ENOENT: no such file or directory, open '/usr/lib/node_modules/x/index.js'",
        "usage: kiro-cli acp [OPTIONS]",
    ],
)
def test_what_helps_to_find_a_fault_stays_readable(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "url", ["https://h.example/a?b=c", "https://h.example?b", "https://u@h.example/x", "http://h.example/#f"]
)
def test_a_url_that_can_carry_secrets_keeps_scheme_and_host_only(url: str) -> None:
    assert redact(f"at {url} end") == f"at {url.partition(':')[0]}://h.example/*** end"


SECRETS = st.text(min_size=8, max_size=40) | st.binary(min_size=8, max_size=30).map(lambda data: base64.b64encode(data).decode())


def as_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def as_url_base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


def as_query(text: str) -> str:
    return quote(text, safe="")


def as_json(text: str) -> str:
    return json.dumps(text)


ENCODERS: list[Callable[[str], str]] = [str, quote, as_query, quote_plus, as_json, repr, as_base64, as_url_base64]


def storable(secret: str) -> bool:
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in secret)


@given(SECRETS.filter(storable), st.text(max_size=30), st.text(max_size=30), st.sampled_from(ENCODERS), st.data())
def test_no_eight_characters_of_a_registered_secret_survive(
    secret: str, before: str, after: str, encode: Callable[[str], str], data: st.DataObject
) -> None:
    register = SecretRegister()
    register.add(secret)
    whole = encode(secret)
    start = data.draw(st.integers(0, max(0, len(whole) - 8)))
    piece = data.draw(st.sampled_from([whole, whole[start:], whole[: start + 8]]))
    cleaned = register.scrub(before + piece + after)
    for form in (secret, encode(secret).strip("'\"=")):
        # The edges of base64 mix in neighbours of the secret and prove nothing about it.
        inner = form if form == secret else form[:-3]
        assert not any(inner[at : at + 8] in cleaned for at in range(len(inner) - 7))


@given(st.binary(min_size=9, max_size=30), st.binary(max_size=4), st.binary(max_size=4))
def test_base64_of_text_around_a_secret_hides_it_at_every_alignment(secret: bytes, before: bytes, after: bytes) -> None:
    text = base64.b64encode(secret).decode()
    register = SecretRegister()
    register.add(text)
    around = base64.b64encode(before + text.encode() + after).decode()
    cleaned = register.scrub(around)
    padding = len(before) % 3
    inner = around[len(before) // 3 * 4 + (0, 2, 3)[padding] :][: len(text)]
    assert not any(inner[at : at + 8] in cleaned for at in range(len(inner) - 7))


@given(st.text(max_size=200), SECRETS)
def test_scrubbing_twice_changes_nothing_more(text: str, secret: str) -> None:
    register = SecretRegister()
    register.add(secret)
    once = register.scrub(text + secret)
    assert register.scrub(once) == once


@given(st.text(max_size=300))
def test_redaction_takes_any_text(text: str) -> None:
    assert isinstance(redact(text), str)


def test_short_secrets_are_hidden_whole_and_very_short_ones_are_not_taken() -> None:
    register = SecretRegister()
    register.add("p4ss!")
    register.add("abc")
    assert register.scrub("say p4ss! and abc and p4ss") == "say *** and abc and p4ss"


def test_registered_secrets_vanish_from_redacted_text_in_every_form() -> None:
    sentinel = "s3ntinel/Wert+für:alle"
    register_secret(SecretText(sentinel))
    encoded = base64.b64encode(sentinel.encode()).decode()
    for form in (sentinel, quote(sentinel, safe=""), quote_plus(sentinel), json.dumps(sentinel), repr(sentinel), encoded):
        assert form[:10] not in redact(f"x {form} y")
        assert form[6:16] not in redact(f"x {form[6:]} y")


def test_values_of_environment_variables_with_secret_names_are_registered() -> None:
    register_environment({"MY_API_KEY": "value-of-mine-77", "EDITOR": "plainvalue-88", "TOKEN_FILE": "/srv/someone/tokenfile"})
    assert "of-mine" not in redact("got value-of-mine-77")
    assert redact("plainvalue-88 /srv/someone/tokenfile") == "plainvalue-88 /srv/someone/tokenfile"


@pytest.mark.parametrize(
    ("name", "secret"),
    [("GITHUB_TOKEN", True), ("Authorization", True), ("X-Api-Key", True), ("AWS_SECRET_ACCESS_KEY", True), ("DB_PASSWORD", True),
     ("SET-COOKIE", True), ("NPM_AUTH", True), ("PATH", False), ("SSH_AUTH_SOCK", False), ("KEYBOARD", False),
     ("PASSWORD_STORE_DIR", False), ("Accept", False)],
)  # fmt: skip
def test_names_that_hold_secrets_are_recognised(name: str, secret: bool) -> None:
    assert looks_secret(name) is secret


@pytest.mark.parametrize(
    "piece",
    [
        "token-",
        "a-",
        "Aa1",
        "x://",
        '"',
        "-----BEGIN PRIVATE KEY-----",
        "bearer ",
        "token=",
        "token:  ",
        "--token ",
        "eyJ.",
        "\\",
        "code=",
    ],
)
def test_hostile_text_costs_time_in_proportion_to_its_length(piece: str) -> None:
    small, large = piece * (10_000 // len(piece)), piece * (40_000 // len(piece))
    assert _seconds(large) < 12 * _seconds(small) + 0.05


def _seconds(text: str) -> float:
    best = 10.0
    for _ in range(3):
        start = time.thread_time()
        redact(text)
        best = min(best, time.thread_time() - start)
    return best
