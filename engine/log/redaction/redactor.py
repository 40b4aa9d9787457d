"""Texts, streams, events and JSON without the known secrets: whole values in any spelling.

Must not know the names of variables, where values come from, nor where a text goes.

**Spellings.** Values are searched as they stand, and as a text reads without colours, line breaks, quoting and escapes
(`spellings`). `needles` has the forms of a value, such as base64, and finds them.

**Cuts.** Texts are cut before they come here, mostly in the worker, which must never learn a value: the summary of a
name, a displayed value, a traceback, an excerpt of a long line. So no cut leaves a part of a word (`core.text`).
Redaction replaces no piece of a secret: whoever chooses a text and sees what is replaced could try a known part with
each next character.

**Pieces.** A text that arrives in pieces is shown up to where a form may have begun, or an escape is incomplete. So
whoever chooses a text, and sees when it is shown, can find out a secret, one character after the other. Where this is
somebody else than the owner of the secrets, the last word waits instead, whatever it is.

**Structures.** Texts are recognised by their declared type. A field of type `str` is text. Identifiers (`ids`),
literals and fields of type `text.Exact` are looked up or compared, so they stay: a secret may have the value
`completed`, and our own word must survive. Keys of mappings and names that user code chose (`text.Named`) stay if they
are words, such as `tool_call_id`. `object` is JSON from elsewhere, and all its strings are text.

Two kinds of event contain what a rebuild needs exactly: the source of a statement, and the answer to an effect. If such
a text loses a secret, the event says so with a digest of the original (`withheld`). A provider's signature covers its
text, so a changed text loses its signature.
"""

from __future__ import annotations

import io
import re
import types
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final, NewType, Protocol, TextIO, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...core.execution import KeptGroup
from ...core.text import HIDDEN, Content, Named
from ..events import Event
from ..events.codec import encode
from ..events.conversation import AgentReasoning, ThinkingBlock
from ..events.execution import EffectAnswered, StatementRecorded
from .needles import SHORTEST, Needles, encoded_forms, plain_forms
from .spellings import (
    STRING_BYTES,
    Marks,
    Span,
    fold,
    has_marks,
    marks_in,
    read_in,
    reading,
    unmarked,
    without_colours,
)

_WORD: Final = re.compile(r"[^\s\x80-\U0010ffff]+")
_SETTLED: Final = re.compile(r"[^\w\s]+|.*\.\.\.", re.DOTALL)
"""Words that need not wait: progress such as `....`, and a line that ends as `Working...`."""
_CONTINUATION: Final = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""
_SPREAD: Final = 8
"""The factor by which a form's spelling may be longer than the form, in content that is searched in parts."""
_PART: Final = 1 << 20
"""How many bytes of content are searched at a time."""
_MARK: Final = re.compile(rf"(?<![\w*]){re.escape(HIDDEN)}(?![\w*])")
_RULE: Final = re.compile(rf"(?m)^[ \t]*{re.escape(HIDDEN)}[ \t]*\r?$")

Storable = NewType("Storable", bytes)
"""Content without a known secret. A store takes nothing else, and only a `Redactor` makes it."""
T = TypeVar("T", bound=Struct)
_NAME_WORD: Final = re.compile(r"[A-Za-z_.]*")
_NOTHING: Final[Collection[str]] = ()


class Source(Protocol):
    """Where more values come from while the program runs, such as a file that other programs change.

    Both methods may be called on any thread.
    """

    def mark(self) -> object:
        """Return what differs from the last time if the values may. Asked before each search, so it must be cheap."""
        ...

    def values(self) -> Iterable[str]:
        """Return the current values; those of before stay known."""
        ...


class _Known:
    """Values and their forms, made at once for all threads; `count` values were given, long or short."""

    __slots__ = ("count", "exact", "forms", "is_some", "spelled")

    def __init__(self, values: Sequence[str]) -> None:
        long = {value for value in values if len(value.strip()) >= SHORTEST}
        plain = {form for value in long for form in plain_forms(value)}
        self.count = len(values)
        self.is_some = bool(long)
        self.exact = Needles(plain)
        self.forms = {*plain, *(form for value in long for form in encoded_forms(value))}
        self.spelled = Needles(self.forms, fold)


