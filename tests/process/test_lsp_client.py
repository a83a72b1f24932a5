"""The strict editor is strict: each way a server can break the protocol is noticed."""

import sys

import pytest

from tests.peers.lsp_client import LspClient, ProtocolViolation

pytestmark = pytest.mark.process

REPLY = b'{"jsonrpc":"2.0","id":1,"result":5}'


def framed(body: bytes, length: int | None = None) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body) if length is None else length, body)


def server_writing(data: bytes) -> LspClient:
    """A server that waits for the first bytes, writes ``data``, and ends with its input."""
    code = f"import os; os.read(0, 65536); os.write(1, {data!r}); os.read(0, 65536)"
    return LspClient([sys.executable, "-I", "-S", "-c", code])


def test_an_honest_reply_passes() -> None:
    with server_writing(framed(REPLY)) as client:
        assert client.result("m") == 5


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (framed(REPLY, len(REPLY) - 1), "no ASCII JSON"),
        (framed(REPLY, len(REPLY) + 1), "the stream ended 1 bytes before"),
        (framed(REPLY) + b"x", "bytes after the last message"),
        (framed(REPLY) + b"\r\n" + framed(b"{}"), "not exactly Content-Length"),
        (b"print\n" + framed(REPLY), "not exactly Content-Length"),
        (b"Content-Type: x\r\n" + framed(REPLY), "not exactly Content-Length"),
        (framed(REPLY) * 2, "an id that is not open"),
        (framed(REPLY.replace(b"1,", b'"1",')), "an id that is not open"),
        (framed(REPLY.replace(b"1,", b"true,")), "an id that is not open"),
        (framed(b'{"jsonrpc":"2.0","id":1}'), "both or neither"),
        (framed(b'{"jsonrpc":"2.0","id":1,"result":1,"error":{}}'), "both or neither"),
        (framed(b'{"id":1,"result":5}'), "no message of JSON-RPC 2.0"),
        (framed(b"[]"), "no message of JSON-RPC 2.0"),
        (framed('{"jsonrpc":"2.0","id":1,"result":"é"}'.encode()), "no ASCII JSON"),
        (framed(b'{"jsonrpc":"2.0","id":1,"result":NaN}'), "no ASCII JSON"),
    ],
)
def test_each_lie_of_a_server_is_noticed(data: bytes, problem: str) -> None:
    client = server_writing(data)
    client.request("m")
    client.close_stdin()
    client.wait()
    with pytest.raises(ProtocolViolation, match=problem):
        client.check()
    client.kill()


@pytest.mark.parametrize(
    "data",
    [framed(b'{"jsonrpc":"2.0","method":"window/logMessage","params":{}}'), framed(b'{"jsonrpc":"2.0","id":0,"method":"x"}')],
)
def test_messages_nobody_looked_at_fail_at_the_end_unless_they_are_to_be_ignored(data: bytes) -> None:
    with pytest.raises(AssertionError, match="never looked at"), server_writing(framed(REPLY) + data) as client:
        assert client.result("m") == 5
    with server_writing(framed(REPLY) + data) as client:
        client.ignored.update({"window/logMessage", "x"})
        assert client.result("m") == 5


def test_a_reply_or_an_error_nobody_looked_at_fails_at_the_end() -> None:
    with pytest.raises(AssertionError, match="replies never looked at"), server_writing(framed(REPLY)) as client:
        client.request("m")
    error = framed(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}')
    with pytest.raises(AssertionError, match="errors without an id"), server_writing(error) as client:
        client.request("m")


def test_waiting_in_vain_ends_with_what_was_missed_and_what_the_server_said() -> None:
    with LspClient([sys.executable, "-I", "-S", "-c", "import sys; sys.stderr.write('no luck')"]) as client:
        with pytest.raises(AssertionError, match="no reply to request 1") as caught:
            client.reply(client.request("m"))
        client.inbox.join(5)
        assert any("stderr" in note for note in caught.value.__notes__)
