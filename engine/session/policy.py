"""What the user decides: mode, options and remembered answers; and the questions to the user.

`Policy` is a fold over the log. It owns the defaults and the possible values, and asks no one. The agent loop reads it
before it acts. Adapters read it to show it, also as it was at an earlier event. `Questions` asks through the
`Permissions` of whoever is attached, and records question and answer. It must not know when a question is due: that is
the business of the agent loop and of `tool_calls`.

**Scopes.** A remembered answer covers more than the one question: all statements, the files below a path, commands that
begin with some words, calls of one MCP tool, reads of one MCP resource, or fetches from one site. A scope is a text on
the log.

A command is a text for a shell, so a prefix of it covers nothing: `git status; rm -rf .` begins with `git status`. So a
command is covered by its words. A program that is named by its path is covered by its place. And only if the shell
takes the words literally: no operator, expansion, substitution, comment or assignment. Any other command has no words,
and an answer covers exactly the same text in the same directory.

**Long questions.** The last line of a statement, a command or an argument matters as much as the first. If it cannot be
shown whole, it is refused. A file change may be shown in part: the user sees its beginning, its size and its path.
"""

from __future__ import annotations

import os
import re
import shlex
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import ClassVar, Final, Literal, cast, get_args

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..core.diff import text_size, within
from ..core.errors import InvalidRequestError
from ..core.execution import TextChange
from ..core.ids import ToolCallId
from ..core.text import ELLIPSIS, cut_line, printable, source_lines
from ..log.event_log import EventLog
from ..log.events import Event
from ..log.events.execution import FileTouched
from ..log.events.session import (
    ConfigChanged,
    Mode,
    ModeChanged,
    OthersWrote,
    PermissionAnswered,
    PermissionAsked,
    PermissionOutcome,
    TitleChanged,
)
from ..log.permissions import (
    ASKED_CHARS,
    READ_RESOURCE,
    CommandSubject,
    FileSubject,
    PermissionAnswer,
    PermissionQuestion,
    Permissions,
    PermissionSubject,
    RebuildSubject,
    ServerCallSubject,
    SiteSubject,
    StatementSubject,
    TreeSubject,
)
from ..log.redaction import Redactor, redact_struct

STATEMENTS: Final = "statements"
_FILES: Final = "files:"
_COMMANDS: Final = "commands in:"
"""A directory, and the words with which a command there begins."""
_SAME: Final = "command:"
"""A directory, a command in which each character counts, and whether it runs outside of the sandbox."""
_CALLS: Final = "calls:"
_READS: Final = "reads:"
"""A server, and the address of a resource."""
_SITES: Final = "sites:"
_ACTING: Final = (_COMMANDS, _SAME, _CALLS, _READS)
"""What acts with the user's rights, and may run files that a statement has made."""
_PLAIN: Final = re.compile(r"""[\w ./:,+@%='"-]+""")
"""A command of these characters means what its words say. Quotation marks are harmless without expansion."""
_ASSIGNMENT: Final = re.compile(r"\w+\+?=")
_PHRASE_CHARS: Final = 160
_MOST_CHARS: Final = 2_000
"""The longest command that is split into words. `shlex` is slow on long ones, and no one reads them."""


MODES: Final[dict[Mode, tuple[str, str]]] = {
    "ask": ("Ask", "Asks before a model changes something or runs a command"),
    "auto": ("Auto", "Statements run without asking, and may change the session's directories"),
    "plan": ("Plan", "Statements run without asking, and every change to your files is refused"),
}
"""Name and description of each mode; the first is the default."""


ON: Final = "on"
OFF: Final = "off"
NETWORK: Final = "network"
"""The values of an option that is a switch."""


class OptionRow(Struct, frozen=True, kw_only=True):
    """An option of sessions: `values` by name, each with its meaning.

    `category` is the editor protocol's, if any. With `is_open` there are more values than those.
    """

    name: str
    title: str
    text: str
    values: dict[str, str]
    default: str
    category: str | None = None
    is_open: bool = False

    @property
    def is_switch(self) -> bool:
        """Whether the values are on and off."""
        return self.values.keys() == {ON, OFF}


