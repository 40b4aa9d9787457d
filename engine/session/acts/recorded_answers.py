"""The recorded answers that a statement gets which stands in the place of an earlier one.

One counts where the same was asked: the operation and the digest of its arguments are the same, as in a rebuild; each
once. What held a secret, or cannot be read from the store any more, is no answer. Whoever opens a file to change it
finds there what the earlier one did, because what it writes could not be the same otherwise. An answer also says what a
file held, or was made to hold: nothing else may be written over later. Used by `acts`, made by `editing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ...core.errors import StoreError
from ...core.ids import BlobDigest
from ...core.plain_data import argument_digest
from ...core.toolbox import RECALL_FILE
from ...log.file_history import ActOnFile, Question
from ...log.past import PastAnswer
from ...log.statements import EffectAnswer, EffectRequest
from ...log.store_protocol import Store
from ..tools import Reading, name_text
from .act_events import named


class RecordedAnswers:
    """Those of one execution. `acts` are what its answers are of, as far as that changed files."""

    def __init__(self, answers: Iterable[PastAnswer], store: Store, acts: Sequence[ActOnFile] = ()) -> None:
        self._left = [answer for answer in answers if answer.question is not None and not answer.withheld]
        self._store = store
        self._acts = acts
        self._given: Counter[Question] = Counter()

    def take(self, request: EffectRequest) -> tuple[EffectAnswer, Reading | None] | None:
        """The answer to the same question, once, and what is known of a file by it; None where there is none.

        Reads the store.
        """
        asked = named(request), argument_digest(request.arguments)
        answer = self._find(asked)
        if answer is None:
            return None
        turn = self._given[asked]
        self._left.remove(answer)
        self._given[asked] += 1
        given = self._value(answer)
        return None if given is None else (given, self._known(answer, asked, turn, given.value))

    def _known(self, answer: PastAnswer, asked: Question, turn: int, value: object) -> Reading | None:
        if answer.path:
            return Reading(path=answer.path, digest=answer.digest, value=value)
        match [act.written for act in self._acts if (act.question, act.turn) == (asked, turn)]:
            case [written]:
                return Reading(path=written.path, digest=written.after_digest, value=value)
            case _:
                return None

    def recall(self, request: EffectRequest) -> object:
        """What the record says to one of `toolbox.RECALLS`; None for what is no such question. Reads the store."""
        match request.arguments:
            case {"path": str(path), "content": bool(content)} if request.operation == RECALL_FILE:
                return self._file(name_text(path), content=content)
            case {"operation": str(operation), "arguments": dict()}:
                arguments: Any = request.arguments["arguments"]
                return self._find((operation, argument_digest(arguments))) is not None
            case _:
                return None

    def _find(self, asked: Question) -> PastAnswer | None:
        for answer in self._left:
            if answer.question and (answer.question.operation, answer.question.argument_digest) == asked:
                return answer
        return None

    def _file(self, path: str, *, content: bool) -> dict[str, bytes | None] | None:
        acts = [act for act in self._acts if act.written.path == path]
        if not acts:
            return None
        ahead = next((act.written for act in acts if act.turn >= self._given[act.question]), None)
        if ahead is None:
            return self._held(acts[-1].written.after, acts[-1].written.after_digest, content)
        return self._held(ahead.before, ahead.before_digest, content)

    def _held(self, kept: BlobDigest | None, digest: str, content: bool) -> dict[str, bytes | None] | None:
        if not digest:
            return {"content": None}
        if not content:
            return {"content": b""}
        try:
            return None if kept is None else {"content": self._store.blob_get(kept)}
        except (KeyError, StoreError):
            return None

    def _value(self, answer: PastAnswer) -> EffectAnswer | None:
        if answer.error is not None or answer.content is None:
            return EffectAnswer(error=answer.error)
        try:
            return EffectAnswer(value=msgspec.json.decode(self._store.blob_get(answer.content)))
        except (KeyError, StoreError):
            return None