class Redactor:
    """Replaces known secret values, in every form, with `***`. False if it knows none.

    Args:
        values: those of fewer than SHORTEST characters are ignored, not counting white space around them.
        source: where more come from; None for nowhere.
        is_others: some secrets belong to others than the reader of live output, such as a server's to its users.
    """

    def __init__(self, values: Iterable[str], source: Source | None = None, *, is_others: bool = False) -> None:
        self._source = source
        self._is_others = is_others
        self._mark: object = None
        self._parent: Redactor | None = None
        self._inherited = 0
        """How many values of the parent this one has learned."""
        self._given: list[str] = []
        """Grows only, so that any thread may add to it."""
        self._known = _Known(())
        self.learn(values)

    def __bool__(self) -> bool:
        self._look()
        return self._known.is_some

    def _look(self) -> None:
        """Learn what its source and its parent have got since the last time."""
        if self._source is not None and (mark := self._source.mark()) != self._mark:
            self.learn(self._source.values())
            self._mark = mark  # last, because other threads read it first
        if self._parent is not None:
            self._parent._look()
            if (known := len(self._parent._given)) != self._inherited:
                self.learn(self._parent._given[:known])
                self._inherited = known  # last, as above

    @property
    def known(self) -> int:
        """How many values it was given. Each that it learns counts."""
        self._look()
        return self._known.count

    @property
    def may_learn(self) -> bool:
        """Whether it may know a value later, if it knows none now."""
        return self._source is not None or (self._parent is not None and self._parent.may_learn)

    def knowing(self, values: Iterable[str]) -> Redactor:
        """Return a redactor that replaces these values, too, and all that this one learns later."""
        derived = Redactor(values, is_others=self._is_others)
        derived._parent = self
        return derived

    def learn(self, values: Iterable[str]) -> None:
        """Replace these values from now on, too, in this redactor and in those derived from it; on any thread."""
        self._given += [value for value in values if value not in self._given]
        # Another thread may overwrite what this one assigns, so whoever assigns last must find all that is given.
        while self._known.count != len(self._given):
            self._known = _Known(tuple(self._given))

    # --- searches -----------------------------------------------------------------------------------------------------

    def holds(self, text: str) -> bool:
        """Return whether the text contains a whole form."""
        return bool(self) and self._holds(_bytes_of(text))

    def hidden_quoting(self, text: str) -> Counter[bytes]:
        """Return the spellings of secrets in the text that have quotation marks, line breaks or escapes in them.

        These are replaced with the secret, although a shell or Python reads what follows differently because of them.
        """
        data = _bytes_of(text)
        spelled = (data[start:end] for start, end in self._spans(data)) if self else ()
        return Counter(each for each in spelled if each not in self._known.forms)

    def holds_in_json(self, data: bytes) -> bool:
        """Return whether the JSON in `data` contains a whole form; its escapes are undone like any others."""
        return bool(self) and self._holds(data)

    def _holds(self, data: bytes) -> bool:
        if self._known.exact.may_be_in(data):
            return True
        return any(True for _ in self._spelled(data))

    # --- contents -----------------------------------------------------------------------------------------------------

    def storable(self, data: bytes) -> Storable | None:
        """Return the content for a store; None if it contains a whole form."""
        if not self:
            return Storable(data)
        is_secret = any(self._holds(part) for _, part in self._parts(data))
        return None if is_secret else Storable(data)

    def _parts(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield overlapping parts of content with their starts, so that other threads run in between."""
        overlap = _SPREAD * self._known.spelled.longest + STRING_BYTES
        for start in range(0, max(1, len(data) - overlap), _PART):
            yield start, data[start : start + _PART + overlap]

    def storable_json(self, data: bytes) -> Storable | None:
        """Return the JSON for a store; None if a string contains a whole form, perhaps with escapes."""
        return self.storable(data)

    def storable_text(self, text: str) -> Storable:
        """Return the redacted text in UTF-8 for a store."""
        return Storable(self.redact(text).encode("utf-8", "replace"))

    # --- texts --------------------------------------------------------------------------------------------------------

    def redact(self, text: str) -> str:
        """Replace every known value."""
        if not self:
            return text
        data = _bytes_of(text)
        spans = self._spans(data)
        return _replaced(text, _in_characters(data, spans)) if spans else text

    def hidden_lines(self, text: str) -> dict[int, str]:
        """Return the redacted lines that have a known value or a part of one, by number from 0.

        A value on several lines is replaced on each of them, so the other lines keep their numbers. A carriage return
        at the end of a line stays.
        """
        if not self:
            return {}
        data = _bytes_of(text)
        spans = _merged(span for start, part in self._parts(data) for span in _shifted(self._spans(part), start))
        return _redacted_lines(text, _in_characters(data, spans)) if spans else {}

    def redact_piece(self, text: str) -> tuple[str, str]:
        """Redact a text that goes on; return the part to show, and the rest, which may be the start of a value.

        The rest is usually empty, and shorter than two values. Put it before the next piece.
        """
        if not self:
            return text, ""
        data = _bytes_of(text)
        matches = [*self._matches(data)]
        spans = _merged(span for parts in matches for span in parts)
        end = self._last_word_at(text) if self._is_others else self._open_at(data)
        # A value may begin inside a complete one, in any of its parts: both are replaced together, once they are there.
        for start, stop in _merged((parts[0][0], parts[-1][1]) for parts in matches):
            if start < end < stop:
                end = start if len(data) - start <= 2 * _SPREAD * self._known.spelled.longest else stop
        shown = _in_characters(data, [span for span in spans if span[1] <= end])
        ((_, last),) = _in_characters(data, [(0, end)])
        if end < len(data) and data[end] in _CONTINUATION:
            last -= 1
        return _replaced(text[:last], shown), text[last:]

    def _spans(self, data: bytes) -> list[Span]:
        return _merged(span for parts in self._matches(data) for span in parts)

    def _matches(self, data: bytes) -> Iterator[Sequence[Span]]:
        """Yield the parts of each form."""
        if self._known.exact.may_be_in(data):
            yield from self._known.exact.found(read_in(data, ()))
        yield from self._spelled(data)

    def _spelled(self, data: bytes) -> Iterator[Sequence[Span]]:
        """Yield where forms are, as the text reads with the marks of its lines, and without them."""
        if self._known.spelled.may_be_in(fold(data)):
            yield from self._known.spelled.found(reading(data))
        plain = without_colours(data)
        if has_marks(plain):
            for marks, rest in unmarked(plain):
                if self._known.spelled.may_be_in(fold(rest)):
                    yield from self._known.spelled.found(reading(data, marks=marks))

    def _last_word_at(self, text: str) -> int:
        """Return where the last word begins, in bytes; their number if the text ends with none."""
        low = max(0, len(text) - _SPREAD * self._known.spelled.longest)
        last = deque(_WORD.finditer(text, low), maxlen=1)
        waits = last and last[0].end() == len(text) and not _SETTLED.fullmatch(last[0][0])
        return len(_bytes_of(text[: last[0].start()] if waits else text))

    def _open_at(self, data: bytes) -> int:
        """Return the first position from which a form or escape may continue in the next piece; else the length."""
        size = len(data)
        since = max(0, size - self._known.exact.longest)
        at = self._known.exact.open_at(read_in(data[since:], ()))
        first = size if at is None else since + at
        return min(first, *(self._spelled_open_at(data, marks) for marks in (None, *marks_in(without_colours(data)))))

    def _spelled_open_at(self, data: bytes, marks: Marks | None) -> int:
        enough = self._known.spelled.longest + STRING_BYTES + 100
        length = 2 * enough
        while True:
            since = max(0, len(data) - length)
            end = reading(data[since:], is_open=True, marks=marks)
            if not since or len(end.data) >= enough:
                break
            length *= 4
        at = self._known.spelled.open_at(end)
        return min(since + end.unfinished, len(data) if at is None else since + at)


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _in_characters(data: bytes, spans: Iterable[Span]) -> list[Span]:
    """Convert spans of bytes to spans of characters; a character that is partly in a span is in it."""
    if data.isascii():
        return [*spans]
    converted: list[Span] = []
    at = characters = 0
    for span in spans:
        places: list[int] = []
        for position in span:
            characters += len(data[at:position].translate(None, _CONTINUATION))
            at = position
            places.append(characters)
        start, end = places
        is_inside = span[0] < len(data) and data[span[0]] in _CONTINUATION
        converted.append((start - is_inside, end))
    return converted


def _shifted(spans: Iterable[Span], by: int) -> Iterator[Span]:
    return ((start + by, end + by) for start, end in spans)


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _replaced(text: str, spans: Iterable[Span]) -> str:
    parts: list[str] = []
    last = 0
    for start, end in spans:
        parts += text[last:start], HIDDEN
        last = end
    return "".join([*parts, text[last:]])


def _redacted_lines(text: str, spans: Sequence[Span]) -> dict[int, str]:
    found: dict[int, list[Span]] = {}
    number = start = 0
    for first, last in spans:
        while (end := text.find("\n", start)) != -1 and end <= first:
            number, start = number + 1, end + 1
        while True:
            end = len(text) if end == -1 else end
            stop = min(last, end - text.endswith("\r", start, end))
            if max(first, start) < stop:
                found.setdefault(number, []).append((max(first, start) - start, stop - start))
            if last <= end:
                break
            number, start = number + 1, end + 1
            end = text.find("\n", start)
    lines = text.split("\n")
    return {number: _replaced(lines[number], parts) for number, parts in found.items()}


NO_SECRETS: Final = Redactor(())
"""Knows no secret and changes nothing."""


# --- marks in texts that are written back -----------------------------------------------------------------------------


def marked_line(before: bytes, after: bytes) -> int | None:
    """Return the first line with a mark, from 1, if there are more marks than before; else None.

    A model never sees a secret, but `***`. A text that it writes back with that would replace the secret with three
    asterisks. A mark is `***` that stands alone as a value does (`KEY=***`, `"***"`), unlike Markdown's emphasis and
    rules, and only if the file did not have it before.
    """
    if HIDDEN.encode() not in after:
        return None
    text = after.decode("utf-8", "replace")
    marks = _marks(text)
    if len(marks) <= len(_marks(before.decode("utf-8", "replace"))):
        return None
    return text.count("\n", 0, marks[0]) + 1


def _marks(text: str) -> list[int]:
    return [found.start() for found in _MARK.finditer(_RULE.sub(lambda rule: " " * len(rule[0]), text))]


# --- streams ----------------------------------------------------------------------------------------------------------


class RedactedStream(io.TextIOBase):
    """Writes redacted text to `stream`; does not close it.

    There is no `buffer`, so no bytes reach the stream unredacted. JSON is redacted by its structure before, and written
    with `write_json`.
    """

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor

    def write(self, text: str, /) -> int:
        self._stream.write(self._redactor.redact(text))
        return len(text)

    def write_json(self, data: bytes) -> None:
        """Write lines of redacted JSON in UTF-8, whatever the stream's encoding."""
        write_json(self._stream, data)

    def flush(self) -> None:
        if not self._stream.closed:  # it may be closed before this object is collected
            self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] -- an attribute in typeshed
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride] -- as above
        return self._stream.errors


