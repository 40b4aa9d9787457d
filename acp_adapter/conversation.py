"""An open session as the editor sees it: the engine's session, its pump, unanswered prompts, permission requests.

Knows no shape of the protocol (`v1`) and no other session (`connection`). Made by the connection.

Order. A client must not get an update for a session before the response that names it, and it must get every update
after the session opened. So the subscription starts when the session opens, and the pump starts to send when the
response is out (`start`). In between, which takes long if a load sends a long history, prompts may already come,
because a client that loads knows the id. They run, and their events wait in the subscription. A prompt is answered
when its turn has ended, its last event is durable, and the pump has sent everything up to it. A permission is
requested when everything before it was sent. Both therefore wait for `start`. If `start` will not come, because the
request failed or the client left, `give_up` ends these waits.

Since version 2, a prompt is answered when its message has its place in the conversation, and an update tells how its
turn ended (`inserted`, `settle`). If another prompt waits, the pump sends it before that one's message, because only
the pump knows what was sent before.

State. The pump's state (waiting, sending, over) says whether updates are sent. The state here says whether the session
can be used: open, closing once a close is requested, closed when its prompts are answered and it can be opened again.
The two are independent: a session may close while the response that opened it is still on its way.

Sharing. On a network, several connections may have one session (`sharing`), each with a conversation of its own. A
conversation is asked questions once it has started, and no more when its client is lost (`abandon`). Its prompts go on
then. A client of version 1 is shown the prompts of others, and one of version 2 is told when they begin and end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from acp_adapter import updates
from acp_adapter.activity import ActivityReporter
from acp_adapter.editor_files import EditorFiles
from acp_adapter.jsonrpc.dispatch import Remote
from acp_adapter.jsonrpc.messages import (
    Code,
    ConnectionClosedError,
    InvalidResultError,
    Json,
    ProtocolError,
    RemoteError,
    one_sentence,
)
from acp_adapter.pump import Pump
from acp_adapter.requests import AUTH_REQUIRED, FAILED, MODE, Activity, Initialize, Prompt, option_id
from acp_adapter.shown import Shown
from acp_adapter.versions import Version
from engine import MODES, OFF, ON, Form, FormAnswer, PermissionAnswer, PermissionQuestion, Session, Ticket, TurnEnd
from engine.core.errors import InvalidRequestError, SessionReadOnlyError
from engine.core.ids import MessageId
from engine.core.text import cut_line
from engine.log.events import UNSTAMPED
from engine.log.events.conversation import RunStop, UserMessage
from engine.log.events.going_back import HeadMoved, Rewound

if TYPE_CHECKING:  # for servers of many connections
    from acp_adapter.sharing import SharedSession

REQUEST_PERMISSION: Final = "session/request_permission"
ELICIT: Final = "elicitation/create"
NO_FORMS: Final = "this editor cannot show forms, only choices"
NOT_SHOWN: Final = "the editor could not show the question"
NOT_INSERTED: Final = "the prompt was cancelled before its turn"
_ECHO_CHARS: Final = 60
"""Limit of a client's text in an error message."""


class State(Enum):
    """Whether a session can be used. It only changes in this order."""

    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


