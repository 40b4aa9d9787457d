"""The recorded answers to what an execution asked of the host, as a rebuild of the namespace needs them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ..events.execution import EffectAnswered
from ..ids import BlobDigest
from ..ports import EffectAnswer, PastQuestion, Store
from ..timeline.index import Cell


def recorded_answers(store: Store, cell: Cell) -> Sequence[EffectAnswer]:
    """The answers of a cell's latest execution, by ordinal, each with its question."""
    return [
        replace(_recorded(store, event), question=_question(cell, event))
        for event in sorted(cell.answers, key=lambda event: event.ordinal)
    ]


def _question(cell: Cell, event: EffectAnswered) -> PastQuestion | None:
    asked = cell.questions.get(event.ordinal)
    if asked is None:
        return None
    return PastQuestion(ordinal=event.ordinal, operation=asked.operation, argument_digest=asked.argument_digest)


def _recorded(store: Store, event: EffectAnswered) -> EffectAnswer:
    if event.withheld:
        return EffectAnswer(withheld=True)
    if event.result is None:
        return EffectAnswer(error=event.error)
    return EffectAnswer(value=msgspec.json.decode(store.blob_get(BlobDigest(event.result))))
