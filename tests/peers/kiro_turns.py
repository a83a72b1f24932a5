"""The turns of the scripted Kiro V3; each is a script that ends with the reply to its prompt.

The first word of the prompt chooses one of ``TURNS``.
"""

import json
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.peers.scripted import Call, Message, Script, Signal, Wait, member

if TYPE_CHECKING:
    from tests.peers.kiro_v3 import KiroV3

OPTIONS = (
    ("accept", "Allow", "allow_once"),
    ("always-accept", "Always allow", "allow_always"),
    ("reject", "Deny", "reject_once"),
    ("always-reject", "Always deny", "reject_always"),
)
MCP_TOOL = {
    "version": 1,
    "identity": {"serverName": "example-server", "toolName": "search"},
    "annotations": {"readOnlyHint": True, "destructiveHint": False},
}

Turn: TypeAlias = Callable[["KiroV3", Message], Script]
Asked: TypeAlias = Generator[Wait, Message, str]


def play_turn(agent: "KiroV3", request: Message) -> Script:
    """Play the turn that the prompt names, between the frames that begin every turn and those that end it."""
    session_id = request["params"]["sessionId"]
    words = _prompt_text(request).split()
    name = words[0] if words and words[0] in TURNS else agent.options.turn
    agent.info(session_id, "user_message_id_assigned", userMessageId=agent.new_id("u"))
    agent.info(session_id, "turn_start", messageId=agent.new_id("m"))
    yield from TURNS[name](agent, request)


def answer(agent: "KiroV3", request: Message) -> Script:
    """A thought and an answer in a few pieces."""
    session_id = request["params"]["sessionId"]
    agent.update(session_id, "agent_thought_chunk", content=_text("Hm. "))
    for piece in ("You said: ", _prompt_text(request), " \N{ROCKET}\u2028done."):
        agent.update(session_id, "agent_message_chunk", content=_text(piece), messageId="a-1")
    agent.update(session_id, "something_new_update", payload={"kept": True})
    agent.end_turn(request, "end_turn")
    yield from ()


def shell(agent: "KiroV3", request: Message) -> Script:
    """A shell line: pending, the question with a stub of the tool call, in progress twice, the output as JSON text."""
    session_id = request["params"]["sessionId"]
    line = _prompt_text(request).partition(" ")[2] or "echo hello"
    call = _open_shell_call(agent, session_id, line)
    option = yield from ask(agent, session_id, call, line, {"command": line, **_consent(agent, session_id, "shell", line)})
    if option == "cancelled":
        yield from _end_cancelled(agent, request, call)
        return
    if not option.endswith("accept"):
        _fail(agent, session_id, call, "denied")
        agent.end_turn(request, "end_turn")
        return
    output = yield from _run(agent, session_id, call, line)
    _complete_shell_call(agent, session_id, call, output)
    agent.update(session_id, "agent_message_chunk", content=_text("It ran."))
    agent.end_turn(request, "end_turn")


def rounds(agent: "KiroV3", request: Message) -> Script:
    """Several rounds of consent for one tool call, one resource after the other."""
    session_id = request["params"]["sessionId"]
    call = _open_shell_call(agent, session_id, "a && b && c")
    for number in range(1, agent.options.rounds + 1):
        own = {**_consent(agent, session_id, "shell", f"part {number}"), "consentRound": number}
        option = yield from ask(agent, session_id, call, "a && b && c", own)
        if option == "cancelled":
            yield from _end_cancelled(agent, request, call)
            return
        if not option.endswith("accept"):
            _fail(agent, session_id, call, "denied")
            agent.end_turn(request, "end_turn")
            return
    _complete_shell_call(agent, session_id, call, "all parts ran\n")
    agent.end_turn(request, "end_turn")