OPTIONS: Final[dict[str, OptionRow]] = {
    row.name: row
    for row in (
        OptionRow(
            name="while_running",
            title="While running",
            text="What happens to a prompt during a running turn",
            values={"queue": "Prompts wait for the end of the turn", "steer": "Prompts join the running turn"},
            default="queue",
        ),
        OptionRow(
            name="ask_about",
            title="Ask about",
            text="What mode Ask asks about: each model statement as a whole, or each file change and each "
            "command. Only a sandbox blocks other actions of the code",
            values={
                "by_sandbox": "Each action if there is a sandbox, else each statement",
                "statements": "Each statement, once",
                "acts": "Each action, even without a sandbox",
            },
            default="by_sandbox",
        ),
        OptionRow(
            name=NETWORK,
            title="Network",
            text="Whether sandboxed statements, and programs that they start, may use TCP and UDP",
            values={OFF: "Off", ON: "On"},
            default=OFF,
        ),
    )
}
"""The options that every session has, by name."""

_SHOWN_CHARS: Final = 60
"""Of an unknown value, in an error message."""


class OptionValues(Struct, frozen=True, kw_only=True):
    """The mode, and the value of each option that was set or is among OPTIONS.

    `rows` are all options that can be set.
    """

    mode: Mode = next(iter(MODES))
    values: dict[str, str]
    rows: tuple[OptionRow, ...] = tuple(OPTIONS.values())

    def value(self, row: OptionRow) -> str:
        """Return the value of an option."""
        return self.values.get(row.name, row.default)


_DEFAULTS: Final = OptionValues(values={row.name: row.default for row in OPTIONS.values()})


class Policy:
    """The mode, the options, the title, and the remembered answers. Only the log calls `apply`."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (ModeChanged, ConfigChanged, FileTouched, OthersWrote, PermissionAnswered, TitleChanged)
    )

    def __init__(self) -> None:
        self.title: str | None = None
        self._remembered: dict[str, bool] = {}
        self._changed_at: list[int] = [-1]
        self._history = [_DEFAULTS]

    def apply(self, event: Event) -> None:
        match event:
            case ModeChanged(mode=mode):
                self._change(event, OptionValues(mode=mode, values=self.options.values))
            case ConfigChanged(option=option, value=value):
                self._change(event, OptionValues(mode=self.mode, values={**self.options.values, option: value}))
            case PermissionAnswered(scope=scope, outcome=outcome, remembered=True):
                self._remembered.pop(scope, None)
                self._remembered[scope] = outcome == "allowed"
            case FileTouched(found=True):  # other programs run it, and the user has not seen it yet
                self._remembered = {
                    scope: allowed
                    for scope, allowed in self._remembered.items()
                    if not (allowed and scope.startswith(_ACTING))
                }
            case OthersWrote(by="import"):  # it is unknown whose decisions these were
                self._remembered.clear()
                self._change(event, _DEFAULTS)
            case TitleChanged(title=title):
                self.title = title
            case _:
                pass

    def _change(self, event: Event, options: OptionValues) -> None:
        self._changed_at.append(event.seq)
        self._history.append(options)

    @property
    def options(self) -> OptionValues:
        """The current mode and options."""
        return self._history[-1]

    def options_at(self, seq: int) -> OptionValues:
        """Return the mode and options just after the event at `seq`."""
        return self._history[bisect_right(self._changed_at, seq) - 1]

    @property
    def mode(self) -> Mode:
        return self.options.mode

    def option(self, name: str) -> str:
        """Return the value of an option."""
        return self.options.values[name]

    def asks_about(self, *, sandboxed: bool) -> Literal["statements", "acts"] | None:
        """Return what the user is asked about before a model does it, or None.

        By default this depends on the sandbox: `sandboxed` statements can change files only through tool calls.
        """
        if self.mode != "ask":
            return None
        match self.option("ask_about"):
            case "acts":
                return "acts"
            case "by_sandbox" if sandboxed:
                return "acts"
            case _:
                return "statements"

    def remembered(self, subject: PermissionSubject) -> bool | None:
        """Return the latest remembered answer that covers the subject, or None."""
        return next((allowed for scope, allowed in reversed(self._remembered.items()) if covers(scope, subject)), None)


def known_mode(mode: str) -> Mode:
    """Return the mode of that name. Raises InvalidRequestError."""
    for known in get_args(Mode):
        if mode == known:
            return known
    raise InvalidRequestError(f"there is no mode {_shown(mode)}; the modes are {', '.join(MODES)}")


def check_option(name: str, value: str) -> None:
    """Raise InvalidRequestError for an unknown option or value."""
    if name not in OPTIONS:
        raise InvalidRequestError(f"there is no option {_shown(name)}; the options are mode, {', '.join(OPTIONS)}")
    values = OPTIONS[name].values
    if value not in values:
        raise InvalidRequestError(f"{name} cannot be {_shown(value)}; use one of {', '.join(values)}")


def _shown(text: str) -> str:
    return cut_line(repr(text), _SHOWN_CHARS)


# --- questions --------------------------------------------------------------------------------------------------------

_NAMES: dict[type[PermissionSubject], str] = {
    RebuildSubject: "rebuild",
    StatementSubject: "statement",
    FileSubject: "change",
    TreeSubject: "change",
    CommandSubject: "command",
    ServerCallSubject: "call",
    SiteSubject: "address",
}

REASON_CHARS: Final = 2_000
"""Characters of the user's reason that a model reads."""
NOT_LEGIBLE: Final = (
    "The user was not asked about this {}: it contains a secret with quotation marks, line breaks or escapes, and a "
    "question cannot show these."
)
HIDDEN_QUOTING: Final = "the text adds a secret with quotation marks, line breaks or escapes, which *** also hides"
_NOBODY: Final = "This {} needs permission, but no user can be asked here, so it was not done."


