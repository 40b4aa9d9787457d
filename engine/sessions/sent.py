"""Writes down each model call: which texts it was made of, what they cost, and what the provider counted.

The event is made when the call has ended, so that nothing of this stands between a prompt and the first word of its
answer. It names the messages of the call before by their number alone, and texts that the log has nowhere else become
contents, once each. Called by the agent loop. Must not know what comes of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from msgspec.structs import replace

from ..events import Event
from ..events.session import ProjectionSent
from ..ids import BlobDigest, EventId
from ..ports import Store, TokensUsed
from ..projection.account import Account
from ..projection.sent import SentProjections
from ..redaction import Redactor
from .projector import Projection


class SentCalls:
    """Makes the events of one session's calls; `sent` has those before, `account` divides the tokens."""

    def __init__(self, store: Store, redactor: Redactor, sent: SentProjections, account: Account) -> None:
        self._store = store
        self._redactor = redactor
        self._sent = sent
        self._account = account
        self._contents: dict[str, BlobDigest] = {}
        """The contents of the call before, by their texts."""

    def event(
        self, projection: Projection, round_id: int, *, answered: bool, used: TokensUsed | None = None
    ) -> ProjectionSent:
        """What the log is to say of a call that was made with `projection`."""
        prompt, messages = projection.prompt, projection.prompt.messages
        before = self._sent.latest_messages
        kept = _shared_length(before, messages)
        contents: dict[str, BlobDigest] = {}
        event = ProjectionSent(
            round_id=round_id,
            answered=answered,
            position=projection.position,
            size=projection.size,
            instructions=self._content(prompt.instructions, contents),
            tail=self._content(prompt.tail, contents),
            calls_tools=prompt.calls_tools,
            kept=kept,
            messages=tuple(message.event_id for message in messages[kept:]),
            shortened={
                event_id: digest
                for event_id, text in projection.shortened.items()
                if (digest := self._content(text, contents)) is not None
            },
            sections=self._account.sections(
                projection.instruction_tokens, messages, projection.cost, projection.tail_sections
            ),
            nodes=self._account.nodes(messages, projection.cost, projection.tail_nodes),
            input_tokens=None if used is None else used.input_tokens,
            cached_tokens=None if used is None else used.cached_tokens,
            output_tokens=None if used is None else used.output_tokens,
        )
        self._contents = contents
        return replace(event, shared=self._shared(event, projection, kept))

    def _content(self, text: str, contents: dict[str, BlobDigest]) -> BlobDigest | None:
        if not text:
            return None
        digest = self._contents.get(text) or contents.get(text)
        if digest is None:
            digest = self._store.blob_put(self._redactor.redact(text).encode("utf-8", "replace"))
        contents[text] = digest
        return digest

    def _shared(self, event: ProjectionSent, projection: Projection, kept: int) -> int:
        """Tokens from the first on that the call before was sent, too."""
        before = self._sent.latest
        if before is None or (before.instructions, before.calls_tools) != (event.instructions, event.calls_tools):
            return 0
        messages = projection.prompt.messages
        same = list(
            takewhile(
                lambda message: before.shortened.get(message.event_id) == event.shortened.get(message.event_id),
                messages[:kept],
            )
        )
        shared = projection.instruction_tokens + sum(map(projection.cost, same))
        is_whole = len(same) == len(messages) == len(self._sent.latest_messages)
        return shared + (projection.tail_tokens if is_whole and before.tail == event.tail else 0)


def _shared_length(before: Sequence[EventId], messages: Sequence[Event]) -> int:
    pairs = zip(before, messages, strict=False)
    return next(
        (place for place, (event_id, message) in enumerate(pairs) if event_id != message.event_id),
        min(len(before), len(messages)),
    )
