"""One model call on the log: its stream as signals and events, its prompt, and its cost. Called by the agent loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import islice

from msgspec.structs import replace

from ...context.model import (
    CallDelayed,
    CallRefused,
    CallRetried,
    ModelSignal,
    ReasoningDelta,
    ReplyEnded,
    StatementAsked,
    TextDelta,
    TokensUsed,
)
from ...context.models.written_replies import with_written_statement
from ...context.tail.prompt import LARGEST_NODES, Account
from ...context.tail.results import STATEMENT_TOOL
from ...context.tail.sent_prompts import SentProjections, shared_length
from ...core.errors import InvalidEventError, StoreError
from ...core.ids import BlobDigest, MessageId, Minter, ObjId, ToolCallId
from ...log.event_log import EventLog
from ...log.events.conversation import AgentReasoning, AgentText, ThinkingBlock, ToolCall, ToolResult
from ...log.events.session import ModelCallEnded, ProjectionSent
from ...log.redaction import Redactor
from ...log.store.schema import digest_of
from ...log.store_protocol import Store
from .. import turn as t
from ..journal import Journal, ModelDelayed, ModelRetried, ReasoningStreamed, TextStreamed
from .context_text import COMPACT, Breakdown, NodeCost, budget_of, handle_change, section_changes
from .projector import Projection


class ReplyRecorder:
    """Turns the stream of one reply into signals and events: a signal for each piece, an event for each finished item.

    An interrupted item is recorded with exactly the pieces that were sent. `calls_tools` as in the prompt.
    """

    def __init__(self, log: EventLog, journal: Journal, minter: Minter, *, calls_tools: bool = True) -> None:
        self._log = log
        self._calls_tools = calls_tools
        self._journal = journal
        self._minter = minter
        self._response = self._first = minter.llm_response()
        self._item: type[TextDelta | ReasoningDelta] | None = None
        self._message = MessageId("")
        self._pieces: list[str] = []
        self._signature: str | None = None
        self._provider: str | None = None
        self._thinking: list[ThinkingBlock] = []
        self.answered = False
        """Whether the model has begun its reply."""
        self.used: TokensUsed | None = None
        """The provider's counts."""

    async def record(self, stream: AsyncGenerator[ModelSignal, None]) -> t.Replied:
        """Consume the stream. The open item is appended however the stream ends, even by cancellation.

        A statement that is written in the reply's text is removed from it. `ask` is set on a statement that the user
        has not typed; whether the user is asked is decided elsewhere. A refused call gets its result at once.
        """
        calls: list[StatementAsked | CallRefused] = []
        ended = ReplyEnded()
        try:
            async with aclosing(with_written_statement(stream, calls_tools=self._calls_tools)) as signals:
                async for signal in signals:
                    self.answered = self.answered or not isinstance(signal, CallRetried | CallDelayed)
                    match signal:
                        case TextDelta() | ReasoningDelta():
                            await self._stream(signal)
                        case StatementAsked() | CallRefused():
                            calls.append(signal)
                        case ReplyEnded():
                            ended = signal
                        case TokensUsed():
                            self.used = signal
                        case CallRetried() | CallDelayed():
                            self._hold_up(signal)
        finally:
            self._end_item()
        if not calls or ended.cause != "end":
            return t.Replied(cause=ended.cause)
        wanted: t.WantedStatement | None = None
        for asked in calls:  # in their order, because some providers sign only the first call of a reply
            call = self._call(asked)
            if isinstance(asked, CallRefused):
                self._log.append(ToolResult(tool_call_id=call, status="error", text=asked.reason))
            else:
                wanted = t.WantedStatement(asked.source, call, ask=not asked.typed)
        return t.Replied(wanted, refused=wanted is None)

    async def _stream(self, delta: TextDelta | ReasoningDelta) -> None:
        if type(delta) is not self._item:
            self._end_item()
            self._item = type(delta)
            self._message = self._minter.message()
        if delta.text:
            self._pieces.append(delta.text)
            streamed = TextStreamed if isinstance(delta, TextDelta) else ReasoningStreamed
            self._journal.signal(streamed(self._message, delta.text))
            await self._journal.room()
        if isinstance(delta, ReasoningDelta):
            self._provider = delta.provider or self._provider
            if delta.signature is not None:
                # A signature closes its item: the next piece has its own.
                self._signature = delta.signature
                self._end_item()

    def _hold_up(self, signal: CallRetried | CallDelayed) -> None:
        """Publish that the call has not begun, or is made again; then the rest of its first reply is forgotten."""
        if isinstance(signal, CallDelayed):
            self._journal.signal(ModelDelayed(signal.reason, ToolCallId(f"delay_{self._first}")))
        else:
            self._retry(signal)

    def _retry(self, retried: CallRetried) -> None:
        self._journal.signal(
            ModelRetried(
                retried.attempt,
                retried.attempts,
                retried.seconds,
                retried.reason,
                ToolCallId(f"retry_{self._first}"),
                retried.withdrawn,
                retried.instead,
            )
        )
        if retried.withdrawn:
            self._item, self._pieces, self._signature, self._provider = None, [], None, None
            self._thinking = []
            self._response = self._minter.llm_response()

    def _end_item(self) -> None:
        text = "".join(self._pieces)
        if self._item is TextDelta and text:
            self._log.append(AgentText(message_id=self._message, text=text, llm_response_id=self._response))
        elif self._item is ReasoningDelta and (text or self._signature):
            self._reasoned(text)
        self._item, self._pieces, self._signature, self._provider = None, [], None, None

    def _reasoned(self, text: str) -> None:
        """Keep a block of thinking for the call that may follow. One without text (encrypted) is not shown."""
        signature, provider = self._signature, self._provider
        self._thinking.append(ThinkingBlock(text=text, signature=signature, provider=provider))
        if text:
            self._log.append(
                AgentReasoning(
                    message_id=self._message,
                    text=text,
                    signature=signature,
                    provider=provider,
                    llm_response_id=self._response,
                )
            )

    def _call(self, asked: StatementAsked | CallRefused) -> ToolCallId:
        call = ToolCallId(asked.tool_call_id) if asked.tool_call_id else self._minter.tool_call()
        try:
            self._append_call(call, asked)
        except InvalidEventError:
            # Some servers number their calls from the start in each reply, but ids must be unique in a session.
            call = self._minter.tool_call()
            self._append_call(call, asked)
        return call

    def _append_call(self, call: ToolCallId, asked: StatementAsked | CallRefused) -> None:
        event = ToolCall(
            tool_call_id=call, tool=STATEMENT_TOOL, llm_response_id=self._response, thinking=tuple(self._thinking)
        )
        if isinstance(asked, CallRefused):
            event = replace(event, tool=asked.tool, arguments=asked.arguments, refused=True)
        else:
            event = replace(
                event, arguments={"source": asked.source}, typed=asked.typed, rest_left_out=asked.rest_left_out
            )
        self._log.append(event)
        self._thinking = []  # the next call has what follows


