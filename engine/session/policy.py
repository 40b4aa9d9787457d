"""What the user has decided for a session: mode, options, remembered permissions, title. A fold over its log.

Owns defaults and which values there are. Must not ask anybody. Read by the loop before it acts, and by adapters that
show it, who may be behind the log and ask how it was at the event that they show.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import ClassVar, Final, Literal, get_args

from msgspec import Struct

from ..core.errors import InvalidRequestError
from ..core.text import cut_line
from ..log.events import Event
from ..log.events.session import ConfigChanged, Mode, ModeChanged, OthersWrote, PermissionAnswered, TitleChanged
from ..log.permissions import PermissionSubject
from .scopes import covers

MODES: Final[dict[Mode, tuple[str, str]]] = {
    "ask": ("Ask", "Asks before a model changes something or runs a command"),
    "auto": ("Auto", "Statements run without asking, and may change the session's directories"),
    "plan": ("Plan", "Statements run without asking, and every change to your files is refused"),
}
"""Name and description of each mode, the default first."""

OPTIONS: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "while_running": (
        "While running",
        "What happens to a prompt that comes while a turn is running",
        {"queue": "It waits for its own turn", "steer": "It joins the turn that is running"},
    ),
    "ask_about": (
        "Ask about",
        "What the mode Ask asks about: each statement that a model wrote, with everything that it does, or each "
        "file that it writes and each command that it runs. Only a sandbox holds back what else its code does",
        {
            "by_sandbox": "Each act if there is a sandbox, else each statement",
            "statements": "Each statement, once",
            "acts": "Each act, sandbox or not",
        },
    ),
    "network": (
        "Network",
        "Whether statements in the sandbox, and what they start, may use TCP",
        {"off": "Off", "on": "On"},
    ),
}
"""Name, description and values of each further option, the default value first."""

_SHOWN_CHARS: Final = 60
"""Of a value that there is not."""


class OptionValues(Struct, frozen=True, kw_only=True):
    """The mode, and the value of each row of OPTIONS."""

    mode: Mode = next(iter(MODES))
    values: dict[str, str]


_DEFAULTS: Final = OptionValues(values={name: next(iter(values)) for name, (_, _, values) in OPTIONS.items()})


class Policy:
    """The decisions so far. `apply` is for the log alone."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (ModeChanged, ConfigChanged, OthersWrote, PermissionAnswered, TitleChanged)
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
            case OthersWrote(by="import"):  # whose decisions these were, nobody knows
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
        """Mode and options in force."""
        return self._history[-1]

    def options_at(self, seq: int) -> OptionValues:
        """Mode and options as they were when the event at `seq` had been taken."""
        return self._history[bisect_right(self._changed_at, seq) - 1]

    @property
    def mode(self) -> Mode:
        return self.options.mode

    def option(self, name: str) -> str:
        """The value of an option."""
        return self.options.values[name]

    def asks_about(self, *, held: bool) -> Literal["statements", "acts"] | None:
        """What the user is asked about before a model does it; None in modes that do not ask.

        With the default option that depends on whether statements are `held`: then they can do nothing but ask.
        """
        if self.mode != "ask":
            return None
        match self.option("ask_about"):
            case "acts":
                return "acts"
            case "by_sandbox" if held:
                return "acts"
            case _:
                return "statements"

    def remembered(self, subject: PermissionSubject) -> bool | None:
        """What the latest remembered answer that covers it says; None where there is none."""
        return next((allowed for scope, allowed in reversed(self._remembered.items()) if covers(scope, subject)), None)


def known_mode(mode: str) -> Mode:
    """`mode`, if there is such a one. Raises InvalidRequestError."""
    for known in get_args(Mode):
        if mode == known:
            return known
    raise InvalidRequestError(f"there is no mode {_shown(mode)}; the modes are {', '.join(MODES)}")


def check_option(name: str, value: str) -> None:
    """Raises InvalidRequestError for an option or a value that there is not."""
    if name not in OPTIONS:
        raise InvalidRequestError(f"there is no option {_shown(name)}; the options are mode, {', '.join(OPTIONS)}")
    values = OPTIONS[name][2]
    if value not in values:
        raise InvalidRequestError(f"{name} cannot be {_shown(value)}; it is one of {', '.join(values)}")


def _shown(text: str) -> str:
    return cut_line(repr(text), _SHOWN_CHARS)
