"""Transcripts: all bytes between a client and a program, with senders and times, and the scenario's marks.

A transcript is append-only and keeps every message. Bulk data that the suite generates (a line of 50 MB) is kept as
length and digest. Logs keep their beginning and end, because a program may flood standard error and no judge reads it.
The end is held back until `end_logs`. Files are JSON lines (`docs/conformance-formats.md`), with base64 for data that
is not UTF-8. Knows no protocol.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from conformance.values import as_object, as_text, is_object

FORMAT: Final = "rewindow-conformance transcript"
VERSION: Final = 1
LIMIT: Final = 64 * 1024 * 1024
"""Bytes. A scenario stops when its transcript would grow beyond."""
MOST_ENTRIES: Final = 100_000
"""A program that writes single bytes costs far more memory and time per entry than its data."""
LIMITS: Final = f"{LIMIT >> 20} MiB or {MOST_ENTRIES:,} pieces"
LONGEST_LINE: Final = 16 * 1024 * 1024
"""Bytes. A scenario stops when a line of the program would grow beyond."""
LOG_BYTES: Final = 128 * 1024
"""Bytes kept from the beginning of a log, and again from its end."""
_LOG_PIECES: Final = 1000
"""Entries kept from either end."""
_DIGESTED: Final = 1024 * 1024
"""Larger pieces that the suite sends are kept as a digest."""

Kind = Literal["client", "client-log", "server", "server-log", "mark"]
"""The sender: the client, the server (or agent), the log of either; or a mark."""


class TranscriptFormatError(ValueError):
    """Raised for a file that is not a transcript, or has a newer version. Fields: path, why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


@dataclass(frozen=True, slots=True)
class Entry:
    """A chunk of bytes, or a mark. `ms` counts from the start of the scenario."""

    ms: float
    kind: Kind
    data: bytes = b""
    label: str = ""
    """For marks: the name, such as `stdout-closed`."""
    value: Any = None
    """For marks: JSON."""
    omitted: int = 0
    """Bytes after `data` that are kept only as a digest; in a log, the bytes that `data` says were omitted."""
    sha256: str = ""


@dataclass(slots=True)
class _LogTail:
    """The state of a log: how much of its beginning is recorded, and its end so far."""

    recorded: int = 0
    pieces: int = 0
    is_at_start: bool = True
    """Whether the beginning is still being recorded."""
    end: deque[tuple[float, bytes]] = field(default_factory=deque[tuple[float, bytes]])
    held: int = 0
    omitted: int = 0

    def hold(self, ms: float, data: bytes, omitted: int) -> None:
        if omitted:  # the end is what follows a gap
            self.omitted += omitted + self.held
            self.held = 0
            self.end.clear()
        self.end.append((ms, data))
        self.held += len(data)
        while self.held > LOG_BYTES or len(self.end) > _LOG_PIECES:
            moment, first = self.end.popleft()
            surplus = len(first) if len(self.end) >= _LOG_PIECES else min(self.held - LOG_BYTES, len(first))
            self.held -= surplus
            self.omitted += surplus
            if surplus < len(first):
                self.end.appendleft((moment, first[surplus:]))


