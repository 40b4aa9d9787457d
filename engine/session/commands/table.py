"""The slash commands: a row for each, which adapters advertise. They all work without a model.

A command uses only its context, and answers in Markdown. Called by `serving`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from ...core.errors import InvalidRequestError
from ...core.text import code_span, printable
from ...log.user_message import MAX_TEXT_CHARS, Composed, is_long_text
from ..policy import MODES, OPTIONS
from ..requests import (
    DRY_RUN,
    KEEP_CONVERSATION,
    KEEP_FILES,
    EditRequest,
    PastRequest,
    ReplayRequest,
    RewindRequest,
    SwitchRequest,
    UndoRequest,
)
from . import NO_CUSTOM, Command, CommandContext, CustomNames, glancing
from .context import (
    compact,
    context,
    context_glance,
    cost_glance,
    model_glance,
    sandbox_glance,
    tick,
    views,
    views_glance,
)
from .files import changes_glance, redo, undo, undo_or_redo
from .page import page
from .timeline import (
    branch,
    diff_glance,
    edit,
    omit,
    replay,
    rewind,
    rewind_to,
    run_again,
    run_edited,
    switch_to,
    timeline_glance,
)

_NAME: Final = re.compile(r"/[A-Za-z][A-Za-z0-9_-]{0,63}")
"""Text that is meant as a command. A path has more slashes, or dots."""
OTHERS: Final = "Prompts of files and MCP servers:"
_MOST_LISTED: Final = 12
_MOST_NEAR: Final = 3
"""The most suggestions by spelling for an unknown command."""
_SET_ELSEWHERE: Final = "Choose the {} in a menu of your editor, or with `/{}` in `rewindow run`"
_MODES: Final = f"{_SET_ELSEWHERE.format('mode', 'mode')}. The modes are {', '.join(f'`{mode}`' for mode in MODES)}."
_OPTIONS: Final = (
    f"{_SET_ELSEWHERE.format('options', 'option')}. The options are {', '.join(f'`{name}`' for name in OPTIONS)}."
)
_ELSEWHERE: Final = {
    name: advice for names, advice in (("mode modes", _MODES), ("option options", _OPTIONS)) for name in names.split()
}
"""Advice for names of settings that are not slash commands."""


def _help(context: CommandContext, _argument: str) -> str:
    own = [help_line(each.name, each.usage, each.description) for each in COMMANDS.values()]
    rows = context.runtime.custom_commands()
    others = [help_line(each.name, each.hint, printable(each.description)) for each in rows]
    return "\n".join([*own, *(("", OTHERS, "", *others) if others else ())])


def help_line(name: str, usage: str, description: str) -> str:
    """A command as `/help` lists it."""
    return f"- {code_span(f'/{name} {usage}'.rstrip())}: {description}"


COMMANDS: Final[dict[str, Command]] = {
    command.name: command
    for command in (
        Command(
            "context",
            "[N | tail]",
            "number of a model call, or tail",
            "Show the next prompt, the tokens of its parts, and how to save tokens; with N, the "
            "prompt of model call N; with tail, the whole last part",
            context,
            context_glance,
            "call",
        ),
        Command(
            "views",
            "[all]",
            "`all` for every handle",
            "List the newest handles (views of files, and groups with their members); with `all`, every handle",
            views,
            views_glance,
        ),
        Command(
            "timeline",
            "[N | N.M | --tag NAME]",
            "number of a statement, or --tag and a tag",
            "List the statements that ran; with N, show statement N and its result; with N.M, its "
            "execution M and the differences from the previous execution; with --tag, list only "
            "statements with this tag",
            glancing(timeline_glance),
            timeline_glance,
            "statement",
        ),
        Command(
            "model",
            "[NAME] [LEVEL]",
            "a model, and its thinking level",
            "Show the current model and the choices; with NAME, choose the model of the next call, "
            "and with LEVEL its thinking level: default, off, low, medium, high or max",
            glancing(model_glance),
            model_glance,
        ),
        Command(
            "cost",
            "",
            "",
            "Show the tokens and the list price of the session's model calls",
            glancing(cost_glance),
            cost_glance,
        ),
        Command(
            "sandbox",
            "",
            "",
            "Show what statements may do without asking",
            glancing(sandbox_glance),
            sandbox_glance,
        ),
        Command(
            "run",
            "STATEMENT",
            "a Python statement",
            "Run a Python statement, such as `ls()` or `readme.SetTokens(500)`, without calling a model",
            None,
            takes="source",
        ),
        Command(
            "omit",
            "[N]",
            "number of a statement",
            "Leave statement N out of the namespace, or put it back; without N, list the statements left out",
            omit,
            takes="statement",
        ),
        Command(
            "rewind",
            f"K [{KEEP_FILES}] [{KEEP_CONVERSATION}] [{DRY_RUN}]",
            "the number of a statement, 0 for the beginning",
            "Go back to the end of statement K, on a new branch; this restores the conversation, the "
            "namespace, and files that statements have written since",
            rewind,
            takes="statement",
            moves_head=True,
        ),
        Command(
            "undo",
            f"[K] [{DRY_RUN}]",
            "the number of a statement",
            "Undo only the file changes of statement K; without K, of the last statement that changed files",
            undo,
            takes="statement",
        ),
        Command(
            "redo",
            f"[{DRY_RUN}]",
            "no argument, or only to see the changes,",
            "Redo the file changes of the last undo",
            redo,
        ),
        Command(
            "changes",
            "[K]",
            "the number of a statement",
            "List the files that the session has changed, or only those changed since the end of statement K",
            glancing(changes_glance),
            changes_glance,
            "statement",
        ),
        Command(
            "branch",
            f"[NAME [{KEEP_FILES}]]",
            "name of a branch",
            "Switch to another branch, and restore its conversation, namespace and files; without a "
            "name, list the branches",
            branch,
            takes="branch",
            moves_head=True,
        ),
        Command(
            "diff",
            "A [B]",
            "the names of one or two branches",
            "Compare two branches, or one with the active branch: statements, variables and files",
            glancing(diff_glance),
            diff_glance,
            "branch",
        ),
        Command(
            "replay",
            "K [J] [--live | --dry]",
            "the number of a statement, and optionally of a later one",
            "Run statements K to J again with the recorded answers of their tools, and report "
            "differences; with --live, tools have effects again; with --dry, the replay stops before "
            "the first effect",
            replay,
            takes="statement",
            is_cancellable=False,
        ),
        Command(
            "edit",
            "K [J] [--live]",
            "the number of a statement, and on the next lines the statement to run in its place",
            "Run another statement in place of K, on a new branch, then the later statements up to J "
            "or the end, with the recorded answers of their tools; with --live, tools have effects "
            "again",
            edit,
            takes="edit",
            moves_head=True,
            is_cancellable=False,
            is_said=True,
        ),
        Command("page", "", "", "Show the session as a page in your browser", page),
        Command("compact", "", "", "Replace the conversation so far with a summary", compact),
        Command("tick", "", "", "Update handles that follow their files", tick),
        Command("help", "", "", "List these commands", glancing(_help), _help),
    )
}
"""The slash commands by name, in the order of `/help`."""


def command_for(request: PastRequest) -> tuple[Command, Callable[[CommandContext, Any], Awaitable[str]]]:
    """The command that the log shows for a request about the past, and the function that performs the request."""
    match request:
        case RewindRequest():
            return COMMANDS["rewind"], rewind_to
        case SwitchRequest():
            return COMMANDS["branch"], switch_to
        case UndoRequest(is_redo=is_redo):
            return COMMANDS["redo" if is_redo else "undo"], undo_or_redo
        case ReplayRequest():
            return COMMANDS["replay"], run_again
        case EditRequest():
            return COMMANDS["edit"], run_edited


def called_name(text: str) -> str:
    """The name behind the slash at the beginning of a text; "" if there is none."""
    first = next(iter(text.split(maxsplit=1)), "")
    return first[1:] if first.startswith("/") else ""


def command_of(said: Composed, custom: CustomNames = NO_CUSTOM) -> tuple[Command | None, str]:
    """As `command_in`, for a prompt. Refuses a statement whose text is too long for a command."""
    command, argument = command_in(said.text, custom)
    if command is not None and command.takes in ("source", "edit") and any(map(is_long_text, said.attachments)):
        return _saying(command.name, f"A statement may have at most {MAX_TEXT_CHARS:,} characters."), ""
    return command, argument


def command_in(text: str, custom: CustomNames = NO_CUSTOM) -> tuple[Command | None, str]:
    """The command that a prompt names, or None, and its argument. For one of the `custom` names it is None, too.

    An unknown name, a missing argument or one too many gives a command whose answer is the error, because a model would
    make something up. A path that exists on this machine is not a command.
    """
    first, *rest = text.split(maxsplit=1) or [""]
    argument = rest[0].strip() if rest else ""
    name = first[1:]
    if first.startswith("/") and name in COMMANDS:
        command = COMMANDS[name]
        is_wrong = bool(argument) if not command.usage else not argument and not command.usage.startswith("[")
        return (_misused(command) if is_wrong else command), argument
    if first.startswith("/") and name in custom:
        return None, argument
    if _NAME.fullmatch(first) and not os.path.lexists(first):
        return _unknown(name, custom), argument
    return None, argument


def _misused(command: Command) -> Command:
    if command.usage:
        return _saying(command.name, f"`/{command.name}` needs {command.hint}: `/{command.name} {command.usage}`.")
    return _saying(command.name, f"`/{command.name}` takes no argument.")


def _unknown(name: str, custom: CustomNames) -> Command:
    said = f"There is no command `/{name}`."
    wanted = name.lower()
    if (advice := _ELSEWHERE.get(wanted)) is not None:
        return _saying(name, f"{said} {advice}")
    # Commands that begin with the name come before those that are spelled like it.
    known = [*COMMANDS, *custom]
    begun = [each for each in known if each.startswith(wanted)]
    near = dict.fromkeys([*begun, *difflib.get_close_matches(wanted, known, _MOST_NEAR)][:_MOST_LISTED])
    if near:
        return _saying(name, f"{said} Did you mean {_listed(near, 'or')}? `/help` lists all.")
    return _saying(name, f"{said} The commands are {_listed(COMMANDS, 'and')}; `/help` describes them.")


def _listed(names: Iterable[str], word: str) -> str:
    *others, last = (f"`/{name}`" for name in names)
    return f"{', '.join(others)} {word} {last}" if others else last


def _saying(name: str, answer: str) -> Command:
    """A command that does nothing but answer with an error."""

    def glance(_context: CommandContext, _argument: str) -> str:
        return answer

    async def run(_context: CommandContext, _argument: str) -> str:
        raise InvalidRequestError(answer)

    return Command(name, "", "", answer, run, glance)
