"""Where peers live, and how results are shown: shared by all benchmarks.

A peer is installed into a virtual environment of its own under `benchmarks/.peers`; one that cannot be installed is
reported as missing by whoever asked for it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

Row = dict[str, object]
"""One measured line: name, ours, peer (both with units), ratio ours/peer or None, bar, met."""

PEERS = Path(__file__).parent / ".peers"
COLUMNS = ("name", "ours", "peer", "ratio", "bar", "met")


def peer_python(name: str, *requirements: str, interpreter: str = sys.executable) -> Path | None:
    """The Python of the peer's environment, which is made at the first call; None where that failed."""
    home = PEERS / name
    python = home / "bin" / "python"
    ready = home / ".installed"
    if ready.exists() and ready.read_text() == "\n".join(requirements):
        return python
    try:
        subprocess.run([interpreter, "-m", "venv", "--clear", str(home)], check=True, capture_output=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"peer {name} cannot be installed: {error}\n")
        return None
    ready.write_text("\n".join(requirements))
    return python


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "| " + " | ".join("---" for _ in COLUMNS) + " |"]
    lines += ["| " + " | ".join(_cell(row.get(column)) for column in COLUMNS) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "**no**"
        case _:
            return str(value)
