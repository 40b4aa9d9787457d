"""The recorded answers to what an execution asked of the host, as a rebuild of the namespace needs them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..events.execution import EffectAnswered
from ..ids import BlobDigest
from ..ports import EffectAnswer, Store
from ..timeline.index import Cell


def recorded_answers(store: Store, cell: Cell) -> Sequence[EffectAnswer]:
    """The answers of a cell's latest execution, by ordinal."""
    return [_recorded(store, event) for event in sorted(cell.answers, key=lambda event: event.ordinal)]


def _recorded(store: Store, event: EffectAnswered) -> EffectAnswer:
    if event.withheld:
        return EffectAnswer(withheld=True)
    if event.result is None:
        return EffectAnswer(error=event.error)
    return EffectAnswer(value=msgspec.json.decode(store.blob_get(BlobDigest(event.result))))