@dataclass(slots=True)
class Transcript:
    """The events of one scenario. `facts` hold the command and its options; judges may read them."""

    scenario: str
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    entries: list[Entry] = field(default_factory=list[Entry])
    size: int = 0
    _logs: dict[Kind, _LogTail] = field(default_factory=dict[Kind, _LogTail], compare=False, repr=False)

    def add(self, ms: float, kind: Kind, data: bytes, *, generated: bool = False, omitted: int = 0) -> None:
        """Record a chunk.

        Args:
            ms: its time.
            kind: its sender.
            data: its bytes.
            generated: whether the suite generated it, so that a digest is enough.
            omitted: for logs, the bytes before it that the peer dropped.
        """
        if kind.endswith("-log") and not self._extends_beginning(kind, len(data), omitted):
            self._logs[kind].hold(ms, data, omitted)
            return
        if generated and len(data) > _DIGESTED:
            head = data[:256]
            entry = Entry(ms, kind, head, omitted=len(data) - 256, sha256=hashlib.sha256(data).hexdigest())
        else:
            entry = Entry(ms, kind, data)
        self.size += len(entry.data)
        self.entries.append(entry)

    def _extends_beginning(self, kind: Kind, size: int, omitted: int) -> bool:
        """Whether so many bytes still fit into the beginning of the log."""
        log = self._logs.setdefault(kind, _LogTail())
        log.is_at_start = (
            log.is_at_start and not omitted and log.recorded + size <= LOG_BYTES and log.pieces < _LOG_PIECES
        )
        if log.is_at_start:
            log.recorded += size
            log.pieces += 1
        return log.is_at_start

    def end_logs(self) -> None:
        """Record the ends of logs after the program has ended, each preceded by the number of omitted bytes."""
        for kind, log in self._logs.items():
            if log.omitted:
                text = f"\n[{log.omitted:,} bytes left out]\n".encode()
                self.entries.append(Entry(log.end[0][0], kind, text, omitted=log.omitted))
                self.size += len(text)
            for ms, data in log.end:
                self.entries.append(Entry(ms, kind, data))
                self.size += len(data)
            log.end.clear()
            log.held = log.omitted = 0

    def mark(self, ms: float, label: str, value: Any = None) -> None:
        """Record an event that the bytes do not show."""
        self.entries.append(Entry(ms, "mark", label=label, value=value))

    @property
    def is_full(self) -> bool:
        """Whether the scenario must stop because the transcript is full."""
        return self.size >= LIMIT or len(self.entries) >= MOST_ENTRIES

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file, without line ends."""
        yield self.head()
        for entry in self.entries:
            yield entry_line(entry)

    def head(self) -> str:
        """Return the first line of the file."""
        head = {"format": FORMAT, "version": VERSION, "scenario": self.scenario, "facts": self.facts}
        return json.dumps(head)  # ASCII, because fuzz steps may contain lone surrogates

    def save(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        # In a mark, a lone surrogate from a program becomes a JSON escape.
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.writelines(line + "\n" for line in self.lines())


def load(path: Path) -> Transcript:
    """Read a transcript file. Raises TranscriptFormatError, OSError."""
    with path.open("rb") as file:
        lines = iter(file)
        head = _parse_object(path, next(lines, b""), 1)
        if head.get("format") != FORMAT:
            raise TranscriptFormatError(path, f'the first line does not contain "format": "{FORMAT}"')
        if head.get("version") != VERSION:
            raise TranscriptFormatError(path, f"version {head.get('version')} is not supported, only {VERSION}")
        transcript = Transcript(as_text(head.get("scenario")), as_object(head.get("facts")))
        for number, line in enumerate(lines, 2):
            entry = _parse_entry(path, _parse_object(path, line, number), number)
            transcript.entries.append(entry)
            transcript.size += len(entry.data)
    return transcript


def entry_line(entry: Entry) -> str:
    """Encode an entry as a line, without its end."""
    line: dict[str, Any] = {"ms": round(entry.ms, 3)}
    if entry.kind == "mark":
        line |= {"mark": entry.label, "value": entry.value}
    else:
        line["from"] = entry.kind
        try:
            line["text"] = entry.data.decode()
        except UnicodeDecodeError:
            line["base64"] = base64.b64encode(entry.data).decode("ascii")
    if entry.omitted:
        line |= {"omitted": entry.omitted} | ({"sha256": entry.sha256} if entry.sha256 else {})
    return json.dumps(line, ensure_ascii=False)


def _parse_object(path: Path, line: bytes, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise TranscriptFormatError(path, f"line {number} is not JSON") from None
    if not is_object(value):
        raise TranscriptFormatError(path, f"line {number} is not an object")
    return as_object(value)


def _parse_entry(path: Path, line: dict[str, Any], number: int) -> Entry:
    ms = line.get("ms")
    if not isinstance(ms, int | float) or isinstance(ms, bool):
        raise TranscriptFormatError(path, f"line {number} has no time `ms`")
    if "mark" in line:
        return Entry(float(ms), "mark", label=as_text(line["mark"]), value=line.get("value"))
    kind = line.get("from")
    if kind not in ("client", "client-log", "server", "server-log"):
        raise TranscriptFormatError(path, f"line {number} has an unknown sender {kind!r}")
    try:
        data = base64.b64decode(line["base64"], validate=True) if "base64" in line else str(line["text"]).encode()
    except (KeyError, ValueError, TypeError):
        raise TranscriptFormatError(path, f"line {number} has neither text nor base64") from None
    omitted = line.get("omitted", 0)
    return Entry(
        float(ms), kind, data, omitted=omitted if isinstance(omitted, int) else 0, sha256=as_text(line.get("sha256"))
    )
