"""The private methods of the scripted Kiro V3 that a client may call."""

from typing import TYPE_CHECKING

from tests.peers.scripted import Message, Script, member

if TYPE_CHECKING:
    from tests.peers.kiro_v3 import KiroV3

USAGE: Message = {"success": True, "message": "", "data": {"planName": "Pro", "usageBreakdowns": []}}


def steer(agent: "KiroV3", request: Message) -> None:
    params = request["params"]
    session_id = params["sessionId"]
    if agent.options.steer == "dropped" or session_id not in agent.running:
        agent.reply(request, {"queued": False, "dropped": "epoch_changed"})
        return
    message_id = params.get("messageId") or agent.new_id("steer")
    agent.steers.setdefault(session_id, []).append((message_id, params["message"]))
    agent.info(session_id, "steering_queued", messageId=message_id, content=params["message"])
    agent.reply(request, {"queued": True, "messageId": message_id})


def clear_steers(agent: "KiroV3", request: Message) -> None:
    session_id = request["params"]["sessionId"]
    ids = [message_id for message_id, _ in agent.steers.pop(session_id, [])]
    agent.info(session_id, "steering_cleared", messageIds=ids)
    agent.reply(request, {"cleared": True, "messageIds": ids})


def reset_server(agent: "KiroV3", request: Message) -> Script:
    """Answer, ask the client to open the fresh URL, and send a new snapshot."""
    name = member(request, "params", "serverName")
    if name != "docs":
        agent.reply(request, {"success": False, "message": f"no server {name}"})
        return
    agent.reply(request, {"success": True})
    if member(request, "params", "startOAuth") is not True:
        return
    opened = yield agent.ask("_kiro/openExternalUrl", {"url": agent.options.url})
    agent.signed_in = member(opened, "result", "success") is True
    for session_id in agent.folders:
        agent.send_servers(session_id)


def history(agent: "KiroV3", request: Message) -> None:
    older = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "much older"}, "messageId": "a-oldest"}
    agent.reply(request, {"updates": [older], "hasMore": False, "oldestLoadedMessageId": "a-oldest"})
