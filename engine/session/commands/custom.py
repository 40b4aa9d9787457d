"""Slash commands that are not ours: files of the project and the user, skills, and prompts of MCP servers.

Owns which there are, and the text that a model reads when one is called. Such a command is a prompt: its message keeps
what was typed, with the text beside it on the log, so a load needs neither file nor server. Rewindow's own come first,
then files, then skills; the name of a server's prompt has its module. Must not know how a request is served. Made by
the queue, so that editors can list commands before the first request.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

import anyio.to_thread
from msgspec.structs import replace

from ...core.errors import InvalidRequestError
from ...core.text import code_span, cut_end, printable
from ...files.prompt_files import PromptFile, UnusableFileError, filled, split_words, text_of
from ...log.user_message import Composed
from ..guidance import files_for
from ..journal import CommandRow, CommandsListed
from ..parts import SessionParts
from . import CustomNames
from .table import COMMANDS

if TYPE_CHECKING:
    from ..servers import SessionServers

TEXT_CHARS: Final = 40_000
"""How much of a file a model reads in the prompt. A view has the rest."""
SKILL_TEXT: Final = "The user calls the skill {name}, whose files are in {folder}. Its instructions:\n\n{text}"
NEEDS_MODEL: Final = (
    "`/{name}` is a prompt for a language model, but this session runs your input as Python; `/model` lists models."
)
TAKEN: Final = "{path} cannot be called as `/{name}`, because Rewindow has a command of this name."


class CustomCommands:
    """The commands of one session, as they were when it last looked."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._files: dict[str, PromptFile] = {}
        self._rows: tuple[CommandRow, ...] = ()
        self._problems: dict[str, None] = {}
        self._told: set[str] = set()
        if parts.servers is not None:
            parts.servers.prompts_changed = self._publish

    @property
    def rows(self) -> tuple[CommandRow, ...]:
        """The commands for lists, those of the project first."""
        return self._rows

    @property
    def names(self) -> CustomNames:
        servers = self._parts.servers
        if servers is None:
            return CustomNames(frozenset(self._files))
        return CustomNames(frozenset((*self._files, *servers.prompts)), frozenset(servers.modules))

    def take_problems(self) -> Collection[str]:
        """Return sentences about files that cannot be used, each once."""
        new = [problem for problem in self._problems if problem not in self._told]
        self._told.update(new)
        return new

    async def refresh(self) -> None:
        """Look at the files again, and publish the commands if they changed."""
        found = await anyio.to_thread.run_sync(files_for, self._parts, abandon_on_cancel=True)
        files: dict[str, PromptFile] = {}
        self._problems = dict.fromkeys(found.problems)
        for file in (*found.commands, *(skill for skill in found.skills if skill.for_people)):
            if file.name in COMMANDS:
                self._problems[TAKEN.format(path=printable(file.path), name=file.name)] = None
            else:
                files.setdefault(file.name, file)
        self._files = files
        self._publish()

    def _publish(self) -> None:
        redact, servers = self._parts.redactor.redact, self._parts.servers
        found = [(each.name, each.hint, each.description) for each in self._files.values()]
        if servers is not None:
            found += [(name, each.usage, each.description or each.name) for name, each in servers.prompts.items()]
        rows = tuple(CommandRow(redact(name), redact(hint), redact(about)) for name, hint, about in found)
        if rows != self._rows:
            self._rows = rows
            self._parts.journal.signal(CommandsListed(rows))

    async def expanded(self, said: Composed, name: str, argument: str) -> Composed:
        """Return the prompt with the text of the command that it calls.

        Raises:
            InvalidRequestError: the session has no model, or the file or the server cannot be used now.
        """
        if self._parts.model.is_direct:
            raise InvalidRequestError(NEEDS_MODEL.format(name=name))
        file = self._files.get(name)
        if file is None and self._parts.servers is not None:
            return await self._of_server(self._parts.servers, said, name, argument)
        if file is None:
            raise InvalidRequestError(f"There is no command `/{name}` any more.")
        try:
            text = await anyio.to_thread.run_sync(text_of, file)
        except UnusableFileError as error:
            raise InvalidRequestError(f"{code_span(printable(file.path))} cannot be used: {error}.") from None
        text = cut_end(text, TEXT_CHARS, f"in {file.path}")
        if file.kind == "skill":
            folder = file.path.rpartition("/")[0]
            text = SKILL_TEXT.format(name=file.name, folder=folder, text=text)
        return replace(said, expansion=filled(text, argument))

    async def _of_server(self, servers: SessionServers, said: Composed, name: str, argument: str) -> Composed:
        module, _, prompt = name.partition(":")
        try:
            text, attachments = await servers.prompt(module, prompt, split_words(argument))
        except (ValueError, ConnectionError, TimeoutError, RuntimeError) as error:
            raise InvalidRequestError(f"{error}.") from None
        if not text and not attachments:
            raise InvalidRequestError(f"The prompt `/{name}` is empty.")
        # The order of what was typed leaves out what the server embeds, so a load shows the prompt as it was typed.
        content = said.content or (said.text, *range(len(said.attachments)))
        return replace(
            said, expansion=text or said.text, content=content, attachments=(*said.attachments, *attachments)
        )
