"""Texts without the secrets that are known: whole values in any spelling, and what a cut has left of one.

Pure. Must not know names of variables, events or messages; `structures` applies it to values with fields.

**Spellings.** Values are looked for as they stand, and as a text reads without colours, line breaks, quoting and
escapes (`spellings`). The forms of a value, such as base64, are in `forms`; `needles` finds them.

**Cuts.** Texts are cut before they come here, mostly in the worker, which must never learn a value: a name's summary, a
displayed value, a traceback, an excerpt of a long line. What is left of a secret beside such a cut is not a whole form
of it. But whatever cuts says so in the text, in the words of `cutting`: an ellipsis, three dots, `[90 characters left
out]`. So what touches one of these words is replaced too where each SHORTEST bytes of it occur in a form. The worker
needs no cooperation, no digests and no overlap for that, and what other libraries shorten with dots is covered as well.
The price is a piece of harmless text that looks like a piece of a secret and stands beside a cut; it is replaced, which
only ever affects what is shown.

**Pieces.** A text that comes in pieces is shown up to where a form may have begun, or an escape is not complete yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NewType

from .forms import encoded_forms, plain_forms
from .needles import SHORTEST, Needles, Span
from .readings import read_in, reading
from .spellings import STRING_BYTES, fold

HIDDEN: Final = "***"

_CUT_SIGNS: Final = (b"\xe2\x80\xa6", b"...", b" left out]")
_WORD: Final = rb"(?:\xe2\x80\xa6|\.\.\.+|\[[0-9]{1,12}[a-z]{1,20}leftout\])"
_CUT: Final = re.compile(_WORD + rb"(?:" + _WORD + rb")*")
"""As it reads, without blanks."""
_CUT_ESCAPE: Final = 16
"""Bytes that may be left of an escape that was cut itself, between a cut and a piece."""
_ESCAPES: Final = (b"%", b"\\", b"&", b"\x1b", b"\xc2\x9b", b">")
_CONTINUATION: Final = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 with which no character begins."""
_SPREAD: Final = 8
"""How many times as long as it is a form may be spelled in a content that is looked at in parts."""
_PART: Final = 1 << 20
"""Bytes that are looked at at a time."""

Storable = NewType("Storable", bytes)
"""Content without a known secret. A store takes nothing else, and only a `Redactor` makes it."""


