"""What the user has decided for a session: mode, options, remembered permissions, title. A fold over its log.

Owns defaults and which values there are. Must not ask anybody. Read by the loop before it acts and by adapters that
show it.
"""

from __future__ import annotations

from typing import Final, get_args

from ..errors import InvalidRequestError
from ..events import Event
from ..events.session import ConfigChanged, Mode, ModeChanged, PermissionAnswered, TitleChanged

MODES: Final[dict[Mode, tuple[str, str]]] = {
    "ask": ("Ask", "Every statement that a model wrote asks before it runs"),
    "auto": ("Auto", "Statements run without asking"),
    "plan": ("Plan", "Statements run without asking, but whatever would change something outside is refused"),
}
"""Name and description of each mode, the default first."""

OPTIONS: Final[dict[str, tuple[str, str, dict[str, str]]]] = {
    "while_running": (
        "While running",
        "What a prompt does that comes while a turn is running",
        {"queue": "Wait for its own turn", "steer": "Join the turn that is running"},
    ),
}
"""Name, description and values of each further option, the default value first."""

STATEMENTS: Final = "statements"
"""The scope of a remembered permission for model-written statements."""


class Policy:
    """The decisions so far. `apply` is for the log alone."""

    def __init__(self) -> None:
        self.mode: Mode = "ask"
        self.title: str | None = None
        self._options = {name: next(iter(values)) for name, (_, _, values) in OPTIONS.items()}
        self._remembered: dict[str, bool] = {}

    def apply(self, event: Event) -> None:
        match event:
            case ModeChanged(mode=mode):
                self.mode = mode
            case ConfigChanged(option=option, value=value):
                self._options[option] = value
            case PermissionAnswered(scope=scope, outcome=outcome, remembered=True):
                self._remembered[scope] = outcome == "allowed"
            case TitleChanged(title=title):
                self.title = title
            case _:
                pass

    def option(self, name: str) -> str:
        """The value of an option."""
        return self._options[name]

    def decided(self, scope: str) -> bool | None:
        """What a remembered answer says; None where the user has to be asked."""
        if self.mode != "ask":
            return True
        return self._remembered.get(scope)


def checked_mode(mode: str) -> Mode:
    """Raises InvalidRequestError for a mode that there is not."""
    for known in get_args(Mode):
        if mode == known:
            return known
    raise InvalidRequestError(f"there is no mode {mode!r}; there is {', '.join(MODES)}")


def checked_option(name: str, value: str) -> None:
    """Raises InvalidRequestError for an option or a value that there is not."""
    if name not in OPTIONS:
        raise InvalidRequestError(f"there is no option {name!r}; there is mode, {', '.join(OPTIONS)}")
    values = OPTIONS[name][2]
    if value not in values:
        raise InvalidRequestError(f"{name} cannot be {value!r}; it is one of {', '.join(values)}")
