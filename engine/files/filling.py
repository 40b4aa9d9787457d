"""Filling a budget from ordered units: the one rule of all levels of detail and of groups.

A text is made of units: a line, a name, a hunk. Their order does not depend on the budget, and a text shows the first
of them, as many as fit. So a larger budget never shows less, and what stays unused is smaller than the next unit.

The tokens of a text do not always grow with its units: a marker such as "... 3 more" goes with the last one. So a text
shows the largest number of units whose tokens fit, and `ladder` leaves out every text that a longer one makes cheaper.
The proof that no unit disappears: `ladder` stops at the first number of units whose least tokens exceed the limit. A
larger limit stops later, and admits more of the numbers before that; so the largest number never becomes smaller.

Pure. Called by `detail` and `group_summary`; must not know nodes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import NamedTuple, TypeVar

from .rendered import RenderedView

Unit = TypeVar("Unit")


class Spent(NamedTuple):
    """The tokens of a text with some number of units.

    `least` is a lower bound for this text and all longer ones, 0 if unknown.
    """

    tokens: int
    least: int


@dataclass(frozen=True, slots=True)
class Ladder:
    """The texts that show one thing, each with more units than the one before.

    `tokens` are the costs of the texts, increasing; the last is at most the limit that the ladder was made for. `show`
    returns the text at an index. `more` is False if the last text shows everything.
    """

    tokens: Sequence[int]
    show: Callable[[int], RenderedView]
    more: bool = False

    def within(self, budget: int) -> RenderedView | None:
        """Return the longest text of at most `budget` tokens, None if there is none.

        Texts are counted again, because the tokens of a ladder are sums, which may be a little too low.
        """
        for index in range(bisect_right(self.tokens, budget) - 1, -1, -1):
            rendered = self.show(index)
            if rendered.tokens <= budget:
                return rendered
        return None


EMPTY: Ladder = Ladder((), lambda _: RenderedView(text="", tokens=0, whole=False))


def single(rendered: RenderedView) -> Ladder:
    """Return the ladder of a thing that has one text."""
    return Ladder((rendered.tokens,), lambda _: rendered) if rendered.text else EMPTY


def ladder(
    texts: Iterable[Spent | None], limit: int, show: Callable[[int], RenderedView], whole: RenderedView | None = None
) -> Ladder:
    """Return the texts of at most `limit` tokens.

    Args:
        texts: the costs of the texts with 0, 1, 2 ... units; None for a number of units that makes no text. Read only
            as far as needed.
        limit: in tokens.
        show: returns the text with a number of units.
        whole: a text that shows more than any of these, if it fits.
    """
    tokens: list[int] = []
    units: list[int] = []
    is_cut = False
    for number, spent in enumerate(texts):
        if spent is None:
            continue
        if spent.least > limit:
            is_cut = True
            break
        if spent.tokens > limit:
            is_cut = True
            continue
        is_cut = False
        while tokens and tokens[-1] >= spent.tokens:
            tokens.pop()
            units.pop()
        tokens.append(spent.tokens)
        units.append(number)
    if whole is None or whole.tokens > limit:
        return Ladder(tokens, lambda index: show(units[index]), is_cut)
    below = bisect_left(tokens, whole.tokens)
    shown = [*tokens[:below], whole.tokens]
    return Ladder(shown, lambda index: whole if index == below else show(units[index]))


def interleaved(streams: Sequence[tuple[float, Iterable[tuple[int, Unit]]]]) -> Iterator[tuple[int, Unit]]:
    """Merge streams of units, so that each stream gets tokens in proportion to its weight.

    The unit comes first whose stream has the fewest tokens up to its end, divided by the weight; of equal ones that of
    the earlier stream. A stream that ends leaves its share to the others. The order does not depend on a budget.

    Args:
        streams: weights above 0, and units with their tokens.
    """

    def timed(weight: float, stream: Iterable[tuple[int, Unit]]) -> Iterator[tuple[float, int, Unit]]:
        used = 0
        for tokens, unit in stream:
            used += tokens
            yield used / weight, tokens, unit

    for _, tokens, unit in merge(*(timed(*stream) for stream in streams), key=lambda entry: entry[0]):
        yield tokens, unit
