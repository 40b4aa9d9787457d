"""Serves the requests of one session: a prompt, a command or a statement, from its message to the end of its run.

Decides what a text is, and what goes on the log around it; what is done is in `session_runtime` and `agent_loop`. Made
by `RequestQueue`, which calls it for one request at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from ..core.errors import EnvironmentUnavailableError, InvalidRequestError
from ..core.ids import MessageId
from ..log.events.conversation import AgentText, Attachment, RunStop
from ..log.events.session import OthersWrote, TitleChanged
from .cancellation import WorkCancelledError
from .commands.command import Command, CommandContext, CommandRun
from .commands.table import command_for, command_in, command_of
from .journal import TextStreamed
from .openings import not_opened, openings
from .parts import SessionParts
from .requests import ActiveRequest, Ticket, TurnEnd, end_at
from .session_runtime import SessionRuntime
from .turn import Stop

_COMPLETED: Final = RunStop(reason="completed", cause="end_turn")


class RequestServer:
    """One session's. `waiting` are the tickets behind the one that is served, in their order."""

    def __init__(self, parts: SessionParts, waiting: Iterable[Ticket]) -> None:
        self.runtime = SessionRuntime(parts, self._openings_of, self.cancel)
        self._parts = parts
        self._waiting = waiting
        self._notes = parts.notes
        self._active = ActiveRequest(parts.log, None, ())

    async def serve(self, ticket: Ticket) -> TurnEnd:
        """Serve one request from its UserMessage to its RunStop; return when both are durable."""
        if ticket.cell:
            end = await self._run_cell(ticket, ticket.text)
        else:
            command, run, argument = self._command_of(ticket)
            if command is not None and run is None:
                end = await self._run_cell(ticket, argument)
            else:
                end = await self._serve_prompt(ticket, command, run, argument)
        await self._parts.journal.durable(end.seq)
        return end

    @staticmethod
    def _command_of(ticket: Ticket) -> tuple[Command | None, CommandRun | None, str]:
        if ticket.request is not None:
            command, carry_out = command_for(ticket.request)
            request = ticket.request
            return command, lambda context, _: carry_out(context, request), ""
        command, argument = command_of(ticket.said)
        return command, None if command is None else command.run, argument

    async def _serve_prompt(
        self, ticket: Ticket, command: Command | None, run: CommandRun | None, argument: str
    ) -> TurnEnd:
        message = ticket.message(ticket.prompt_kind, aside=command is not None and not command.is_said)
        self._active = ActiveRequest(self._parts.log, message, self._waiting)
        if command is None or not command.moves_head:
            self._active.begin()
        if command is not None and run is not None:
            return await self._answer(run, argument, torn=command.torn)
        stop = await self._run_turn(ticket)
        return end_at(self._parts.log, stop.cause, stop.detail, unusable=stop.unusable)

    async def _run_turn(self, ticket: Ticket) -> Stop:
        """Run the turn of a prompt whose message is on the log, to its RunStop."""
        if self._parts.policy.title is None:
            self._publish_title()
        notes, self._notes = self._notes, ()
        self._tell(notes)
        return await self.runtime.loop.run(self._openings_of(ticket.said.attachments), ticket.said.text)

    async def _answer(self, run: CommandRun, argument: str, *, torn: bool) -> TurnEnd:
        """Carry out a command to its RunStop. One that is not `torn` handles a cancel itself."""
        active = self._active
        context = CommandContext(self.runtime, active)
        stop, refused = _COMPLETED, None
        try:
            if torn:
                answer = await active.cancellation.guard(lambda: run(context, argument))
            else:
                answer = await run(context, argument)
        except (EnvironmentUnavailableError, InvalidRequestError) as error:
            answer, refused = str(error), error
            active.put_aside()
        except WorkCancelledError:
            answer, stop = "", RunStop(reason="interrupted", cause="cancelled")
            active.put_aside()
        active.begin()
        if answer:
            self._say(answer)
        self._parts.log.append(stop)
        return end_at(self._parts.log, stop.cause, refused=refused, result=active.result)

    async def _run_cell(self, ticket: Ticket, source: str) -> TurnEnd:
        """Run one statement, to its RunStop.

        Raises:
            EnvironmentUnavailableError: there is no worker to run it in.
        """
        stop = RunStop(reason="error", cause="error", detail="internal error")
        log = self._parts.log
        self._active = ActiveRequest(log, None, self._waiting)
        before = len(log)
        if ticket.by_client and not self._parts.facts.is_foreign:
            log.append(OthersWrote(by="client"))  # ahead of all else, because the worker goes by it
        try:
            opened = self.runtime.ticker.next_round("cell")
            finished = await self.runtime.statements.run(
                source,
                opened.round_id,
                None,
                self._active.cancellation,
                seconds=ticket.seconds,
                opening=(ticket.message(ticket.prompt_kind, aside=True), opened),
            )
            self.runtime.ticker.cue()
            is_cancelled = finished.status == "cancelled"
            stop = RunStop(reason="interrupted", cause="cancelled") if is_cancelled else _COMPLETED
        except EnvironmentUnavailableError as error:
            stop = RunStop(reason="error", cause="error", detail=str(error))
            raise
        finally:
            if len(log) > before:  # else not even its message could be recorded
                log.append(stop)
        return end_at(log, stop.cause, execution=finished)

    # --- beside what is served ----------------------------------------------------------------------------------------

    def steer(self, ticket: Ticket) -> bool:
        """Have the running turn's next model call read the prompt; False where no turn runs, or it is ending.

        A command is for no model, and waits.
        """
        if ticket.request is not None or command_in(ticket.text)[0] is not None:
            return False
        return self.runtime.loop.steer(ticket.message("steer"))

    def answer_at_once(self, text: str, message_id: MessageId) -> bool:
        """Answer a command that can be answered while a turn is running; False for any other text."""
        command, argument = command_in(text)
        if command is None or command.glance is None:
            return False
        answer = command.glance(CommandContext(self.runtime, self._active), argument)
        self._parts.journal.signal(TextStreamed(message_id, answer, aside=True), is_whole=True)
        return True

    def cancel(self) -> None:
        """End what is running, whatever it is; give up at once what is under way."""
        self.runtime.loop.cancel()
        self._active.cancellation.cancel()
        self.runtime.buffers.give_up()

    # --- what the user is told ----------------------------------------------------------------------------------------

    def _openings_of(self, attachments: Sequence[Attachment]) -> Sequence[str]:
        """The statements that open what was attached; tell the user why others are not opened."""
        self._tell(not_opened(attachments))
        # Names of variables are made of these names, and are no texts.
        named = [replace(each, name=self._parts.redactor.redact(each.name or each.uri)) for each in attachments]
        timeline = self._parts.timeline
        return openings(named, self._parts.cwd, timeline.names, timeline.rebound)

    def _publish_title(self) -> None:
        """Name the session after its first prompt, whose message is on the log."""
        cycle = self.runtime.cycles.active
        assert cycle is not None
        self._parts.log.append(TitleChanged(title=cycle.title))
        self._parts.store.retitle(self._parts.session_id, cycle.title)

    def _tell(self, sentences: Sequence[str]) -> None:
        if sentences:
            self._say("\n".join(sentences) + "\n\n")

    def _say(self, text: str) -> None:
        """Tell the user something that no model reads."""
        message_id = self._parts.minter.message()
        self._parts.journal.signal(TextStreamed(message_id, text, aside=True), is_whole=True)
        self._parts.log.append(AgentText(message_id=message_id, text=text, aside=True))