class ModelCallRecords:
    """Makes the events of model calls: before a call its prompt and cost, after it the provider's counts.

    The prompt is on the log before the request leaves, so that a call without any reply is known too. Of the
    messages that the previous call had too, the event has only their number. Texts that are nowhere else on the log
    become contents of the store, once each. The commit runs beside the request.

    `sent` has the earlier calls, `account` divides the tokens.
    """

    def __init__(self, store: Store, redactor: Redactor, sent: SentProjections, account: Account) -> None:
        self._store = store
        self._redactor = redactor
        self._sent = sent
        self._account = account
        self._contents: dict[str, BlobDigest] = {}
        """The contents of the previous call, by text."""

    def begun(self, projection: Projection, round_id: int) -> ProjectionSent:
        """The event of a call that is about to be made with `projection`."""
        prompt, messages = projection.prompt, projection.prompt.messages
        kept = shared_length(self._sent.latest_messages, messages)
        contents: dict[str, BlobDigest] = {}
        event = ProjectionSent(
            round_id=round_id,
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
            sections=self._sections(projection),
            nodes=dict(islice(self._nodes(projection).items(), LARGEST_NODES)),
            shared=self._shared(projection, kept) or 0,
        )
        self._contents = contents
        return event

    @staticmethod
    def ended(call: ProjectionSent, model: str, *, answered: bool, used: TokensUsed | None) -> ModelCallEnded:
        """The event of the end of that call of `model`; `used` are the provider's counts."""
        return ModelCallEnded(
            round_id=call.round_id,
            used=call.used,
            size=call.size,
            answered=answered,
            input_tokens=None if used is None else used.input_tokens,
            cached_tokens=None if used is None else used.cached_tokens,
            output_tokens=None if used is None else used.output_tokens,
            model=model,
            dollars=None if used is None else used.dollars,
        )

    def breakdown(self, projection: Projection) -> Breakdown:
        """Where the tokens of the next prompt go."""
        rows = {row.obj_id: row for row in projection.handles}
        sections = self._sections(projection)
        kept = shared_length(self._sent.latest_messages, projection.prompt.messages)
        nodes = self._nodes(projection)
        shown = self._account.largest_shown(projection.prompt.messages, projection.cost)
        return Breakdown(
            sections=sections,
            size=projection.size,
            shared=self._shared(projection, kept),
            nodes=[
                NodeCost(row.name, row.title, tokens, budget_of(row), handle_change(row, shown.get(obj_id, 0)))
                if (row := rows.get(obj_id)) is not None
                else NodeCost(obj_id, self._account.title(obj_id), tokens, "", COMPACT)
                for obj_id, tokens in islice(nodes.items(), LARGEST_NODES)
            ],
            node_count=len(nodes),
            changes=section_changes(sections, projection.handles),
        )

    def breakdown_of(self, call: ProjectionSent) -> Breakdown:
        """Where the tokens of a call went."""
        return breakdown_of(call, self._account, is_first=self._sent.calls[0] is call)

    def text(self, digest: BlobDigest) -> str:
        """A text of a call's prompt, or a note if the store cannot return it."""
        try:
            return self._store.blob_get(digest).decode("utf-8", "replace")
        except KeyError:
            return f"(the content {digest} is missing in the store)"
        except StoreError as error:
            return f"({error})"

    def _sections(self, projection: Projection) -> dict[str, int]:
        messages = projection.prompt.messages
        return self._account.sections(
            projection.instruction_tokens, messages, projection.cost, projection.tail_sections
        )

    def _nodes(self, projection: Projection) -> dict[ObjId, int]:
        return self._account.nodes(projection.prompt.messages, projection.cost, projection.tail_nodes)

    def _content(self, text: str, contents: dict[str, BlobDigest]) -> BlobDigest | None:
        if not text:
            return None
        digest = self._contents.get(text) or contents.get(text)
        if digest is None:
            digest = self._store.blob_put(self._redactor.storable_text(text))
        contents[text] = digest
        return digest

    def _is_content(self, text: str, digest: BlobDigest | None) -> bool:
        return digest == ((self._contents.get(text) or digest_of(self._redactor.storable_text(text))) if text else None)

    def _shared(self, projection: Projection, kept: int) -> int | None:
        """The leading tokens that the previous call had too; None if there was no previous call."""
        before, prompt = self._sent.latest, projection.prompt
        if before is None:
            return None
        if before.calls_tools != prompt.calls_tools or not self._is_content(prompt.instructions, before.instructions):
            return 0
        same, messages = self._same(projection, before, kept), prompt.messages
        # Subtract the messages that are not shared, because these are usually few.
        shared = projection.instruction_tokens + projection.message_tokens - sum(map(projection.cost, messages[same:]))
        is_whole = same == len(messages) == len(self._sent.latest_messages)
        return shared + (projection.tail_tokens if is_whole and self._is_content(prompt.tail, before.tail) else 0)

    def _same(self, projection: Projection, before: ProjectionSent, kept: int) -> int:
        """How many of the `kept` messages have the same text as before: one may be shortened differently."""
        shortened = projection.shortened.keys() | before.shortened.keys()
        if not shortened:
            return kept
        for place, message in enumerate(projection.prompt.messages[:kept]):
            event_id = message.event_id
            if event_id in shortened and not self._is_content(
                projection.shortened.get(event_id, ""), before.shortened.get(event_id)
            ):
                return place
        return kept


def breakdown_of(call: ProjectionSent, account: Account, *, is_first: bool) -> Breakdown:
    """Where the tokens of a recorded call went."""
    return Breakdown(
        sections=call.sections,
        size=call.size,
        shared=None if is_first else call.shared,
        nodes=[NodeCost(account.name(obj_id), account.title(obj_id), tokens) for obj_id, tokens in call.nodes.items()],
        node_count=None if len(call.nodes) == LARGEST_NODES else len(call.nodes),
        counted=(call.input_tokens, call.cached_tokens, call.output_tokens),
        answered=call.answered,
    )
