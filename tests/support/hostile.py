"""Session files that no export writes: one field of a rich session changed, or the whole file."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from engine.log.events.codec import encode
from tests.support.rich_log import events_of, rich_items

HOSTILE: Final = "ses_hostile"
Fields = dict[str, Any]
Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Raw:
    """JSON as it is to stand in the file."""

    text: str


def nested(depth: int, opening: str = "[") -> Raw:
    """A value that is nested so deep."""
    if opening == "[":
        return Raw("[" * depth + "]" * depth)
    return Raw('{"a":' * depth + "1" + "}" * depth)


NUMBERS: Final = (
    *(0, -1, 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70, -(2**63), -(2**63) - 1),
    *(0.5, 1e14, -1e14, 1e15, 1e18, 1e300, -1e300, 1e-300, 253_402_300_800, -62_135_596_801),
)
TEXTS: Final = (
    *("", "x", "\0", "../../etc/passwd", "/etc/passwd", "\x1b[2J", "\u202e", "\u00e9" * 3, "x" * 100_000),
    *("NaN", "e1", "event-1", "call-1", "2023-01-01", "\ud800"),
)
OTHERS: Final = (None, True, False, [], [1], ["x"], [None], [[]], ["x"] * 1000, {}, {"a": 1}, {"text": "x"})
RAWS: Final = (
    *(nested(depth) for depth in (60, 100, 500, 900, 2_000, 100_000)),
    *(nested(depth, "{") for depth in (60, 70, 100, 500, 2_000, 100_000)),
    *(Raw(text) for text in ("NaN", "Infinity", "1e999", "-0.0", '"\\u0000"', "01", "1" * 5_000, "")),
)
VALUES: Final = (*NUMBERS, *TEXTS, *OTHERS, *RAWS)


class Session:
    """A session of all kinds of events in the directory `cwd`, as values of JSON."""

    def __init__(self, cwd: Path) -> None:
        self.lines: list[Fields] = [json.loads(encode(event)) for event in events_of(rich_items())]
        self.lines[0]["cwd"] = str(cwd)
        self.header: Fields = {
            "format": "rewindow-session",
            "version": 1,
            "session_id": HOSTILE,
            "cwd": str(cwd),
            "directories": [],
            "title": "t",
            "created_at": 1.7e9,
            "updated_at": 1.7e9,
            "events": len(self.lines),
        }

    def file(self) -> bytes:
        """The file as it would be exported."""
        return self._written([json.dumps(line) for line in (self.header, *self.lines)])

    def changed(self, number: int, path: Path_, value: object) -> bytes:
        """The file with another value in line `number` (0 is the header); Ellipsis takes the field away."""
        texts = [json.dumps(line) for line in (self.header, *self.lines)]
        texts[number] = _changed((self.header, *self.lines)[number], path, value)
        return self._written(texts)

    def first(self, kind: str) -> int:
        """The number of the first line of that kind."""
        return next(number for number, line in enumerate(self.lines, 1) if line["kind"] == kind)

    def fields(self) -> Iterator[tuple[int, Path_]]:
        """Each field of the header and of each kind of event once."""
        seen: set[tuple[str, Path_]] = set()
        for number, line in enumerate((self.header, *self.lines)):
            for path in _paths(line):
                if path and (line.get("kind", "header"), path) not in seen:
                    seen.add((line.get("kind", "header"), path))
                    yield number, path

    def _written(self, texts: list[str]) -> bytes:
        return "".join(f"{text}\n" for text in texts).encode("utf-8", "surrogatepass")


def mutations(session: Session) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Every field with every value: a name, and what makes the file."""
    named = [(f"{value!s:.60}", value) for value in (..., *VALUES)]
    for number, path in session.fields():
        kind = "header" if number == 0 else session.lines[number - 1]["kind"]
        for name, value in named:
            yield f"{kind} {path} {name}", partial(session.changed, number, path, value)


def _paths(value: object, at: Path_ = ()) -> Iterator[Path_]:
    yield at
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:2]):
            yield from _paths(inner, (*at, index))


_MARK: Final = "@@RAW@@"


def _changed(line: Fields, path: Path_, value: object) -> str:
    made = copy.deepcopy(line)
    inner: Any = made
    for step in path[:-1]:
        inner = inner[step]
    if value is ...:
        del inner[path[-1]]
        return json.dumps(made)
    inner[path[-1]] = _MARK if isinstance(value, Raw) else value
    text = json.dumps(made)
    return text.replace(json.dumps(_MARK), value.text) if isinstance(value, Raw) else text


