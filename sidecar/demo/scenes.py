"""What the demo agent does on which words."""

import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from sidecar.demo import texts
from sidecar.demo.asking import ask_form, ask_url
from sidecar.demo.consent import Operation, allowed
from sidecar.demo.files import BIG_FILE_NAME, FILE_NAME, edit_file
from sidecar.demo.mcp import SEARCH_TOOL, SIGN_IN_SERVER
from sidecar.demo.shell import run_line
from sidecar.demo.turn import DemoCrash, Turn, TurnFailed
from sidecar.demo.wire import kiro, tool_text

SLOWEST_PACE_SECONDS: Final = 0.2
DEFAULT_LINE: Final = "echo hello from the demo agent"
BIG_DIFF_LINES: Final = 2_000


Scene: TypeAlias = Callable[[Turn], Awaitable[None]]


async def act(turn: Turn) -> None:
    """Play the scene whose word comes first in the prompt, after what the mode adds."""
    if turn.session.mode == "plan":
        turn.plan(texts.PLAN_STEPS, 0)
    elif turn.session.mode == "spec":
        await turn.think(texts.THOUGHT)
    scene, turn.rest = scene_for(turn.text)
    await scene(turn)
    if turn.session.mode == "plan":
        turn.plan(texts.PLAN_STEPS, len(texts.PLAN_STEPS))


def scene_for(text: str) -> tuple[Scene, str]:
    """Return the scene for ``text`` and what stands behind its word on that line; of two words the first counts."""
    found = [(match.start(), -len(match.group()), scene, match) for pattern, scene in SCENES if (match := pattern.search(text))]
    if not found:
        return greet, ""
    _, _, scene, match = min(found, key=lambda item: item[:2])
    return scene, text[match.end() :].strip().split("\n", 1)[0].strip()


async def greet(turn: Turn) -> None:
    shown = turn.text.strip()[:200] or "nothing"
    await turn.say(texts.GREETING.format(text=shown))
    if turn.attachments:
        await turn.say("With your prompt came:\n" + "".join(f"- {line}\n" for line in turn.attachments))


async def give_help(turn: Turn) -> None:
    await turn.say(texts.HELP)


async def edit(turn: Turn) -> None:
    line = turn.rest[:200] or "a line written by the demo agent"

    def change(old: str) -> str:
        start = old or "This file was made by the sidecar's demo agent.\n"
        return f"{start}{'' if start.endswith(chr(10)) else chr(10)}{start.count(chr(10))}: {line}\n"

    await turn.say(f"I would like to add a line to `{FILE_NAME}`.\n")
    done = await edit_file(turn, FILE_NAME, change)
    await turn.say(f"`{FILE_NAME}` has one more line now.\n" if done else f"`{FILE_NAME}` was not changed.\n")


async def big_diff(turn: Turn) -> None:
    def change(old: str) -> str:
        marker = "even" if old.startswith("odd") else "odd"
        return "".join(f"{marker} line {number}\n" for number in range(BIG_DIFF_LINES))

    done = await edit_file(turn, BIG_FILE_NAME, change)
    await turn.say(f"`{BIG_FILE_NAME}` has {BIG_DIFF_LINES} new lines.\n" if done else "Nothing was changed.\n")


async def run(turn: Turn) -> None:
    line = turn.rest.strip("`") or DEFAULT_LINE
    await turn.say(f"I would like to run `{line}`.\n")
    outcome = await run_line(turn, line)
    if outcome is None:
        await turn.say("It was not run.\n")
    elif outcome.exit_code == 0:
        await turn.say(f"It printed {len(outcome.output)} characters and ended well.\n")
    else:
        await turn.say(
            f"It ended with {'exit code ' + str(outcome.exit_code) if outcome.exit_code is not None else 'a signal'}.\n"
        )