def without_secrets(stream: TextIO, redactor: Redactor) -> TextIO:
    """Return the stream, redacted if any secret is known, or may become known."""
    return cast("TextIO", RedactedStream(stream, redactor)) if redactor or redactor.may_learn else stream


def write_json(stream: TextIO, data: bytes) -> None:
    """Write lines of JSON in UTF-8 to a text stream, whatever its encoding."""
    if isinstance(stream, RedactedStream):
        stream.write_json(data)
        return
    stream.flush()
    stream.buffer.write(data)
    stream.buffer.flush()


# --- structures -------------------------------------------------------------------------------------------------------


Walk = Callable[[Redactor, Any], Any]
"""Returns a value without secrets: the value itself if it has none."""


def redact_event(redactor: Redactor, event: Event) -> Event:
    """Replace every known value in all texts of the event; return the event itself if it has none."""
    if not redactor or not redactor.holds_in_json(encode(event)):
        return event
    return cast("Event", _struct(redactor, event))


def redact_struct(redactor: Redactor, value: T) -> T:
    """Replace every known value in all texts of the structure; return the structure itself if it has none."""
    return cast("T", _struct(redactor, value)) if redactor else value


def redact_json(redactor: Redactor, value: Any, exact: Collection[str] = _NOTHING) -> Any:
    """Redact a JSON value, except keys that are words and the values of keys in `exact`."""
    match value:
        case str():
            return redactor.redact(value)
        case dict():
            items = cast("dict[str, Any]", value).items()
            return {
                _name(redactor, key): item if key in exact else redact_json(redactor, item, exact)
                for key, item in items
            }
        case list() | tuple():
            return [redact_json(redactor, item, exact) for item in cast("list[Any]", value)]
        case _:
            return value