class Verdict(Struct, frozen=True):
    """A decision. `reason` tells the model why it was not allowed. `rest` also allows the statement's later file
    changes."""

    outcome: PermissionOutcome
    reason: str = ""
    rest: bool = False


class Questions:
    """The questions of one session. `permissions` asks the user; without it the answer is no."""

    def __init__(self, log: EventLog, policy: Policy, redactor: Redactor, roots: tuple[str, ...]) -> None:
        self._log = log
        self._policy = policy
        self._redactor = redactor
        self._roots = roots
        self.permissions: Permissions | None = None

    async def decide(
        self, call: ToolCallId, subject: PermissionSubject, *, rest: bool = False, again: bool = False
    ) -> Verdict:
        """Return whether the call may do this.

        With `rest` the user may allow more, as in the question. With `again` no remembered "yes" counts.
        """
        allowed = self._policy.remembered(subject)
        if allowed and again:
            allowed = None
        name = _NAMES[type(subject)]
        if allowed is None:
            text = _text_of(subject)
            if len(text) > ASKED_CHARS:
                return Verdict("rejected", _too_long(name, len(text)))
            if self._hides_quoting(subject, text):
                return Verdict("rejected", NOT_LEGIBLE.format(name))
            answer = await self._ask(call, subject, rest)
        else:
            answer = PermissionAnswer(outcome="allowed" if allowed else "rejected")
        if answer.outcome == "allowed":
            return Verdict("allowed", rest=answer.rest)
        is_said = f"The user rejected this {name}{self._why(answer)}." if answer.asked else _NOBODY.format(name)
        if isinstance(subject, FileSubject | TreeSubject) and subject.protected:
            is_said += f" Every mode asks about this, because {subject.protected}."
        return Verdict(answer.outcome, is_said)

    def _why(self, answer: PermissionAnswer) -> str:
        """Return the user's reason without secrets, as the end of a sentence."""
        reason = " ".join(self._redactor.redact(cut_line(answer.reason, REASON_CHARS)).split())
        return f": {reason.rstrip('.')}" if reason else ""

    def remembered(self, subject: PermissionSubject) -> bool | None:
        """Return the remembered answer that covers the subject, or None."""
        return self._policy.remembered(subject)

    async def _shown(self, subject: PermissionSubject) -> PermissionSubject:
        """Return the subject without secrets, and a change shortened."""
        if isinstance(subject, FileSubject | TreeSubject) and text_size(subject.changes) > ASKED_CHARS:
            # On a thread, because redacting a large text takes time.
            changes, note = await anyio.to_thread.run_sync(
                shown_part, self._redactor, subject.changes, subject.note, ASKED_CHARS
            )
            subject = replace(subject, changes=changes, note=note)
        if isinstance(subject, FileSubject | TreeSubject) and await self._adds_hidden_quoting(subject.changes):
            subject = replace(subject, note="\n".join(filter(None, (subject.note, HIDDEN_QUOTING))))
        return redact_struct(self._redactor, subject)

    def _hides_quoting(self, subject: PermissionSubject, text: str) -> bool:
        """Return whether a question about it would hide how a secret is quoted."""
        if not self._redactor or isinstance(subject, SiteSubject):
            return False
        texts = strings_in(text) if isinstance(subject, ServerCallSubject) else [text]
        return any(map(self._hidden_quoting, texts))

    async def _adds_hidden_quoting(self, changes: Sequence[TextChange]) -> bool:
        """Return whether changed lines hide how a secret is quoted. Lines that stay are in both texts."""
        if not self._redactor:
            return False
        return await anyio.to_thread.run_sync(lambda: any(map(self._hides_more, changes)))  # on a thread, as above

    def _hides_more(self, change: TextChange) -> bool:
        old = change.old or ""
        if not (hidden := self._hidden_quoting(change.new)):
            return False
        added = {*change.new.splitlines()}.difference(old.splitlines())
        return bool(hidden - self._hidden_quoting(old)) or any(map(self._hidden_quoting, added))

    def _hidden_quoting(self, text: str) -> Counter[bytes]:
        """Return what a question would hide. What is shown has escapes for some characters, and is redacted again."""
        hidden = self._redactor.hidden_quoting
        return hidden(text) + hidden("\n".join(source_lines(text)))

    async def _ask(self, call: ToolCallId, subject: PermissionSubject, rest: bool) -> PermissionAnswer:
        shown = await self._shown(subject)
        scope = scope_of(subject, self._roots)
        if shown != subject and scope != scope_of(shown, self._roots):
            scope = ""
        always = phrase(scope, self._roots[0])
        if ELLIPSIS in always:  # nobody can allow always what is not named whole
            scope = always = ""
        seq = self._log.append(PermissionAsked(tool_call_id=call, scope=scope))
        # An interrupted wait counts as cancelled.
        nobody = self.permissions is None
        answer = PermissionAnswer(outcome="rejected" if nobody else "cancelled", asked=not nobody)
        try:
            if self.permissions is not None:
                question = PermissionQuestion(tool_call_id=call, subject=shown, seq=seq, always=always, rest=rest)
                answer = await self.permissions.ask(question)
                answer = replace(answer, rest=answer.rest and rest and answer.outcome == "allowed")
        finally:
            remembered = answer.remember and bool(scope)
            event = PermissionAnswered(tool_call_id=call, scope=scope, outcome=answer.outcome, remembered=remembered)
            self._log.append(replace(event, rest=answer.rest))
        return answer