class Redactor:
    """Replaces known secret values, in every form, by `***`. False where there is none."""

    def __init__(self, values: Iterable[str]) -> None:
        """`values` of fewer than SHORTEST characters are left out, not counting the space around them."""
        self._values = values = [value for value in values if len(value.strip()) >= SHORTEST]
        plain = {form for value in values for form in plain_forms(value)}
        self._exact = Needles(plain)
        self._spelled = Needles({*plain, *(form for value in values for form in encoded_forms(value))}, fold)

    def __bool__(self) -> bool:
        return bool(self._values)

    def knowing(self, values: Iterable[str]) -> Redactor:
        """One that replaces these, too."""
        return Redactor((*self._values, *values))

    # --- is there anything? -------------------------------------------------------------------------------------------

    def holds(self, text: str) -> bool:
        """Whether a whole form is in the text."""
        return bool(self._values) and self._holds(_bytes_of(text))

    def is_piece_at_an_end(self, text: str) -> bool:
        """Whether the text begins or ends with a piece of a form, as what was cut out of a longer one may."""
        read = fold(_bytes_of(text))
        return self._spelled.piece_after(read, 0) > 0 or self._spelled.piece_before(read, len(read)) < len(read)

    def holds_in_json(self, data: bytes) -> bool:
        """Whether a whole form is in the JSON in `data`, whose escapes are undone like any others."""
        return bool(self._values) and self._holds(data)

    def may_change(self, data: bytes) -> bool:
        """Whether a string of the JSON in `data` may look different afterwards; a cheap question, asked first."""
        return bool(self._values) and (any(sign in data for sign in _CUT_SIGNS) or self._holds(data))

    def _holds(self, data: bytes) -> bool:
        if self._exact.may_be_in(data):
            return True
        return self._spelled.may_be_in(fold(data)) and any(True for _ in self._spelled.found(reading(data)))

    # --- contents -----------------------------------------------------------------------------------------------------

    def storable(self, data: bytes) -> Storable | None:
        """The content as a store takes it; None if a whole form of a secret is in it."""
        if not self._values:
            return Storable(data)
        overlap = _SPREAD * self._spelled.longest + STRING_BYTES
        starts = range(0, max(1, len(data) - overlap), _PART)
        is_secret = any(self._holds(data[start : start + _PART + overlap]) for start in starts)
        return None if is_secret else Storable(data)

    def storable_json(self, data: bytes) -> Storable | None:
        """The same for JSON, whose strings may spell a secret with escapes."""
        return self.storable(data)

    def storable_text(self, text: str) -> Storable:
        """The text in UTF-8, redacted."""
        return Storable(self.redact(text).encode("utf-8", "replace"))

    # --- texts --------------------------------------------------------------------------------------------------------

    def redact(self, text: str, *, is_cut: bool = False) -> str:
        """The text with every known value, and every piece of one beside a cut, replaced.

        `is_cut` says that the text itself ends at a cut for which there is no word in it.
        """
        if not self._values:
            return text
        data = _bytes_of(text)
        spans = self._spans(data, is_cut)
        return _replaced(text, _in_characters(data, spans)) if spans else text

    def redact_piece(self, text: str) -> tuple[str, str]:
        """The same for a text that goes on: what can be shown of it, and the rest, which may be the start of a value.

        The rest, usually empty and shorter than two values, belongs in front of what comes next.
        """
        if not self._values:
            return text, ""
        data = _bytes_of(text)
        spans = self._spans(data, False)
        end = self._open_at(data)
        # A value may begin inside of one that is complete: the two are replaced as one, when both are there.
        for start, stop in spans:
            if start < end < stop:
                end = start if len(data) - start <= 2 * _SPREAD * self._spelled.longest else stop
        shown = _in_characters(data, [span for span in spans if span[1] <= end])
        ((_, last),) = _in_characters(data, [(0, end)])
        if end < len(data) and data[end] in _CONTINUATION:
            last -= 1
        return _replaced(text[:last], shown), text[last:]

    def _spans(self, data: bytes, is_cut: bool) -> list[Span]:
        found: list[Span] = []
        if self._exact.may_be_in(data):
            found += self._exact.found(read_in(data, ()))
        read = fold(data)
        pieces = [*self._beside_cuts(read, any(sign in data for sign in _ESCAPES), is_cut)]
        if pieces or self._spelled.may_be_in(read):
            whole = reading(data)
            found += self._spelled.found(whole)
            found += ((whole.start(start), whole.end(end)) for start, end in _merged(pieces))
        return _merged(found) if found else found

    def _open_at(self, data: bytes) -> int:
        """The first position from which on a form, or an escape, may go on in what comes next; else the length."""
        size = len(data)
        since = max(0, size - self._exact.longest)
        at = self._exact.open_at(read_in(data[since:], ()))
        first = size if at is None else since + at
        enough = self._spelled.longest + STRING_BYTES + 100
        length = 2 * enough
        while True:
            since = max(0, size - length)
            end = reading(data[since:], is_open=True)
            if not since or len(end.data) >= enough:
                break
            length *= 4
        at = self._spelled.open_at(end)
        return min(first, since + end.unfinished, size if at is None else since + at)

    # --- cuts ---------------------------------------------------------------------------------------------------------

    def _beside_cuts(self, read: bytes, has_escapes: bool, is_cut: bool) -> Iterator[Span]:
        """Pieces of forms beside cuts, in what was read."""
        reach = _CUT_ESCAPE if has_escapes else 1
        words = [(len(read), len(read))] if is_cut else []
        if b"\xe2\x80\xa6" in read or b"..." in read or b"leftout]" in read:
            words += (word.span() for word in _CUT.finditer(read))
        for before, after in words:
            for end in range(before, max(0, before - reach), -1):
                if (start := self._spelled.piece_before(read, end)) < end:
                    yield start, end
                    break
            for start in range(after, after + reach):
                if (end := self._spelled.piece_after(read, start)) > start:
                    yield start, end
                    break


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _in_characters(data: bytes, spans: Iterable[Span]) -> list[Span]:
    """Spans of the bytes of a text as spans of its characters; of what is partly in one, all is."""
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


NO_SECRETS: Final = Redactor(())
"""Where none is known."""
