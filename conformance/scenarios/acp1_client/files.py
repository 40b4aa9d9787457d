"""Files, where the client offers them: reading from a line, at most so many lines, and writing."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from conformance.driver import StoppedError
from conformance.scenarios.acp1_client.agent import InTurn, Turn
from conformance.suite import Scenario

LINES: Final = "one\ntwo\nthree\nfour\nfive\n"
WIDE: Final = "\u00e9 \u4e2d \U0001f600\r\n\u2028 no end"
TEXT: Final = "new \u00e9 \U0001f600\nlast line without an end"


@contextmanager
def folder(turn: Turn) -> Generator[Path]:
    """A directory within that of the session, for as long as a scenario needs it."""
    if not Path(turn.cwd).is_dir() or not Path(turn.cwd).is_absolute():
        raise StoppedError(f"the session's directory {turn.cwd!r} is none, so that no file can be put there")
    try:
        with tempfile.TemporaryDirectory(prefix="rewindow-conformance-", dir=turn.cwd) as folder:
            yield Path(folder)
    except OSError as error:
        raise StoppedError(f"no file can be put into the session's directory: {error}") from None


def put(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8", newline="")
    return str(path)


def _read(turn: Turn) -> None:
    turn.need("fs.readTextFile")
    with folder(turn) as where:
        path = put(where / "lines.txt", LINES)
        turn.call("fs/read_text_file", "whole", path=path)
        turn.call("fs/read_text_file", "nulls", path=path, line=None, limit=None, _meta=None)
        turn.call("fs/read_text_file", "from-line", path=path, line=4)
        turn.call("fs/read_text_file", "limited", path=path, limit=2)
        turn.call("fs/read_text_file", "part", path=path, line=2, limit=2)
        turn.call("fs/read_text_file", "beyond", path=path, line=50)
        turn.call("fs/read_text_file", "wide", path=put(where / "wide.txt", WIDE))
        turn.call("fs/read_text_file", "missing", path=str(where / "missing.txt"))
        turn.call("fs/read_text_file", "relative", path=f"{where.name}/lines.txt")


def _read_many(turn: Turn) -> None:
    turn.need("fs.readTextFile")
    with folder(turn) as where:
        paths = [put(where / f"{number}.txt", f"file {number}\n") for number in range(3)]
        requests = [turn.ask("fs/read_text_file", f"file-{number}", path=path) for number, path in enumerate(paths)]
        for request in requests:
            turn.driver.response(request)


def _write(turn: Turn) -> None:
    turn.need("fs.writeTextFile")
    with folder(turn) as where:
        old = where / "old.txt"
        put(old, "a longer text that was there before\n" * 10)
        for label, path in (("new", where / "new.txt"), ("over", old)):
            turn.call("fs/write_text_file", label, path=str(path), content=TEXT)
            if turn.offers("fs.readTextFile"):
                turn.call("fs/read_text_file", f"{label}-back", path=str(path))
            turn.driver.mark(f"{label}-on-disk", path.read_bytes().decode(errors="replace") if path.exists() else None)


SCENARIOS: Final = (
    Scenario("read-file", "Reads a file: whole, from a line, a few lines; and one that is not there.", InTurn(_read)),
    Scenario("read-files-at-once", "Reads three files at the same time.", InTurn(_read_many)),
    Scenario("write-file", "Writes a new file, and over one that is there.", InTurn(_write)),
)