def write(agent: "KiroV3", request: Message) -> Script:
    """A write: in progress, pending with a diff whose path is a file URI, the question; by the client's files if declared."""
    session_id = request["params"]["sessionId"]
    path = f"{agent.folders[session_id]}/notes.txt"
    call = agent.new_id("fs_write")
    old = ""
    agent.update(session_id, "tool_call", toolCallId=call, title="Write notes.txt", kind="edit", status="in_progress")
    if agent.declared("fs", "readTextFile"):
        read = yield agent.ask("fs/read_text_file", {"sessionId": session_id, "path": path, "line": 0, "limit": 2001})
        old = str(member(read, "result", "content") or "")
    diff = {"type": "diff", "path": f"file://{path}", "oldText": old, "newText": old + "a note\n"}
    agent.update(session_id, "tool_call_update", toolCallId=call, status="pending", content=[diff], locations=[{"path": path}])
    option = yield from ask(agent, session_id, call, "Write notes.txt", _consent(agent, session_id, "fs_write", "notes.txt"))
    if option == "cancelled":
        yield from _end_cancelled(agent, request, call)
        return
    if option.endswith("accept"):
        if agent.declared("fs", "writeTextFile"):
            yield agent.ask("fs/write_text_file", {"sessionId": session_id, "path": path, "content": old + "a note\n"})
        agent.update(session_id, "tool_call_update", toolCallId=call, status="completed", content=[diff])
    else:
        _fail(agent, session_id, call, "denied")
    agent.end_turn(request, "end_turn")


def subagent(agent: "KiroV3", request: Message) -> Script:
    """A sub-agent asks in a session the client never heard of, and a tool update comes without its tool call."""
    session_id = request["params"]["sessionId"]
    agent.update(session_id, "tool_call_update", toolCallId="subtask_1", status="in_progress", title="A sub-agent", kind="think")
    call = agent.new_id("run_command")
    own = {**_consent(agent, session_id, "shell", "make"), "kind": "agent-subtask", "agentSubtaskId": "subtask_1"}
    option = yield from ask(agent, "sess_sub_of_nobody", call, "make", own)
    agent.update(session_id, "tool_call_update", toolCallId="subtask_1", status="completed")
    agent.update(session_id, "agent_message_chunk", content=_text(f"The sub-agent got {option}."))
    agent.end_turn(request, "end_turn")


def mcp(agent: "KiroV3", request: Message) -> Script:
    """A tool of an MCP server, once only, with hints that must not decide anything."""
    session_id = request["params"]["sessionId"]
    call = agent.new_id("mcp")
    agent.update(session_id, "tool_call", toolCallId=call, title="@example-server/search", kind="other", status="pending")
    option = yield from ask(agent, session_id, call, "@example-server/search", {"mcpTool": MCP_TOOL}, always=False)
    agent.update(session_id, "agent_message_chunk", content=_text(f"Got {option}."))
    agent.end_turn(request, "end_turn")


def unkept(agent: "KiroV3", request: Message) -> Script:
    """A question whose answer cannot be kept."""
    session_id = request["params"]["sessionId"]
    call = _open_shell_call(agent, session_id, "rm -rf build")
    own = _consent(agent, session_id, "shell", "rm -rf build", persistableConsent=False, persistableConsentReason="dangerous")
    option = yield from ask(agent, session_id, call, "rm -rf build", own, always=False)
    agent.update(session_id, "agent_message_chunk", content=_text(f"Got {option}."))
    agent.end_turn(request, "end_turn")


def question(agent: "KiroV3", request: Message) -> Script:
    """A question to the user as options that are all of the kind ``allow_once``."""
    session_id = request["params"]["sessionId"]
    options = [{"optionId": f"choice-{name}", "name": name, "kind": "allow_once"} for name in ("red", "green", "blue")]
    call = {"toolCallId": agent.new_id("user_input"), "status": "pending", "title": "Which colour?"}
    reply = yield agent.ask("session/request_permission", {"sessionId": session_id, "toolCall": call, "options": options})
    agent.update(session_id, "agent_message_chunk", content=_text(f"Got {_option_of(reply)}."))
    agent.end_turn(request, "end_turn")


def silent(agent: "KiroV3", request: Message) -> Script:
    """A tool runs and nothing is heard until the turn is cancelled; the tool is left open."""
    session_id = request["params"]["sessionId"]
    call = _open_shell_call(agent, session_id, "sleep 1000")
    agent.update(session_id, "tool_call_update", toolCallId=call, status="in_progress")
    yield from _end_cancelled(agent, request, call, close_tool=False)