async def sign_in(turn: Turn) -> None:
    """Use the MCP server that wants a sign-in: the call fails until the user has signed in."""
    name = f"@{SIGN_IN_SERVER}/{SEARCH_TOOL}"
    tool = turn.open_tool("mcp", name, kind="search", rawInput={"query": "demo"})
    identity = {"serverName": SIGN_IN_SERVER, "toolName": SEARCH_TOOL}
    envelope = {"version": 1, "identity": identity, "annotations": {"readOnlyHint": True, "openWorldHint": True}}
    if not await allowed(turn, tool, Operation("mcp", [name], details={"mcpTool": envelope})):
        tool.fail("denied", "You did not allow this call.")
        await turn.say("The server was not asked.\n")
        return
    tool.update(status="in_progress")
    if turn.stage.servers.signed_in:
        tool.complete(content=[tool_text("Nothing was found, and that is all there is.")], _meta=kiro(mcpTool=envelope))
        await turn.say(f"You are signed in to `{SIGN_IN_SERVER}`; the search worked.\n")
        return
    turn.stage.servers.publish()
    tool.fail("error", "HTTP 401: sign in first")
    await turn.say(texts.SEARCH_FAILED.format(server=SIGN_IN_SERVER))


async def plan(turn: Turn) -> None:
    for done, step in enumerate(texts.PLAN_STEPS):
        turn.plan(texts.PLAN_STEPS, done)
        await turn.say(f"{step}.\n")
    turn.plan(texts.PLAN_STEPS, len(texts.PLAN_STEPS))


async def think(turn: Turn) -> None:
    await turn.think(texts.THOUGHT)
    await turn.say("That was a thought; this is the answer.\n")


async def long_answer(turn: Turn) -> None:
    for number in range(1, texts.LONG_PARAGRAPHS + 1):
        await turn.say(texts.LONG_PARAGRAPH.format(number=number))


async def slow_answer(turn: Turn) -> None:
    await turn.say(texts.SLOW, pace=max(SLOWEST_PACE_SECONDS, turn.stage.settings.pace))


async def markdown(turn: Turn) -> None:
    await turn.say(texts.MARKDOWN)


async def fail(turn: Turn) -> None:
    await turn.say("This turn will end with an error.\n")
    message = "The demo agent failed because you asked it to."
    turn.link.info(turn.session.session_id, "display_error", message=message, errorType="demo")
    raise TurnFailed(message)


async def crash(turn: Turn) -> None:
    await turn.say("This was my last word.\n")
    raise DemoCrash


async def ask(turn: Turn) -> None:
    await (ask_url(turn) if re.match(r"url\b", turn.rest, re.IGNORECASE) else ask_form(turn))


async def image(turn: Turn) -> None:
    await turn.say("Here is a small picture.\n")
    turn.show({"type": "image", "data": texts.IMAGE, "mimeType": "image/png"})


async def tour(turn: Turn) -> None:
    """The main things one after the other."""
    for done, scene in enumerate((greet, edit, run, sign_in)):
        turn.plan(texts.TOUR_STEPS, done)
        if done == 0:
            await turn.think(texts.THOUGHT)
        await scene(turn)
    turn.plan(texts.TOUR_STEPS, len(texts.TOUR_STEPS))
    await turn.say("That was the tour.\n")


def _word(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)/?{pattern}(?!\w)", re.IGNORECASE)


SCENES: Final[tuple[tuple[re.Pattern[str], Scene], ...]] = (
    (_word("help"), give_help),
    (_word("tour"), tour),
    (_word("big diff"), big_diff),
    (_word("edit"), edit),
    (_word("shell"), run),
    (_word("run"), run),
    (_word("(?:sign|log)[ -]?in"), sign_in),
    (_word("mcp"), sign_in),
    (_word("plan"), plan),
    (_word("think"), think),
    (_word("long"), long_answer),
    (_word("slow(?:ly)?"), slow_answer),
    (_word("markdown"), markdown),
    (_word("fail"), fail),
    (_word("crash"), crash),
    (_word("ask"), ask),
    (_word("image"), image),
)
