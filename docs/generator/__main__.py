"""Writes the generated pages of the documentation. Run by `make docs`, from anywhere: `python -m docs.generator`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import acp, conformance, events, mcp, session_json

DOCS = Path(__file__).parent.parent

PAGES: tuple[tuple[str, Callable[[], str]], ...] = (
    ("acp.md", acp.page),
    ("events.md", events.page),
    ("conformance.md", conformance.page),
    ("mcp-tools.md", mcp.tools_page),
    ("mcp-clients.md", mcp.clients_page),
    ("session-json.md", session_json.page),
)
"""File name and the function that makes its content."""


def main() -> None:
    for name, page in PAGES:
        (DOCS / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