def deaf(agent: "KiroV3", request: Message) -> Script:
    """A cancellation is taken and the reply does not come before the signal "reply"."""
    session_id = request["params"]["sessionId"]
    agent.update(session_id, "agent_message_chunk", content=_text("working"))
    if session_id not in agent.cancelled:
        yield Call("session/cancel", session_id)
        agent.cancelled.add(session_id)
    yield Signal("reply")
    agent.end_turn(request, "cancelled")


def late(agent: "KiroV3", request: Message) -> Script:
    """``turn_end`` is not the end: more comes, and the reply only at the signal "reply"."""
    session_id = request["params"]["sessionId"]
    agent.info(session_id, "turn_end", stopReason="end_turn")
    agent.update(session_id, "agent_message_chunk", content=_text("still at it"))
    yield Signal("reply")
    agent.end_turn(request, "end_turn")


def steerable(agent: "KiroV3", request: Message) -> Script:
    """The turn goes on at the signal "reply" and takes up what was steered by then."""
    session_id = request["params"]["sessionId"]
    agent.update(session_id, "agent_message_chunk", content=_text("steer me"))
    yield Signal("reply")
    for message_id, text in agent.steers.pop(session_id, []):
        agent.info(session_id, "steering_injected", messageId=message_id)
        agent.update(session_id, "agent_message_chunk", content=_text(f"steered: {text}"))
    agent.end_turn(request, "end_turn")


def url(agent: "KiroV3", request: Message) -> Script:
    """The agent asks to open a URL that no user asked for; the rest of the prompt is the URL."""
    session_id = request["params"]["sessionId"]
    wanted = _prompt_text(request).partition(" ")[2] or agent.options.url
    reply = yield agent.ask("_kiro/openExternalUrl", {"url": wanted})
    success = member(reply, "result", "success")
    agent.update(session_id, "agent_message_chunk", content=_text(f"Opened: {success}."))
    agent.end_turn(request, "end_turn")


def token(agent: "KiroV3", request: Message) -> Script:
    """The agent wants an access token in the middle of a turn."""
    agent.token_reply = yield agent.ask("_kiro/auth/getAccessToken", {})
    agent.end_turn(request, "end_turn")


def unknown(agent: "KiroV3", request: Message) -> Script:
    """The agent asks for something that no client has; every request needs an answer."""
    session_id = request["params"]["sessionId"]
    reply = yield agent.ask("_kiro/workspace/inventNothing", {"sessionId": session_id})
    agent.update(session_id, "agent_message_chunk", content=_text(f"Code {member(reply, 'error', 'code')}."))
    agent.end_turn(request, "end_turn")


def notes(agent: "KiroV3", request: Message) -> Script:
    """Everything private that turns into a notice, and some that nobody knows."""
    session_id = request["params"]["sessionId"]
    agent.notify("_kiro/error/rate_limit", {"sessionId": session_id, "message": "slow down"})
    agent.notify("_kiro/customAgent/not_found", {"sessionId": session_id, "requestedAgent": "x", "fallbackAgent": "y"})
    agent.notify("_kiro/customAgent/config_error", {"sessionId": session_id, "path": "/a.json", "error": "bad"})
    agent.notify("_kiro/system/notify", {"level": "warning", "message": "maintenance"})
    agent.notify("_kiro/policy/changed", {"sessionId": session_id, "status": "changed"})
    agent.notify("_kiro/brand/new", {"sessionId": session_id, "body": "kept"})
    agent.info(session_id, "display_error", message="shown to the user", errorType="x")
    agent.info(session_id, "never_heard_of", value=1)
    agent.end_turn(request, "end_turn")
    yield from ()


def crash(agent: "KiroV3", request: Message) -> Script:
    """The process ends in the middle of a turn."""
    agent.update(request["params"]["sessionId"], "agent_message_chunk", content=_text("last words"))
    agent.leave(9)
    yield from ()


def ask(agent: "KiroV3", session_id: str, call: str, title: str, own: Message, *, always: bool = True) -> Asked:
    """Ask for permission as captured and return the option id, or ``cancelled``; an option that was not offered is a failure."""
    offered = OPTIONS if always else (OPTIONS[0], OPTIONS[2])
    options = [{"optionId": option, "name": name, "kind": kind} for option, name, kind in offered]
    waiting: Message = {"toolCallId": call, "interactionType": "tool_approval", "question": title, "options": options}
    agent.info(session_id, "pending_interaction", **waiting)
    params: Message = {
        "sessionId": session_id,
        "toolCall": {"toolCallId": call, "status": "pending", "title": title},
        "options": options,
        "_meta": {"kiro": {"toolId": "run_command", "consentRound": 1, **own}},
    }
    reply = yield agent.ask("session/request_permission", params)
    option = _option_of(reply)
    assert option == "cancelled" or option in [item["optionId"] for item in options], f"{option} was not offered"
    agent.info(session_id, "interaction_resolved", toolCallId=call, outcome="selected", selectedOption=option)
    return option


