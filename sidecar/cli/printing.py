"""Lists and JSON on standard output, for the commands that inspect."""

import json
from collections.abc import Sequence

from sidecar.cli.output import write_text
from sidecar.session.neutral import neutralise


def print_json(value: object) -> None:
    """Print indented ASCII JSON."""
    write_text(json.dumps(value, indent=2, ensure_ascii=True) + "\n")


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows below their heading, columns lined up; what stands in them is neutralised."""
    lines = [list(head), *([neutralise(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    write_text("\n".join(shown) + "\n")
