"""Texts without the secrets that are known: whole forms of a value, and what a cut has left of one.

Pure. Must not know names of variables, events or messages; `structures` applies it to values with fields. A little over
300 lines, because what is whole, what is cut and what goes on are found by the same forms.

**Cuts.** Texts are cut before they come here, mostly in the worker, which must never learn a value: a name's summary, a
displayed value, a traceback, an excerpt of a long line. What is left of a secret beside such a cut is no whole form of
it. But whatever cuts says so in the text, in the words of `cutting`: an ellipsis, three dots, `[90 characters left
out]`. So beside each of these words the text is compared with the inside of every form: the longest piece of SHORTEST
characters or more that touches the word and occurs in a form is replaced too, whether it is a beginning, an end or, in
a window on a long line, neither. The worker needs no cooperation, no digests and no overlap for that, and what other
libraries shorten with dots is covered as well. The price is a piece of harmless text that looks like a piece of a
secret and stands beside a cut; it is replaced, which only ever affects what is shown.

**Spellings.** A text with colours, broken lines or escapes in it is also searched as it reads without (`spellings`).

**Cost.** Where nothing is known every method returns at once. Else a text without a secret costs one substring search
for each form, or for the beginning of each where the text is short; all else happens only when something was found.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NewType, cast

import msgspec

from .forms import encodings_of, forms_of, in_other_encodings
from .spellings import CONTEXT, as_it_stands, is_spelled, is_spelled_in_json, reading, spelled_parts, without_unfinished

SHORTEST: Final = 8
"""Characters; shorter values, and shorter pieces of one, occur in ordinary text too often to be replaced."""
HIDDEN: Final = "***"

_CUT: Final = re.compile(r"…|\.{3,}|\[\d+ \w+ left out\]")
_BESIDE: Final = " \n'\"`"
"""What may stand between a piece and the word for its cut: a closing quotation mark, the end of the line."""
_SHORT: Final = 2_000
"""Characters of a text in which the search is cheaper than its preparation, so that beginnings are looked for first."""
_SPREAD: Final = 8
"""How many times as long as it is a form may be spelled, with what is put into it."""
_LEVELS: Final = 3
"""How often something is spelled otherwise that is spelled so already, such as JSON in HTML."""
_BETWEEN_FORMS: Final = "\ufdd0"
"""A character that is no character of any text."""

_PIECE: Final = 1 << 20
"""Bytes that are decoded at a time: to decode 50 MB of anything but text stops all threads for a second."""

Span = tuple[int, int]
Storable = NewType("Storable", bytes)
"""Content without a known secret. A store takes nothing else, and only a `Redactor` makes it."""


class Redactor:
    """Replaces known secret values, in every form, by `***`. False where there is none."""

    def __init__(self, values: Iterable[str]) -> None:
        """`values` of fewer than SHORTEST characters are left out, not counting the space around them."""
        self._values = values = [value for value in values if len(value.strip()) >= SHORTEST]
        forms = {form for value in values for form in forms_of(value, SHORTEST)}
        # One that holds another is found where the other is not there only if the other is not looked for.
        self._forms = sorted((form for form in forms if len(form) >= SHORTEST), key=lambda form: (-len(form), form))
        self._needles = _without_longer(self._forms)
        self._in_json = [msgspec.json.encode(form)[1:-1] for form in _encodable(self._needles)]
        self._encoded = sorted({data for value in values for data in in_other_encodings(value, SHORTEST)})
        self._heads = list({needle[:SHORTEST] for needle in self._needles})
        self._heads_in_json = list({needle[:SHORTEST] for needle in self._in_json})
        self._inside = _BETWEEN_FORMS.join(self._forms)
        self._longest = max(map(len, self._forms), default=0)
        self._starts: dict[str, list[str]] = {}
        for form in self._forms:
            self._starts.setdefault(form[:SHORTEST], []).append(form)
        self._beginnings = {start[:length] for start in self._starts for length in range(1, SHORTEST)}

    def __bool__(self) -> bool:
        return bool(self._forms)

    def knowing(self, values: Iterable[str]) -> Redactor:
        """One that replaces these, too."""
        return Redactor((*self._values, *values))

    # --- is there anything? -------------------------------------------------------------------------------------------

    def holds(self, text: str) -> bool:
        """Whether a whole form is in the text."""
        return self._holds_as_it_is(text) or any(True for _ in self._spelled(text))

    def _holds_as_it_is(self, text: str) -> bool:
        if len(text) < _SHORT and not any(map(text.__contains__, self._heads)):
            return False
        return any(map(text.__contains__, self._needles))

    def is_piece_at_an_end(self, text: str) -> bool:
        """Whether the text begins or ends with a piece of a form, as what was cut out of a longer one may."""
        pieces = *self._piece_after(text, 0), *self._piece_before(text, len(text))
        return bool(pieces)

    def holds_in_json(self, data: bytes) -> bool:
        """Whether a whole form is in a string of the JSON in `data`."""
        if self._forms and is_spelled_in_json(data) and any(map(self.holds, _strings(data))):
            return True
        if len(data) < _SHORT and not any(map(data.__contains__, self._heads_in_json)):
            return False
        return any(map(data.__contains__, self._in_json))

    def may_change(self, data: bytes) -> bool:
        """Whether a string of the JSON in `data` may look different afterwards; a cheap question, asked first."""
        if not self._forms:
            return False
        is_cut = b"\xe2\x80\xa6" in data or b"..." in data or b" left out]" in data
        return is_cut or is_spelled_in_json(data) or self.holds_in_json(data)

    # --- contents -----------------------------------------------------------------------------------------------------

    def storable(self, data: bytes) -> Storable | None:
        """The content as a store takes it; None if a whole form of a secret is in it."""
        if not self._forms:
            return Storable(data)
        is_secret = any(map(data.__contains__, self._encoded)) or any(
            any(map(self.holds, self._pieces(data, encoding))) for encoding in encodings_of(data)
        )
        return None if is_secret else Storable(data)

    def storable_json(self, data: bytes) -> Storable | None:
        """The same for JSON, whose strings may spell a secret with escapes."""
        return None if self.holds_in_json(data) else Storable(data)

    def storable_text(self, text: str) -> Storable:
        """The text in UTF-8, redacted."""
        return Storable(self.redact(text).encode("utf-8", "replace"))

    def _pieces(self, data: bytes, encoding: str) -> Iterator[str]:
        """The content as text, in pieces that overlap by more than any form takes."""
        overlap = 4 * self._longest
        for start in range(0, max(1, len(data) - overlap), _PIECE):
            yield data[start : start + _PIECE + overlap].decode(encoding, "replace")

    # --- texts --------------------------------------------------------------------------------------------------------

    def redact(self, text: str, *, is_cut: bool = False) -> str:
        """The text with every known value, and every piece of one beside a cut, replaced.

        `is_cut` says that the text itself ends at a cut for which there is no word in it.
        """
        if not self._forms:
            return text
        spans = self._spans(text, is_cut)
        return _replaced(text, spans) if spans else text

    def redact_piece(self, text: str) -> tuple[str, str]:
        """The same for a text that goes on: what can be shown of it, and the rest, which may be the start of a value.

        The rest, usually empty and shorter than two values, belongs in front of what comes next.
        """
        if not self._forms:
            return text, ""
        spans = self._spans(text, False)
        end = min(self._open_value(text), self._open_as_it_reads(text))
        # A value may begin inside of one that is complete: the two are replaced as one, when both are there.
        for start, stop in spans:
            if start < end < stop:
                end = start if len(text) - start <= 2 * self._longest else stop
        return _replaced(text[:end], [span for span in spans if span[1] <= end]), text[end:]

    def _spans(self, text: str, is_cut: bool) -> list[Span]:
        found = list(self._whole(text)) if self._holds_as_it_is(text) else []
        found += self._spelled(text)
        found += self._beside_cuts(text)
        if is_cut:
            found += self._piece_before(text, len(text))
        return _merged(found) if found else found

    def _spelled(self, text: str) -> Iterator[Span]:
        for first, last in spelled_parts(text, _SPREAD * self._longest):
            read = reading(text[first:last])
            for _ in range(_LEVELS):
                if self._holds_as_it_is(read.text):
                    yield from (
                        (first + read.place(start), first + read.end(end)) for start, end in self._whole(read.text)
                    )
                if not is_spelled(read.text):
                    break
                read = read.read_again()

    def _whole(self, text: str) -> Iterator[Span]:
        for form in self._forms:
            start = text.find(form)
            while start >= 0:
                yield start, start + len(form)
                start = text.find(form, start + 1)

    def _open_value(self, text: str) -> int:
        """The first position from which the text is a form's beginning and not all of it; else its length."""
        size = len(text)
        first = size
        since = max(0, size - self._longest + 1)
        for start, forms in self._starts.items():
            at = text.find(start, since)
            while 0 <= at < first:
                rest = text[at:]
                if any(len(form) > len(rest) and form.startswith(rest) for form in forms):
                    first = at
                at = text.find(start, at + 1)
        for at in range(max(0, size - SHORTEST + 1), first):
            if text[at:] in self._beginnings:
                return at
        return first

    def _open_as_it_reads(self, text: str) -> int:
        """The same of how the text reads, as far as that can be told."""
        since = max(0, len(text) - _SPREAD * self._longest)
        tail = text[since:]
        readable = without_unfinished(tail)
        if readable == tail and not is_spelled(tail):
            return len(text)
        # What looks unfinished at an end may as well be the end of something.
        first = len(tail)
        for each in {readable, tail}:
            read = reading(each) if is_spelled(each) else as_it_stands(each)
            if (at := self._open_value(read.text)) < len(read.text):
                first = min(first, read.place(at))
        if first < len(tail):
            first = max(0, first - CONTEXT)
        elif not tail[len(readable) :].isspace():
            first = len(readable)
        return since + first

    # --- cuts ---------------------------------------------------------------------------------------------------------

    def _beside_cuts(self, text: str) -> Iterator[Span]:
        if "…" not in text and "..." not in text and " left out]" not in text:
            return
        for word in _CUT.finditer(text):
            yield from self._piece_before(text, word.start())
            yield from self._piece_after(text, word.end())

    def _piece_before(self, text: str, end: int) -> Iterator[Span]:
        while end and text[end - 1] in _BESIDE:
            end -= 1
        inside, longest = self._inside, 0
        for place in self._places.get(text[max(0, end - SHORTEST) : end], ()):
            last = place + SHORTEST
            longest = _longer(
                min(end, last), longest, lambda n, last=last: text[end - n : end] == inside[last - n : last]
            )
        if longest:
            yield end - longest, end

    def _piece_after(self, text: str, start: int) -> Iterator[Span]:
        while start < len(text) and text[start] in _BESIDE:
            start += 1
        inside, longest = self._inside, 0
        for place in self._places.get(text[start : start + SHORTEST], ()):
            room = min(len(text) - start, len(inside) - place)
            longest = _longer(room, longest, lambda n, at=place: text[start : start + n] == inside[at : at + n])
        if longest:
            yield start, start + longest

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        # By first characters, because a text may have thousands of dots in it; made when the first such text comes.
        places: dict[str, list[int]] = {}
        for at in range(len(self._inside) - SHORTEST + 1):
            places.setdefault(self._inside[at : at + SHORTEST], []).append(at)
        return places