class Conversation:
    """Binds a session to the connection that opened it."""

    def __init__(
        self,
        session: Session,
        peer: Remote,
        files: EditorFiles,
        version: Version,
        client: Initialize,
        shared: SharedSession | None = None,
    ) -> None:
        """`client` is what the editor can show. `shared` is None if no other connection can have the session."""
        self.session = session
        self.files: Final = files
        self._shared = shared
        self._own: set[MessageId] = set()
        """The messages of this client."""
        self._is_abandoned = False
        self._closes_all = False
        """Whether a close of the session has begun, which a connection that joins now cannot stop."""
        self._peer = peer
        self._state = State.OPEN
        self._unanswered: set[Ticket] = set()
        self._last_end: TurnEnd | None = None
        """The end of the last prompt that had its place in the conversation, while others are left."""
        self._reported = UNSTAMPED
        """The position of the last end that was reported as that of all work."""
        self._changed = anyio.Event()
        is_first = version.VERSION == 1
        nothing = Shown(
            terminals=client.terminals,
            notices=client.notices,
            booleans=client.booleans,
            echoes=not is_first,
            condensations=client.condensations,
        )
        writer = version.writer(files.redactor.redact)
        self._writer = writer
        self._client = client
        self._subscription = session.subscribe()
        self._pump = Pump(self._subscription, session, self._send, writer, nothing, self._turn_ended)
        self._activity = ActivityReporter(writer, self._send)
        self._permissions = EditorPermissions(session, peer, self._pump, self._activity, version)
        self._forms = EditorForms(session.session_id, peer, self._pump, self._activity, version, forms=client.forms)
        if shared is None:
            session.attach(self._permissions, files, self._forms)
        else:
            self._pump.follow(self._is_foreign, self._followed)

    # --- updates ------------------------------------------------------------------------------------------------------

    async def start(self, tasks: TaskGroup) -> None:
        """Start to send updates. Call this once, after the response that names the session."""
        if self._state is State.CLOSED:
            return
        if self._shared is not None and not self._is_abandoned:
            self._shared.join(self)
        tasks.start_soon(self._pump.run)
        for update in self._writer.live([updates.commands_update(self.session.custom_commands)]):
            await self._send(update)

    async def connect(self) -> None:
        """Start to connect the session's MCP servers, without waiting for them."""
        self.session.connect()

    def give_up(self) -> None:
        """End all waits for `start`, because the request that opened the session failed, or the client left."""
        self._pump.give_up()

    async def replay(self) -> None:
        """Send the history: every update exactly once, even if new events are published meanwhile."""
        await self._pump.replay(self.session.events)

    async def synchronize(self) -> None:
        """Report whether the session works, to a client that may not know."""
        if self._shared is not None and self.session.is_busy:
            await self._activity.begin()
        else:
            await self._activity.repeat()

    async def show_finished(self) -> None:
        """Report a rewind that was interrupted by a crash and finished while opening, if no history is sent."""
        finished = [event for event in self.session.settled if isinstance(event, Rewound | HeadMoved)]
        if any(isinstance(event, Rewound) for event in finished):
            await self._pump.show(finished)

    async def _send(self, update: Json) -> None:
        await self._peer.notify("session/update", {"sessionId": self.session.session_id, "update": update})

    # --- prompts ------------------------------------------------------------------------------------------------------

    def accept(self, prompt: Prompt) -> Ticket:
        """Take a prompt while its line is read. Raises SessionBusyError, SessionReadOnlyError."""
        ticket = self.session.accept(prompt.content, prompt.kind)
        self._own.add(ticket.message_id)
        self.files.user_acted()
        self._unanswered.add(ticket)
        if ticket.is_over:
            # Answered at once, so nothing is on the log. The answer has the id that the message would have.
            self._pump.answer_aside(self._aside(ticket), ticket.message_id)
        return ticket

    def _aside(self, ticket: Ticket) -> UserMessage:
        return replace(ticket.message("direct", aside=True), message_id=MessageId(f"asked_{ticket.message_id}"))

    async def ended(self, ticket: Ticket) -> TurnEnd:
        """Wait until the prompt's turn has ended and all its updates were sent.

        Cancelling the wait cancels the prompt, which still ends normally, as cancelled.

        Raises:
            EngineError: the turn could not run or could not be recorded.
        """
        end = TurnEnd("cancelled", None, UNSTAMPED)
        try:
            end = await self._end(ticket)
        except anyio.get_cancelled_exc_class():
            if self._is_abandoned:
                raise
            self.session.cancel(ticket)
            with anyio.CancelScope(shield=True):
                end = await self._end(ticket)
        finally:
            self._unanswered.discard(ticket)
            self._notify()
        if end.failure is not None:
            raise end.failure
        return end

    async def inserted(self, ticket: Ticket) -> MessageId:
        """Wait until the prompt's message has its place in the conversation; return the message's id.

        `settle` must follow. Cancelling the wait cancels the prompt.

        Raises:
            ProtocolError: it was cancelled before.
            EngineError: it could not be recorded.
        """
        is_cancelled = False
        try:
            await self._activity.begin()
            await self._until_inserted(ticket)
        except anyio.get_cancelled_exc_class():
            if self._is_abandoned:
                raise
            is_cancelled = True
            self.session.cancel(ticket)
            with anyio.CancelScope(shield=True):
                await self._end(ticket)
        if self._pump.has_inserted(ticket.message_id):
            return ticket.message_id
        end = await self._end(ticket)
        if end.cause == "end_turn" and end.failure is None:
            return self._aside(ticket).message_id
        with anyio.CancelScope(shield=True):
            await self.settle(ticket)
        if end.failure is not None and not is_cancelled:
            raise end.failure
        raise ProtocolError(Code.CANCELLED, NOT_INSERTED)

    async def _until_inserted(self, ticket: Ticket) -> None:
        """Wait until the message was sent, or the prompt has ended without."""
        async with anyio.create_task_group() as tasks:

            async def wait_for_end() -> None:
                await self._end(ticket)
                tasks.cancel_scope.cancel()

            tasks.start_soon(wait_for_end)
            await self._pump.inserted(ticket.message_id)
            tasks.cancel_scope.cancel()

    async def settle(self, ticket: Ticket) -> None:
        """Wait until the prompt has ended, and report the end of all work if no other prompt is left."""
        end = await self._end(ticket)
        if self._last_end is None or self._pump.has_inserted(ticket.message_id):
            self._last_end = end
        if self._unanswered <= {ticket}:
            last, self._last_end = self._last_end, None
            self._reported = last.seq
            await self._activity.end(_activity_of(last))
        self._unanswered.discard(ticket)
        self._notify()

    async def _turn_ended(self, stop: RunStop) -> None:
        """Report how a turn ended that another prompt follows, before that one is shown."""
        if stop.seq > self._reported:
            await self._activity.end(_activity_of(TurnEnd(stop.cause, stop.detail, stop.seq)))
            await self._activity.begin()

    async def _end(self, ticket: Ticket) -> TurnEnd:
        end = await ticket.end()
        # A session that became read-only never publishes the events that it could not commit.
        with suppress(SessionReadOnlyError):
            await self.session.durable(end.seq)
            await self._pump.sent(end.seq)
            await self._pump.caught_up()
        return end

    # --- other connections --------------------------------------------------------------------------------------------

    @property
    def is_shared(self) -> bool:
        """Whether another connection has the session, too."""
        return self._shared is not None and not self._closes_all and self._shared.is_shared(self)

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Return the answer of this connection's user. It has none once the client is lost."""
        answer = await self._permissions.ask(question)
        await self._unless_abandoned()
        return answer

    async def fill(self, form: Form) -> FormAnswer:
        """Return the answer of this connection's user, likewise."""
        answer = await self._forms.fill(form)
        await self._unless_abandoned()
        return answer

    async def _unless_abandoned(self) -> None:
        """Wait forever if the client is lost, because the others are still asked."""
        if self._is_abandoned:
            await anyio.sleep_forever()

    def _is_foreign(self, message_id: MessageId) -> bool:
        return message_id not in self._own

    async def _followed(self, event: UserMessage | RunStop) -> None:
        """Report that a prompt of another client began or ended."""
        if isinstance(event, RunStop):
            if not self._unanswered:
                await self._activity.end(_activity_of(TurnEnd(event.cause, event.detail, event.seq)))
        elif self._is_foreign(event.message_id) and not event.aside:
            await self._activity.begin()

    def abandon(self) -> None:
        """Let the session go on without this client, which is lost."""
        self._is_abandoned = True
        if self._state is not State.OPEN:
            return
        self._leave()
        self._pump.give_up()
        self._move(State.CLOSED)

    async def depart(self) -> None:
        """Cancel the prompts of this client, wait until they are answered, and leave the session to the others."""
        if self._state is not State.OPEN:
            await self.closed()
            return
        self._move(State.CLOSING)
        try:
            for ticket in [*self._unanswered]:
                self.session.cancel(ticket)
            with anyio.CancelScope(shield=True):
                await self._until(lambda: not self._unanswered)
        finally:
            self._leave()
            self._move(State.CLOSED)
        if self._pump.is_sending:
            await self._pump.over()

    def _leave(self) -> None:
        if self._shared is not None:
            self._shared.leave(self)
        self.session.unsubscribe(self._subscription)
        self.files.close()

    def begin_close(self) -> None:
        """Refuse further prompts and cancel the others; only those of this client, if another one has the session."""
        if not self.is_shared:
            self._closes_all = True
            self.session.begin_close()

    # --- options ------------------------------------------------------------------------------------------------------

    def set_option(self, requested: str, value: str | bool) -> None:
        """Set an option, even during a turn; `requested` is its id as the client was offered it.

        Raises:
            InvalidRequestError: the id or the value was not offered; the message lists those that were.
        """
        offered = {MODE: (MODE, [*MODES])}
        rows = self.session.options.rows
        switches = {option_id(row.name, row.category) for row in rows if row.is_switch}
        if isinstance(value, bool) and self._client.booleans and requested in switches:
            value = ON if value else OFF
        offered.update((option_id(row.name, row.category), (row.name, [*row.values])) for row in rows)
        is_open = {row.name for row in rows if row.is_open}
        if requested not in offered:
            shown = cut_line(repr(requested), _ECHO_CHARS)
            raise InvalidRequestError(f"there is no option {shown}; the options are {', '.join(offered)}")
        name, choices = offered[requested]
        if isinstance(value, bool) or (value not in choices and name not in is_open):
            shown = "a boolean" if isinstance(value, bool) else cut_line(repr(value), _ECHO_CHARS)
            raise InvalidRequestError(f"{requested} cannot be {shown}; use one of {', '.join(choices)}")
        self.session.set_option(name, value)

    # --- the end ------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether no close was requested."""
        return self._state is State.OPEN

    async def close(self, release: Callable[[], Awaitable[None]]) -> None:
        """Cancel the turn, wait until the prompts are answered, and call `release` to free the session.

        May be called twice; both calls return when the session is closed.
        """
        if self._state is not State.OPEN:
            await self.closed()
            return
        self._move(State.CLOSING)
        self.session.begin_close()
        if self._shared is not None:
            self._shared.leave(self)
        try:
            # Otherwise a cancelled request would leave a session that can neither be used nor opened again.
            with anyio.CancelScope(shield=True):
                await self._until(lambda: not self._unanswered)
                await release()
            if self._pump.is_sending:
                await self._pump.over()
        finally:
            self.files.close()
            self._move(State.CLOSED)

    async def closed(self) -> None:
        """Wait until the session is closed."""
        await self._until(lambda: self._state is State.CLOSED)

    def _move(self, state: State) -> None:
        self._state = state
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()