def _consent(agent: "KiroV3", session_id: str, capability: str, resource: str, **more: Any) -> Message:
    root = agent.options.workspace_root or agent.folders[session_id]
    consent: Message = {"capability": capability, "resource": resource, "askType": "implicit", "workspaceRoot": root, **more}
    if capability == "shell":
        consent["triggeringResource"] = resource
    return {"consent": consent}


def _option_of(reply: Message) -> str:
    """Return the option id of a permission reply, or ``cancelled`` (also for an error reply)."""
    if member(reply, "result", "outcome", "outcome") == "selected":
        return str(member(reply, "result", "outcome", "optionId"))
    return "cancelled"


def _open_shell_call(agent: "KiroV3", session_id: str, line: str) -> str:
    call = agent.new_id("run_command")
    raw = {"command": line}
    agent.update(session_id, "tool_call", toolCallId=call, title="Run Command", kind="execute", status="pending", rawInput=raw)
    agent.update(session_id, "tool_call_update", toolCallId=call, title=line)
    return call


def _run(agent: "KiroV3", session_id: str, call: str, line: str) -> Asked:
    """Run in the client's terminal when it declared one (the whole line is the command), else pretend; return the output."""
    agent.update(session_id, "tool_call_update", toolCallId=call, status="in_progress")
    agent.update(session_id, "tool_call_update", toolCallId=call, status="in_progress")
    if not agent.declared("terminal"):
        return "hello\n"
    created = yield agent.ask("terminal/create", {"sessionId": session_id, "command": line})
    terminal = {"sessionId": session_id, "terminalId": member(created, "result", "terminalId")}
    content = [{"type": "terminal", "terminalId": terminal["terminalId"]}]
    agent.update(session_id, "tool_call_update", toolCallId=call, content=content)
    yield agent.ask("terminal/wait_for_exit", terminal)
    output = yield agent.ask("terminal/output", terminal)
    yield agent.ask("terminal/release", terminal)
    return str(member(output, "result", "output"))


def _complete_shell_call(agent: "KiroV3", session_id: str, call: str, output: str) -> None:
    text = json.dumps({"output": output, "exitCode": 0})
    agent.update(
        session_id,
        "tool_call_update",
        toolCallId=call,
        status="completed",
        content=[{"type": "content", "content": _text(text)}],
        rawOutput={"output": output, "exitCode": 0, "message": "done"},
    )


def _fail(agent: "KiroV3", session_id: str, call: str, reason: str) -> None:
    meta = {"kiro": {"failureReason": reason}}
    agent.update(session_id, "tool_call_update", toolCallId=call, status="failed", _meta=meta)


def _end_cancelled(agent: "KiroV3", request: Message, call: str, *, close_tool: bool = True) -> Script:
    """Wait for ``session/cancel``, unless it came already, and end the turn as cancelled."""
    session_id = request["params"]["sessionId"]
    if session_id not in agent.cancelled:
        yield Call("session/cancel", session_id)
    if close_tool:
        _fail(agent, session_id, call, "cancelled")
    agent.end_turn(request, "cancelled")


def _prompt_text(request: Message) -> str:
    blocks: list[Any] = member(request, "params", "prompt") or []
    return "".join(str(member(block, "text") or "") for block in blocks)


def _text(text: str) -> Message:
    return {"type": "text", "text": text}


TURNS: dict[str, Turn] = {
    "answer": answer,
    "shell": shell,
    "rounds": rounds,
    "write": write,
    "subagent": subagent,
    "mcp": mcp,
    "unkept": unkept,
    "question": question,
    "silent": silent,
    "deaf": deaf,
    "late": late,
    "steerable": steerable,
    "url": url,
    "token": token,
    "unknown": unknown,
    "notes": notes,
    "crash": crash,
}