def _longer(room: int, known: int, is_piece: Callable[[int], bool]) -> int:
    """The greatest length, SHORTEST at least, of a piece, where it is above the one that is known; else that.

    What is in a piece is one, so the lengths can be bisected.
    """
    least = max(SHORTEST, known + 1)
    if least > room or not is_piece(least):
        return known
    lengths = range(least, room + 1)
    return lengths[bisect_right(lengths, False, key=lambda length: not is_piece(length)) - 1]


def _without_longer(forms: Sequence[str]) -> list[str]:
    """The forms that hold no other one: where none of these is in a text, none is."""
    shortest: list[str] = []
    for form in reversed(forms):
        if not any(other in form for other in shortest):
            shortest.append(form)
    return shortest


def _strings(data: bytes) -> Iterator[str]:
    """Those of a JSON value; what is no JSON counts as one."""
    try:
        waiting: list[object] = [msgspec.json.decode(data)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        waiting = [data.decode("utf-8", "replace")]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            for pair in cast("dict[str, object]", each).items():
                waiting += pair
        elif isinstance(each, list):
            waiting += cast("list[object]", each)


def _encodable(forms: Iterable[str]) -> Iterator[str]:
    for form in forms:
        try:
            form.encode()
        except UnicodeEncodeError:
            continue  # no JSON holds it either
        yield form


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
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
