"""Serve one request: decide what a text is, and what goes on the log around it, from its message to its RunStop.

A text is a slash command, a statement, or a prompt for the model. `session_runtime` and `agent_loop` do the work.
`RequestQueue` makes the server and calls it for one request at a time. A prompt's attachments become views, each by a
statement of its own (`openings`), so a replay opens them too.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from ..core.errors import EnvironmentUnavailableError, InvalidRequestError
from ..core.ids import MessageId
from ..core.links import Lines, target_of
from ..core.toolbox import original, variable
from ..log.events.conversation import AgentText, Attachment, RunStop
from ..log.events.session import OthersWrote, TitleChanged
from ..log.user_message import spoken_text, unopened
from .cancellation import WorkCancelledError
from .commands import Command, CommandContext, CommandRun, Reading
from .commands.custom import CustomCommands
from .commands.table import COMMANDS, called_name, command_for, command_in, command_of
from .journal import TextStreamed
from .parts import SessionParts
from .requests import ActiveRequest, Ticket, TurnEnd, turn_end
from .session_runtime import SessionRuntime
from .turn import Stop

MOST_OPENED: Final = 200
"""Views that one prompt opens. Each is a statement that runs before the turn begins."""
MOST_SAID: Final = 20
"""Links for which the user is told why they are not opened."""


_COMPLETED: Final = RunStop(reason="completed", cause="end_turn")


class RequestServer:
    """Serve the requests of one session.

    `waiting` are the tickets behind the active one, in order. `commands` are those of files and servers.
    """

    def __init__(self, parts: SessionParts, waiting: Iterable[Ticket], commands: CustomCommands) -> None:
        self.runtime = SessionRuntime(parts, self._openings_of, self.cancel, lambda: commands.rows)
        self._commands = commands
        self._parts = parts
        self._waiting = waiting
        self._notes = parts.notes
        self._active = ActiveRequest(parts.log, None, ())

    async def serve(self, ticket: Ticket) -> TurnEnd:
        """Serve one request from its UserMessage to its RunStop; return when both are durable."""
        if ticket.said.attachments:
            with_links = not self._parts.model.is_direct and not called_name(ticket.text)
            ticket.said = await self._parts.pictures.attach(ticket.said, with_links=with_links)
        if ticket.cell:
            end = await self._run_cell(ticket, ticket.text)
        else:
            name = called_name(ticket.text) if ticket.request is None else ""
            end = await self._serve_custom(ticket, name) if name and name not in COMMANDS else None
            if end is None:
                end = await self._serve_text(ticket)
        await self._parts.journal.durable(end.seq)
        return end

    async def _serve_text(self, ticket: Ticket) -> TurnEnd:
        command, run, argument = self._command_of(ticket)
        if command is not None and run is None:
            return await self._run_cell(ticket, argument)
        return await self._serve_prompt(ticket, command, run, argument)

    def _command_of(self, ticket: Ticket) -> tuple[Command | None, CommandRun | None, str]:
        if ticket.request is not None:
            command, carry_out = command_for(ticket.request)
            request = ticket.request
            return command, lambda context, _: carry_out(context, request), ""
        command, argument = command_of(ticket.said, self._commands.names)
        return command, None if command is None else command.run, argument

    async def _serve_custom(self, ticket: Ticket, name: str) -> TurnEnd | None:
        """Serve a prompt that calls a command of a file or a server; return None if there is no such command."""
        message = ticket.message(ticket.prompt_kind, aside=True)
        self._active = ActiveRequest(self._parts.log, message, self._waiting)
        try:
            await self._active.cancellation.guard(self._commands.refresh)
            if name not in self._commands.names:
                return None
            _, argument = command_in(spoken_text(message), self._commands.names)  # a mention is the name of its file
            ticket.said = await self._active.cancellation.guard(
                lambda: self._commands.expanded(ticket.said, name, argument)
            )
        except (InvalidRequestError, WorkCancelledError) as error:
            return await self._answer(_raising(error), "", is_cancellable=False)
        return await self._serve_prompt(ticket, None, None, "")

    async def _serve_prompt(
        self, ticket: Ticket, command: Command | None, run: CommandRun | None, argument: str
    ) -> TurnEnd:
        message = ticket.message(ticket.prompt_kind, aside=command is not None and not command.is_said)
        self._active = ActiveRequest(self._parts.log, message, self._waiting)
        if command is None or not command.moves_head:
            self._active.append_message()
        if command is not None and run is not None:
            return await self._answer(run, argument, is_cancellable=command.is_cancellable)
        stop = await self._run_turn(ticket)
        return turn_end(self._parts.log, stop.cause, stop.detail, unusable=stop.unusable)

    async def _run_turn(self, ticket: Ticket) -> Stop:
        """Run the turn of a prompt whose message is on the log, to its RunStop."""
        if self._parts.policy.title is None:
            self._publish_title()
        if not self._parts.model.is_direct:
            try:
                await self._active.cancellation.guard(self._commands.refresh)
            except WorkCancelledError:
                self._parts.log.append(RunStop(reason="interrupted", cause="cancelled"))
                return Stop("cancelled")
        notes, self._notes = self._notes, ()
        self._tell((*notes, *self._commands.take_problems()))
        return await self.runtime.loop.run(self._openings_of(ticket.said.attachments), ticket.said.text)

    async def _answer(self, run: CommandRun, argument: str, *, is_cancellable: bool) -> TurnEnd:
        """Carry out a command, to its RunStop. If not `is_cancellable`, the command handles a cancel itself."""
        active = self._active
        context = CommandContext(self.runtime, active)
        stop, refused = _COMPLETED, None
        try:
            if is_cancellable:
                answer = await active.cancellation.guard(lambda: run(context, argument))
            else:
                answer = await run(context, argument)
        except (EnvironmentUnavailableError, InvalidRequestError) as error:
            answer, refused = str(error), error
            active.hide_from_models()
        except WorkCancelledError:
            answer, stop = "", RunStop(reason="interrupted", cause="cancelled")
            active.hide_from_models()
        active.append_message()
        if answer:
            self._say(answer)
        self._parts.log.append(stop)
        return turn_end(self._parts.log, stop.cause, refused=refused, result=active.result)

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
            log.append(OthersWrote(by="client"))  # first, because it decides the worker's sandbox
        try:
            opened = self.runtime.ticker.next_round("cell")
            finished = await self.runtime.statements.run(
                source,
                opened.round_id,
                None,
                self._active.cancellation,
                seconds=ticket.seconds,
                tags=ticket.tags,
                opening=(ticket.message(ticket.prompt_kind, aside=True), opened),
            )
            self.runtime.ticker.notify_change()
            is_cancelled = finished.status == "cancelled"
            stop = RunStop(reason="interrupted", cause="cancelled") if is_cancelled else _COMPLETED
        except EnvironmentUnavailableError as error:
            stop = RunStop(reason="error", cause="error", detail=str(error))
            raise
        finally:
            if len(log) > before:  # else not even its message could be recorded
                log.append(stop)
        return turn_end(log, stop.cause, execution=finished)

    # --- while a request runs -----------------------------------------------------------------------------------------

    def steer(self, ticket: Ticket) -> bool:
        """Let the running turn's next model call read the prompt.

        Returns False if no turn runs or it is ending, and for a command, which waits.
        """
        names = self._commands.names
        if ticket.request is not None or command_in(ticket.text)[0] is not None or called_name(ticket.text) in names:
            return False
        return self.runtime.loop.steer(ticket.message("steer"), ticket.said.given)

    def glance(self, text: str) -> str | Reading | None:
        """Return the answer to a command that needs no turn, or how to read it; None for any other text."""
        command, argument = command_in(text, self._commands.names)
        if command is None or command.glance is None:
            return None
        return command.glance(CommandContext(self.runtime, self._active), argument)

    def show_answer(self, message_id: MessageId, answer: str) -> None:
        """Show the user the answer of a glance, which is not recorded."""
        self._parts.journal.signal(TextStreamed(message_id, answer, aside=True), is_whole=True)

    def cancel(self) -> None:
        """End whatever runs, and give up its effect at once."""
        self.runtime.cancel_turn()
        self._active.cancellation.cancel()
        self.runtime.buffers.give_up()

    # --- texts for the user -------------------------------------------------------------------------------------------

    def _openings_of(self, attachments: Sequence[Attachment]) -> Sequence[str]:
        """Return the statements that open attachments.

        Tell the user why others are not opened.
        """
        self._tell(not_opened(attachments))
        # Variable names are made from these names. They are not texts, so the log does not redact them.
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
        """Show the user a text that no model reads."""
        message_id = self._parts.minter.message()
        self._parts.journal.signal(TextStreamed(message_id, text, aside=True), is_whole=True)
        self._parts.log.append(AgentText(message_id=message_id, text=text, aside=True))


def _raising(error: InvalidRequestError | WorkCancelledError) -> CommandRun:
    """Return a command that fails so."""

    async def run(_context: CommandContext, _argument: str) -> str:
        raise error

    return run


# --- openings of attachments ------------------------------------------------------------------------------------------


def openings(
    attachments: Sequence[Attachment], cwd: str, bound: Collection[str] = (), rebound: Collection[str] = ()
) -> list[str]:
    """Return a statement for each attachment that a view can show.

    These are local files, and text that came with the prompt. Text from the editor wins over the disk, because the
    person sees it, saved or not. An attachment is opened once, and at most `MOST_OPENED` are. Relative paths start from
    `cwd`. Names in `bound` are taken. Injected names in `rebound` may mean something else by now.
    """
    statements: list[str] = []
    taken = set(bound)
    view = original("view") if "view" in rebound else "view"
    for attachment in _openable(attachments)[:MOST_OPENED]:
        title = (attachment.name or attachment.uri).rstrip("/").rsplit("/", 1)[-1]
        name = variable(title, taken, prefix="file_", otherwise="attached")
        taken.add(name)
        statements.append(f"{name} = {view}({_source(attachment, cwd)})")
    return statements


def not_opened(attachments: Sequence[Attachment]) -> list[str]:
    """Return sentences on the attachments that are not opened.

    Each of the first few has its own; one sentence counts the others.
    """
    sentences = [sentence for sentence in map(unopened, dict.fromkeys(attachments)) if sentence is not None]
    if len(sentences) > MOST_SAID:
        sentences[MOST_SAID:] = [f"{len(sentences) - MOST_SAID:,} more links were not opened."]
    excess = len(_openable(attachments)) - MOST_OPENED
    if excess > 0:
        sentences.append(f"{excess:,} more attachments were not opened; `view(path)` opens one.")
    return sentences


def _openable(attachments: Sequence[Attachment]) -> list[Attachment]:
    files = [attachment for attachment in attachments if attachment.picture is None]
    return [attachment for attachment in _once_each(files) if unopened(attachment) is None]


def _once_each(attachments: Sequence[Attachment]) -> list[Attachment]:
    """Remove duplicates by URI and text.

    A link is dropped if its text came too.
    """
    texts = {attachment.uri for attachment in attachments if attachment.text is not None}
    kept = {
        (attachment.uri, attachment.text): attachment
        for attachment in reversed(attachments)
        if attachment.text is not None or attachment.uri not in texts
    }
    return list(reversed(kept.values()))


def _source(attachment: Attachment, cwd: str) -> str:
    """Return the arguments of `view` for an attachment that it can show."""
    target = target_of(attachment.uri)
    text = attachment.text
    if target.path is None:
        return f"text={text!r}, title={attachment.name!r}"
    arguments = [repr(posixpath.normpath(posixpath.join(cwd, target.path)))]
    lines = target.lines
    if lines is not None:
        arguments.append(f"pos={str(lines.first)!r}")
    if text is not None:
        arguments.append(f"text={text!r}")
        if lines is not None and _is_part(text, lines):
            arguments.append(f"first_line={lines.first}")
    return ", ".join(arguments)


def _is_part(text: str, lines: Lines) -> bool:
    """Return whether the text is only these lines of a file.

    The last line of a whole file is `lines.last` or later. A part has `last - first + 1` lines, fewer than `last`
    unless it is the beginning. Then both readings show the same.
    """
    return text.count("\n") + 1 < lines.last
