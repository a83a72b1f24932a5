"""What the demo agent says."""

from typing import Final

HELP: Final = """I am the built-in demo agent. I have no model; I act on plain words:

- `edit` changes `sidecar-demo.txt` after asking you
- `run echo hello` runs a harmless line after asking you; `run echo a && pwd` asks once per command
- `sign in` tries an MCP server that wants you to sign in first
- `plan`, `think`, `markdown`, `image`, `big diff` show what an answer can hold
- `long` and `slow` give you time to cancel or to steer
- `ask` asks you with a form, `ask url` with a page
- `fail` ends the turn with an error, `crash` ends the agent
- `tour` does the main things one after the other
"""

GREETING: Final = """Hello! You wrote: {text}

I am the built-in demo agent and understand plain words only. Try `tour`, `edit`, `run echo hello`, `sign in` or `help`.
"""

MARKDOWN: Final = """# A small heading

Some *emphasis*, some **strong words**, `code`, and a [link](https://agentclientprotocol.com).

1. first
2. second
   - nested, with an accent: é, a sign ½, and an emoji: 🚀

```python
def hello(name: str) -> str:
    return f"Hello, {name}!"
```

| Word | Does |
|------|------|
| `edit` | edits a file |
| `run` | runs a line |

> A quotation at the end.
"""

THOUGHT: Final = "The user wants to see a thought. It should be short, and the answer should stand apart from it.\n"

SLOW: Final = """This answer is slow on purpose. You can cancel it at any time. You can also type while it runs. \
What you type is taken up at the end of a sentence. There is nothing more to say. So these words just go on. And on. \
Until the last one.
"""

LONG_PARAGRAPH: Final = (
    "Paragraph {number}: a long answer comes in many small pieces, each of them one update, and none of them may get lost.\n\n"
)
LONG_PARAGRAPHS: Final = 60

TOUR_STEPS: Final = [
    "Say hello",
    "Edit a file, after asking",
    "Run a shell line, after asking",
    "Try a server that wants a sign-in",
]
PLAN_STEPS: Final = ["Read the request", "Think of something", "Say that it is done"]

SEARCH_FAILED: Final = """The server `{server}` wants you to sign in first. Use the sidecar's MCP sign-in \
(`mcp.authenticate` with the server `{server}`), then say `sign in` again.
"""

# An orange square of 8 by 8 pixels (PNG).
IMAGE: Final = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR4nGP40KCAFTEMLQkARxFkAQqvFGYAAAAASUVORK5CYII="
