"""Transcripts: every byte between a client and a program, with its sender and its moment, and the scenario's marks.

A transcript is append-only, and no message in it is dropped. What the suite itself generated in bulk (a line of 50 MB)
is kept by length and digest. Of what a program logs the beginning and the end are kept, because a program may flood its
standard error and no judge reads that: the end is held back until `end_logs`. The file format is JSON lines, described
in `docs/conformance-formats.md`; what is not UTF-8 is kept in base64. Knows no protocol.
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
"""Bytes; a scenario ends where its transcript would grow beyond."""
MOST_ENTRIES: Final = 100_000
"""Where a program writes single bytes, an entry takes far more memory and time than what it holds."""
LIMITS: Final = f"{LIMIT >> 20} MiB or {MOST_ENTRIES:,} pieces"
LONGEST_LINE: Final = 16 * 1024 * 1024
"""Bytes; a scenario ends where a line of the program would grow beyond."""
LOG_BYTES: Final = 128 * 1024
"""Kept of the beginning of a log, and as much of its end."""
_LOG_PIECES: Final = 1000
"""Of either, whatever they hold."""
_DIGESTED: Final = 1024 * 1024
"""What the suite sends in one piece of more bytes than this is kept by digest."""

Kind = Literal["client", "client-log", "server", "server-log", "mark"]
"""Who sent it: the client, the program that serves it (an agent is one); what else one of them wrote; or a mark."""


class TranscriptFormatError(ValueError):
    """Raised for a file that is no transcript, or one of a later version. Fields: the path, and why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


@dataclass(frozen=True, slots=True)
class Entry:
    """One chunk of bytes, or one mark. `ms` counts from the start of the scenario."""

    ms: float
    kind: Kind
    data: bytes = b""
    label: str = ""
    """Marks only: what it says, such as `stdout-closed`."""
    value: Any = None
    """Marks only: JSON."""
    omitted: int = 0
    """Bytes that stood after `data` and are kept by digest alone; in a log, those in whose place `data` says so."""
    sha256: str = ""


@dataclass(slots=True)
class _Log:
    """What is known of a log: how much of its beginning is recorded, and its end so far, which is not."""

    recorded: int = 0
    pieces: int = 0
    is_begun: bool = True
    """Whether this still is the beginning."""
    end: deque[tuple[float, bytes]] = field(default_factory=deque[tuple[float, bytes]])
    held: int = 0
    omitted: int = 0

    def hold(self, ms: float, data: bytes, omitted: int) -> None:
        if omitted:  # the end is what comes after a gap
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
    """What happened in one scenario. `facts` say what was run, with which options; judges may read them."""

    scenario: str
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    entries: list[Entry] = field(default_factory=list[Entry])
    size: int = 0
    _logs: dict[Kind, _Log] = field(default_factory=dict[Kind, _Log], compare=False, repr=False)

    def add(self, ms: float, kind: Kind, data: bytes, *, generated: bool = False, omitted: int = 0) -> None:
        """Records a chunk.

        Args:
            ms: its moment.
            kind: whose it is.
            data: what it holds.
            generated: these are the suite's own bytes, and may be kept by digest.
            omitted: of a log, the bytes ahead of these that the peer let go.
        """
        if kind.endswith("-log") and not self._begins(kind, len(data), omitted):
            self._logs[kind].hold(ms, data, omitted)
            return
        if generated and len(data) > _DIGESTED:
            head = data[:256]
            entry = Entry(ms, kind, head, omitted=len(data) - 256, sha256=hashlib.sha256(data).hexdigest())
        else:
            entry = Entry(ms, kind, data)
        self.size += len(entry.data)
        self.entries.append(entry)

    def _begins(self, kind: Kind, size: int, omitted: int) -> bool:
        """Whether so many bytes belong to the beginning of the log."""
        log = self._logs.setdefault(kind, _Log())
        log.is_begun = log.is_begun and not omitted and log.recorded + size <= LOG_BYTES and log.pieces < _LOG_PIECES
        if log.is_begun:
            log.recorded += size
            log.pieces += 1
        return log.is_begun

    def end_logs(self) -> None:
        """Records the ends of the logs, each behind a line that says how much is left out: the program has ended."""
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
        """Records what the bytes alone do not say: that a stream closed, what a scenario was about to show."""
        self.entries.append(Entry(ms, "mark", label=label, value=value))

    @property
    def is_full(self) -> bool:
        """Whether a scenario has to end, because what it recorded is as much as may be kept."""
        return self.size >= LIMIT or len(self.entries) >= MOST_ENTRIES

    def lines(self) -> Iterator[str]:
        """The file, line by line, without line ends."""
        yield self.head()
        for entry in self.entries:
            yield written(entry)

    def head(self) -> str:
        """The file's first line."""
        head = {"format": FORMAT, "version": VERSION, "scenario": self.scenario, "facts": self.facts}
        return json.dumps(head)  # what fuzz sends may hold half a surrogate pair

    def save(self, path: Path) -> None:
        """Writes the file. Raises OSError."""
        # In a mark, half of a surrogate pair that a program sent is an escape, as JSON would have it.
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.writelines(line + "\n" for line in self.lines())


def load(path: Path) -> Transcript:
    """Reads a file that `save` or `trace` wrote. Raises TranscriptFormatError, OSError."""
    with path.open("rb") as file:
        lines = iter(file)
        head = _parsed(path, next(lines, b""), 1)
        if head.get("format") != FORMAT:
            raise TranscriptFormatError(path, f'the first line does not say "format": "{FORMAT}"')
        if head.get("version") != VERSION:
            raise TranscriptFormatError(
                path, f"version {head.get('version')} is not {VERSION}, which is all this reads"
            )
        transcript = Transcript(as_text(head.get("scenario")), as_object(head.get("facts")))
        for number, line in enumerate(lines, 2):
            entry = _read(path, _parsed(path, line, number), number)
            transcript.entries.append(entry)
            transcript.size += len(entry.data)
    return transcript


def written(entry: Entry) -> str:
    """The entry as a line of the file, without its end."""
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


def _parsed(path: Path, line: bytes, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise TranscriptFormatError(path, f"line {number} is not JSON") from None
    if not is_object(value):
        raise TranscriptFormatError(path, f"line {number} is not an object")
    return as_object(value)


def _read(path: Path, line: dict[str, Any], number: int) -> Entry:
    ms = line.get("ms")
    if not isinstance(ms, int | float) or isinstance(ms, bool):
        raise TranscriptFormatError(path, f"line {number} has no ms")
    if "mark" in line:
        return Entry(float(ms), "mark", label=as_text(line["mark"]), value=line.get("value"))
    kind = line.get("from")
    if kind not in ("client", "client-log", "server", "server-log"):
        raise TranscriptFormatError(path, f"line {number} is from nobody: {kind!r}")
    try:
        data = base64.b64decode(line["base64"], validate=True) if "base64" in line else str(line["text"]).encode()
    except (KeyError, ValueError, TypeError):
        raise TranscriptFormatError(path, f"line {number} has neither text nor base64") from None
    omitted = line.get("omitted", 0)
    return Entry(
        float(ms), kind, data, omitted=omitted if isinstance(omitted, int) else 0, sha256=as_text(line.get("sha256"))
    )