# --- by name ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HostileFile:
    name: str
    make: Callable[[Session], bytes]


def _in_header(name: str, field: str, value: object) -> HostileFile:
    return HostileFile(name, lambda session: session.changed(0, (field,), value))


def _in_event(name: str, kind: str, path: str, value: object) -> HostileFile:
    steps = tuple(int(step) if step.isdigit() else step for step in path.split("."))
    return HostileFile(name, lambda session: session.changed(session.first(kind), steps, value))


def _whole(name: str, data: bytes) -> HostileFile:
    return HostileFile(name, lambda _: data)


def _lines(name: str, change: Callable[[list[bytes]], list[bytes]]) -> HostileFile:
    return HostileFile(name, lambda session: b"".join(change(session.file().splitlines(keepends=True))))


def _reused_responses(session: Session) -> bytes:
    for line in session.lines:
        if line["kind"] == "tool_call":
            line["llm_response_id"] = "constant"
    return session.file()


FILES: Final = (
    HostileFile("as it is", Session.file),
    _in_header("used in the year 3,170,843", "updated_at", 1e14),
    _in_header("used before Christ", "updated_at", -1e14),
    _in_header("used at the end of time", "updated_at", 1e300),
    _in_header("used at infinity", "updated_at", Raw("1e999")),
    _in_header("used at no number", "updated_at", Raw("NaN")),
    _in_header("used at a text", "updated_at", "yesterday"),
    _in_header("used at a number of 5,000 digits", "updated_at", Raw("1" * 5_000)),
    _in_header("made in the year 3,170,843", "created_at", 1e14),
    _in_header("an id like a path", "session_id", "../../etc/passwd"),
    _in_header("an id with NUL", "session_id", "a\0b"),
    _in_header("an id with control characters", "session_id", "\x1b[2J"),
    _in_header("an empty id", "session_id", ""),
    _in_header("an id of 100,000 characters", "session_id", "x" * 100_000),
    _in_header("the id of another session", "session_id", "ses_first"),
    _in_header("a relative directory", "cwd", "../.."),
    _in_header("no directory", "cwd", ...),
    _in_header("a directory that is not there", "cwd", "/nowhere/at/all"),
    _in_header("a directory with NUL", "cwd", "/a\0b"),
    _in_header("a directory that is no Unicode", "cwd", "/\ud800"),
    _in_header("a directory of 100,000 characters", "cwd", "/" + "x" * 100_000),
    _in_header("a further directory that is a number", "directories", [1]),
    _in_header("a thousand directories", "directories", [f"/{number}" for number in range(1000)]),
    _in_header("a title with control characters", "title", "\x1b[2J\u202e\x07"),
    _in_header("a title of 100,000 characters", "title", "x" * 100_000),
    _in_header("a title with NUL", "title", "a\0b"),
    _in_header("a title that is no Unicode", "title", "\ud800"),
    _in_header("no title", "title", ...),
    _in_header("a count below nothing", "events", -1),
    _in_header("a count beyond 64 bits", "events", 2**70),
    _in_header("a version of another kind", "version", "x" * 100_000),
    _in_header("a header nested deep", "title", nested(100_000)),
    _in_event("an event in the year 3,170,843", "run_stop", "at", 1e14),
    _in_event("an event before Christ", "run_stop", "at", -1e14),
    _in_event("an event at the end of time", "title_changed", "at", 1e300),
    _in_event("an event at infinity", "title_changed", "at", Raw("1e999")),
    _in_event("an event of a hundred thousand levels", "user_message", "text", nested(100_000)),
    _in_event("an unknown field of a hundred thousand levels", "user_message", "attachments", nested(100_000, "{")),
    _in_event("arguments of a hundred thousand levels", "tool_call", "arguments", nested(100_000, "{")),
    _in_event("arguments of 500 levels", "tool_call", "arguments", nested(500, "{")),
    _in_event("arguments of 60 levels", "tool_call", "arguments", nested(60, "{")),
    _in_event("arguments with a number beyond 64 bits", "tool_call", "arguments", {"n": 2**70}),
    _in_event("arguments with NUL and controls", "tool_call", "arguments", {"source": "\0\x1b[2J\u202e"}),
    _in_event("a summary beyond 64 bits", "condensation", "summary_offset", 2**70),
    _in_event("a summary beyond 63 bits", "condensation", "summary_offset", 2**63),
    _in_event("a summary before the beginning", "condensation", "summary_offset", -(2**63)),
    _in_event("a condensation of a thousand strangers", "condensation", "forgotten", [f"e{n}" for n in range(1000)]),
    _in_event("a line beyond 32 bits", "execution_finished", "locations.0.line", 2**40),
    _in_event("a line below nothing", "execution_finished", "locations.0.line", -1),
    _in_event("a place that is like a path of somebody", "execution_finished", "locations.0.path", "../../etc/passwd"),
    _in_event("output of fewer bytes than none", "execution_finished", "stdout.total_bytes", -5),
    _in_event("times beyond all clocks", "execution_finished", "time_ms", 1e300),
    _in_event("an index below nothing", "statement_recorded", "index", -(2**63)),
    _in_event("usage below nothing", "usage_reported", "used", -1),
    _in_event("usage beyond 64 bits", "usage_reported", "size", 2**70),
    _in_event("a file without a name", "file_changed", "path", ""),
    _in_event("a file with NUL", "file_changed", "path", "\0"),
    _in_event("a mode that there is not", "mode_changed", "mode", "root"),
    _in_event("an option that there is not", "config_changed", "option", "colour"),
    _in_event("a value that an option has not", "config_changed", "value", "x" * 100_000),
    _in_event("a result of another parent", "tool_result", "parent_id", "call-nobody"),
    _in_event("a call that is its own parent", "tool_call", "parent_id", "call-1"),
    _in_event("a result without a call", "tool_result", "tool_call_id", "call-nobody"),
    _in_event("a text of ten megabytes", "user_message", "text", "x" * 10_000_000),
    _in_event("a text with NUL", "agent_text", "text", "a\0b"),
    _in_event("a text with controls", "agent_text", "text", "\x1b[2J\u202e\x07"),
    _in_event("a text that is no Unicode", "agent_text", "text", "\ud800"),
    _in_event("an id twice", "agent_text", "event_id", "event-1"),
    _in_event("a branch like a path", "agent_text", "branch_id", "../../x"),
    _in_event("content that is not there", "effect_answered", "result", "blake2b-" + "0" * 40),
    _in_event("a kind of 100,000 characters", "run_stop", "kind", "x" * 100_000),
    HostileFile("response ids used again", _reused_responses),
    _lines("without its header", lambda lines: lines[1:]),
    _lines("header alone", lambda lines: lines[:1]),
    _lines("cut in a line", lambda lines: [*lines[:-1], lines[-1][:-5]]),
    _lines("an event missing", lambda lines: [*lines[:5], *lines[6:]]),
    _lines("an event twice", lambda lines: [*lines[:5], *lines[4:]]),
    _lines("with NUL between", lambda lines: [*lines[:5], b"\0\n", *lines[5:]]),
    _lines("with an undecodable line", lambda lines: [*lines[:5], b'{"kind":"\xff\xfe"}\n', *lines[5:]]),
    _lines("with a line of ten megabytes", lambda lines: [*lines[:5], b"[" * 10_000_000 + b"\n", *lines[5:]]),
    _lines("with spaces for a line", lambda lines: [*lines[:5], b" " * 1000 + b"\n", *lines[5:]]),
    _lines("in the lines of another system", lambda lines: [line[:-1] + b"\r\n" for line in lines]),
    _lines("content that is none", lambda lines: [lines[0], b'{"blob":"../../x","data":"!"}\n', *lines[1:]]),
    _whole("empty", b""),
    _whole("one line end", b"\n"),
    _whole("not text", bytes(range(256)) * 100),
    _whole("a hundred thousand brackets", b"[" * 100_000),
    _whole("a number", b"5"),
    _whole("a text", b'"x"'),
    _whole("UTF-16", '{"format":"rewindow-session"}'.encode("utf-16")),
    _whole("conversation nested deep", b'[{"role":"user","content":' + b"[" * 100_000 + b"]}]"),
    _whole("conversation of numbers", b'[{"role":"user","content":5}]'),
    _whole("conversation of a role that is deep", b'[{"role":' + b"[" * 60 + b"]" * 60 + b',"content":"x"}]'),
    _whole("conversation at an odd time", b'[{"kind":"MessageEvent","source":"user","id":"a","timestamp":"0001-01-01",'
        b'"llm_message":{"role":"user","content":"x"}}]'),
)  # fmt: skip