def _text_of(subject: PermissionSubject) -> str:
    """Return the text that a question must show whole."""
    match subject:
        case RebuildSubject() | FileSubject() | TreeSubject():
            return ""  # the question counts what it does not show
        case StatementSubject(source=text) | CommandSubject(command=text) | SiteSubject(url=text):
            return text
        case ServerCallSubject(arguments=text):
            return text


def strings_in(arguments: str) -> Iterator[str]:
    """Yield the strings in JSON, the keys of objects too; the text itself if it is not JSON."""
    try:
        waiting: list[object] = [msgspec.json.decode(arguments)]
    except msgspec.DecodeError:
        waiting = [arguments]
    while waiting:
        match found := waiting.pop():
            case str():
                yield found
            case list():
                waiting += cast("list[object]", found)
            case dict():
                waiting += chain.from_iterable(cast("dict[str, object]", found).items())
            case _:
                pass


def _too_long(name: str, size: int) -> str:
    return (
        f"The user was not asked about this {name}: it has {size:,} characters, and a question shows at most "
        f"{ASKED_CHARS:,}. Split it up."
    )


def shown_part(
    redactor: Redactor, changes: Sequence[TextChange], note: str, limit: int
) -> tuple[tuple[TextChange, ...], str]:
    """Return changes and note as far as they are shown or saved: up to `limit` characters.

    Slow for a large text.
    """
    if text_size(changes) > limit:
        changes = [redact_struct(redactor, each) for each in changes]
    return within(changes, note, limit)


# --- scopes: what a remembered answer covers --------------------------------------------------------------------------


def scope_of(subject: PermissionSubject, roots: tuple[str, ...]) -> str:
    """Return what a remembered answer would cover; empty if only this subject.

    For a file it is the directory, or the file alone if the directory is a root of the workspace.
    """
    match subject:
        case RebuildSubject():
            return ""
        case FileSubject() | TreeSubject() if subject.protected:
            return ""
        case StatementSubject(note=note):
            return "" if note else STATEMENTS
        case FileSubject(path=path):
            directory = os.path.dirname(path)
            return _FILES + (path if directory in map(os.path.realpath, roots) else os.path.join(directory, ""))
        case TreeSubject(paths=paths):
            scopes = {scope_of(FileSubject(path=path), roots) for path in paths}
            return scopes.pop() if len(scopes) == 1 else ""
        case CommandSubject():
            words = _placed_words(subject)
            return _COMMANDS + msgspec.json.encode([subject.cwd, *words]).decode() if words else _same(subject)
        case ServerCallSubject(server=server, tool=tool, arguments=text) if tool == READ_RESOURCE:
            address = _address(text)
            return _READS + msgspec.json.encode([server, address]).decode() if address else ""
        case ServerCallSubject(server=server, tool=tool):
            return _CALLS + msgspec.json.encode([server, tool]).decode()
        case SiteSubject(site=site):
            return _SITES + site