def withheld(data: bytes) -> str:
    """Return the digest that replaces content which is not kept, in a spelling that stores do not search for."""
    from hashlib import blake2b  # here, because it loads OpenSSL, which takes 2 ms of a start-up

    return f"blake2b:{blake2b(data, digest_size=20).hexdigest()}"


def _struct(redactor: Redactor, value: Struct) -> Struct:
    changed = {
        name: clean
        for name, walk in _walks(type(value))
        if (clean := walk(redactor, before := getattr(value, name))) is not before and clean != before
    }
    return replace(value, **changed, **_consequences(value, changed)) if changed else value


def _consequences(value: Struct, changed: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that change because texts did."""
    match value:
        case StatementRecorded() if "source" in changed:
            return {"withheld": withheld(value.source.encode("utf-8", "surrogatepass"))}
        case EffectAnswered() if "error" in changed:
            return {"withheld": withheld(msgspec.json.encode(value.error))}
        case ThinkingBlock() | AgentReasoning() if "text" in changed:
            return {"signature": None}
        case KeptGroup() if "data" in changed:
            return {"withheld": withheld(value.data)}
        case _:
            return {}


def _items(walk: Walk) -> Walk:
    return lambda redactor, values: tuple(walk(redactor, value) for value in values)


def _values(walk: Walk) -> Walk:
    return lambda redactor, values: {_name(redactor, key): walk(redactor, value) for key, value in values.items()}


def _as_it_is(_redactor: Redactor, value: object) -> object:
    return value


def _name(redactor: Redactor, name: str) -> str:
    """Redact a name, unless it is a word, which may be one of ours."""
    return name if _NAME_WORD.fullmatch(name) or not redactor.holds(name) else redactor.redact(name)


def _content(redactor: Redactor, data: bytes) -> bytes:
    return data if redactor.storable(data) is not None else b""


def _either(redactor: Redactor, value: object) -> object:
    match value:
        case str():
            return redactor.redact(value)
        case Struct():
            return _struct(redactor, value)
        case _:
            return value


@cache
def _walks(kind: type[Struct]) -> tuple[tuple[str, Walk], ...]:
    """Return the fields of a structure that may contain text, each with its walk."""
    hints = get_type_hints(kind, include_extras=True)
    walks = ((name, _walk_of(hints[name])) for name in kind.__struct_fields__)
    return tuple((name, walk) for name, walk in walks if walk is not None)


def _walk_of(hint: Any) -> Walk | None:
    """Return the walk for values of a type; None if they contain no text."""
    if hint == Named:
        return _name
    if hint is str or hint is object:
        return Redactor.redact if hint is str else redact_json
    if hint == Content:
        return _content
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _either if any(map(_walk_of, arguments)) else None
    if origin is tuple:
        inner = _walk_of(arguments[0])
        return inner and _items(inner)
    if origin is dict:
        return _values(_walk_of(arguments[1]) or _as_it_is)
    return _struct if isinstance(hint, type) and issubclass(hint, Struct) else None
