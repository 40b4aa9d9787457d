"""The recorded answers that a statement gets which stands in the place of an earlier one.

One counts where the same was asked: the operation and the digest of its arguments are the same, as in a rebuild; each
once. What held a secret, or cannot be read from the store any more, is no answer. Used by `acts`, made by `editing`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...errors import StoreError
from ...plain_data import argument_digest
from ...ports import EffectAnswer, EffectRequest, PastAnswer, Store
from .act_events import named


class RecordedAnswers:
    """Those of one execution."""

    def __init__(self, answers: Iterable[PastAnswer], store: Store) -> None:
        self._left = [answer for answer in answers if answer.question is not None and not answer.withheld]
        self._store = store

    def take(self, request: EffectRequest) -> EffectAnswer | None:
        """The answer to the same question, once; None where there is none. Reads the store."""
        asked = named(request), argument_digest(request.arguments)
        for position, answer in enumerate(self._left):
            if answer.question and (answer.question.operation, answer.question.argument_digest) == asked:
                del self._left[position]
                return self._given(answer)
        return None

    def _given(self, answer: PastAnswer) -> EffectAnswer | None:
        if answer.error is not None or answer.content is None:
            return EffectAnswer(error=answer.error)
        try:
            return EffectAnswer(value=msgspec.json.decode(self._store.blob_get(answer.content)))
        except (KeyError, StoreError):
            return None
