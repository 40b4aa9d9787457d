"""What the steps of a history need of the store, loaded and handed to one worker as each of them is due.

Owns how a blob that is missing or damaged is told to the worker: as an answer, or a revision, that is not to be had.
Each revision's content travels to a worker once. Must not know what a step does. Used by `rebuild`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ..errors import StoreError
from ..ids import BlobDigest
from ..ports import Contents, PastAnswer, PastRevision
from ..worker.protocol import Answer, Content, Look
from .connection import Connection

WITHHELD = "held a secret and was not kept"
TOO_LARGE = "was too large to be kept"
MISSING = "is missing in the store"
DAMAGED = "is damaged in the store"


class PastContents:
    """The contents of one history, for one worker. Called for its steps in order."""

    def __init__(self, contents: Contents, worker: Connection) -> None:
        self._contents = contents
        self._worker = worker
        self._sent: set[str] = set()

    async def answers(self, past: Iterable[PastAnswer]) -> tuple[Answer, ...]:
        """The recorded answers as the worker takes them; one that cannot be had says why."""
        return tuple([await self._answer(place, answer) for place, answer in enumerate(past)])

    async def looks(self, past: Iterable[PastRevision]) -> tuple[Look, ...]:
        """The looks as the worker takes them, after whatever content it has not been sent yet."""
        return tuple([await self._look(revision) for revision in past])

    async def values(self, content: BlobDigest | None) -> bytes | str:
        """A pickle of values, or the reason why it is not to be had, a phrase."""
        return WITHHELD if content is None else await self._load(content)

    async def _answer(self, place: int, past: PastAnswer) -> Answer:
        asked = past.question
        ordinal = place if asked is None else asked.ordinal
        question = None if asked is None else (asked.operation, asked.argument_digest)
        if past.withheld:
            return Answer(ordinal=ordinal, question=question, lost=WITHHELD)
        if past.content is None:
            return Answer(ordinal=ordinal, question=question, error=past.error)
        value = await self._value(past.content)
        if isinstance(value, str):
            return Answer(ordinal=ordinal, question=question, lost=value)
        return Answer(ordinal=ordinal, question=question, value=value[0])

    async def _value(self, content: BlobDigest) -> tuple[Any] | str:
        data = await self._load(content)
        if isinstance(data, str):
            return data
        try:
            return (msgspec.json.decode(data),)
        except msgspec.DecodeError:
            return DAMAGED

    async def _look(self, past: PastRevision) -> Look:
        return Look(
            path=past.path,
            look=past.look,
            state=past.state,
            digest=past.digest,
            size=past.size,
            notice=past.notice,
            lost=await self._sent_content(past) if past.digest else "",
        )

    async def _sent_content(self, past: PastRevision) -> str:
        """Sends the content unless the worker has it; the reason where it is not to be had."""
        if past.digest in self._sent:
            return ""
        if past.content is None:
            return WITHHELD if past.withheld else TOO_LARGE
        data = await self._load(past.content)
        if isinstance(data, str):
            return data
        self._worker.send(Content(past.digest, data))
        self._sent.add(past.digest)
        return ""

    async def _load(self, content: BlobDigest) -> bytes | str:
        try:
            return await self._contents(content)
        except KeyError:
            return MISSING
        except StoreError:
            return DAMAGED