def covers(scope: str, subject: PermissionSubject) -> bool:
    """Return whether an answer with this scope covers the subject."""
    match subject:
        case RebuildSubject():
            return False
        case FileSubject() | TreeSubject() if subject.protected:
            return False  # because the user decides about protected files each time
        case StatementSubject(note=note):
            return scope == STATEMENTS and not note
        case FileSubject(path=path):
            prefix = scope.removeprefix(_FILES)
            return scope.startswith(_FILES) and (path == prefix or (prefix.endswith("/") and path.startswith(prefix)))
        case TreeSubject(paths=paths):
            return bool(paths) and all(covers(scope, FileSubject(path=path)) for path in paths)
        case ServerCallSubject() | SiteSubject():
            return scope == scope_of(subject, ())
        case CommandSubject():
            if scope.startswith(_SAME):
                return scope == _same(subject)
            if not scope.startswith(_COMMANDS) or (words := _placed_words(subject)) is None:
                return False
            place, *prefix = msgspec.json.decode(scope.removeprefix(_COMMANDS), type=list[str])
            return place == subject.cwd and words[: len(prefix)] == prefix


def phrase(scope: str, cwd: str) -> str:
    """Describe the scope in a few words, as the object of "allow".

    Paths below `cwd` are relative.
    """
    if scope == STATEMENTS:
        return "all statements of this session"
    if scope.startswith(_FILES):
        path = scope.removeprefix(_FILES)
        inside = path.startswith(f"{os.path.realpath(cwd)}/")
        shown = path.removeprefix(f"{os.path.realpath(cwd)}/") if inside else path
        return f"changes of {cut_line(shown, _PHRASE_CHARS)}"
    if scope.startswith(_CALLS):
        server, tool = msgspec.json.decode(scope.removeprefix(_CALLS), type=tuple[str, str])
        return f"calls of {cut_line(printable(tool), _PHRASE_CHARS)} of the MCP server {printable(server)}"
    if scope.startswith(_READS):
        server, address = msgspec.json.decode(scope.removeprefix(_READS), type=tuple[str, str])
        return f"reads of {cut_line(printable(address), _PHRASE_CHARS)} from the MCP server {printable(server)}"
    if scope.startswith(_SITES):
        return f"fetches from {cut_line(printable(scope.removeprefix(_SITES)), _PHRASE_CHARS)}"
    if scope.startswith(_SAME):
        _, command, _ = msgspec.json.decode(scope.removeprefix(_SAME), type=tuple[str, str, bool])
        return f"exactly this command: {cut_line(printable(command), _PHRASE_CHARS)}"
    if scope.startswith(_COMMANDS):
        place, *words = msgspec.json.decode(scope.removeprefix(_COMMANDS), type=list[str])
        here = f"{os.path.realpath(cwd)}/"
        if words[0].startswith(here):
            words[0] = f"./{words[0].removeprefix(here)}"
        where = "" if f"{place}/" == here else f" in {cut_line(printable(place.removeprefix(here)), _PHRASE_CHARS)}"
        return f"commands that begin with {cut_line(shlex.join(words), _PHRASE_CHARS)}{where}"
    return ""


class _Read(Struct, forbid_unknown_fields=True):
    uri: str = ""


def _address(arguments: str) -> str:
    """Return the address of a resource that would be read; empty if there is none, or if it is too long."""
    with suppress(msgspec.DecodeError):
        address = msgspec.json.decode(arguments, type=_Read).uri
        return address if len(address) <= _MOST_CHARS else ""
    return ""


def _same(subject: CommandSubject) -> str:
    """Return the scope of exactly this command; empty if it is too long."""
    if len(subject.command) > _MOST_CHARS or not subject.command.strip():
        return ""
    return _SAME + msgspec.json.encode([subject.cwd, subject.command, subject.outside]).decode()


def _placed_words(subject: CommandSubject) -> list[str] | None:
    """Return the command's words; a relative program path becomes absolute.

    `./check` is another program in each directory.
    """
    words = words_of(subject.command)
    if words and "/" in words[0]:
        while words[0].startswith("./"):
            words[0] = words[0][2:].lstrip("/")
        words[0] = os.path.join(subject.cwd, words[0])
    return words


def words_of(command: str) -> list[str] | None:
    """Return the words of a command that is only a program and its arguments, else None."""
    if len(command) > _MOST_CHARS or not _PLAIN.fullmatch(command):
        return None
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return None if not words or not words[0] or _ASSIGNMENT.match(words[0]) else words