class EditorPermissions:
    """Requests permission from the user of the editor, for the engine.

    Waits until everything before the question was sent, because the user decides by what is on the screen. An answer
    that is not clearly an approval is a rejection: an unknown option, an error, a client that does not know the
    method.
    """

    def __init__(
        self, session: Session, peer: Remote, pump: Pump, activity: ActivityReporter, version: Version
    ) -> None:
        self._session = session
        self._peer = peer
        self._pump = pump
        self._activity = activity
        self._version = version

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        """Return the user's answer. Cancelling the wait withdraws the question."""
        await self._pump.sent(question.seq)
        question = replace(question, tool_call_id=self._pump.card_of(question.tool_call_id))
        client = self._version.client
        params = client.permission_params(self._session.session_id, question, self._session)

        async def ask() -> PermissionAnswer:
            return await self._peer.request(REQUEST_PERMISSION, params, client.permission_answer)

        try:
            return await self._activity.while_asking(ask)
        except (RemoteError, InvalidResultError, ConnectionClosedError):
            return PermissionAnswer(outcome="rejected")


class EditorForms:
    """Asks the user of the editor for answers, for the engine: with a form, or with options to choose from.

    Waits until everything before the question was sent, as `EditorPermissions` does. With `forms` the editor shows
    forms. For any other one the choices are the options of a permission request.
    """

    def __init__(
        self,
        session_id: str,
        peer: Remote,
        pump: Pump,
        activity: ActivityReporter,
        version: Version,
        *,
        forms: bool,
    ) -> None:
        self._session_id = session_id
        self._peer = peer
        self._pump = pump
        self._activity = activity
        self._version = version
        self._forms = forms

    async def fill(self, form: Form) -> FormAnswer:
        """Return the user's answer. Cancelling the wait withdraws the question."""
        await self._pump.sent(form.seq)
        form = replace(form, tool_call_id=self._pump.card_of(form.tool_call_id))
        client = self._version.client
        if self._forms:
            method, asked = ELICIT, client.form_request(self._session_id, form)
        else:
            method, asked = REQUEST_PERMISSION, client.options_request(self._session_id, form)
        if asked is None:
            return FormAnswer(outcome="declined", note=NO_FORMS)
        params, read = asked

        async def ask() -> FormAnswer:
            return await self._peer.request(method, params, read)

        try:
            return await self._activity.while_asking(ask)
        except (RemoteError, InvalidResultError, ConnectionClosedError):
            return FormAnswer(outcome="declined", note=NOT_SHOWN)


def _activity_of(end: TurnEnd) -> Activity:
    """Return how the work ended."""
    if end.failure is not None:
        return Activity("idle", "error", (Code.INTERNAL_ERROR, one_sentence(str(end.failure))))
    if end.cause != "error":
        return Activity("idle", end.cause)
    code = AUTH_REQUIRED if end.unusable else Code.INTERNAL_ERROR
    return Activity("idle", "error", (code, one_sentence(end.detail or FAILED)))
