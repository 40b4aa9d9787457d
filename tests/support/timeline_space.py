"""A namespace in plain Python, in which the statements of a random session are executed beside it."""

from __future__ import annotations

import builtins
from ast import literal_eval
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final, Literal

from tests.support.timeline_world import World

Status = Literal["ok", "error", "cancelled", "timeout"]

DRAWN: Final = ("urandom", "time_ns")
"""What gives something else each time."""
OWN: Final = ("open", "open to write", *DRAWN)
"""What a statement asks without a tool, so that nothing of it is recorded."""
BEGUN: Final = "begun"
STOPS: Final = f"; print('{BEGUN}', end='')\nwhile True: pass"
REFUSED: Final = "ReplayEffect"
_LOOP: Final = "\nwhile True: pass"
_REJECTED: Final = "The user rejected this change."
_NOT_SHOWN: Final = ("read", "write", "view", "group", "__builtins__", "_")
"""Names that no statement binds, and one that a statement which fails in the middle leaves."""


class RefusedError(Exception):
    """A statement asked for something that nobody may do for it."""


@dataclass(frozen=True)
class Ask:
    """What a statement asked of a tool, or looked at by itself, and what it got."""

    what: str
    argument: str
    answer: str


@dataclass(frozen=True)
class Outcome:
    """What one execution came to. `bound` are names that it left with another content, `after` all that there are."""

    status: Status
    exception: str
    stdout: str
    bound: Mapping[str, str]
    after: Mapping[str, str]
    deleted: frozenset[str]
    asked: tuple[Ask, ...]


class View:
    """A window on a file: it shows what that held when it was made or told to run, or at the last tick since then."""

    def __init__(self, path: str, look: Callable[[], str]) -> None:
        self.path = path
        self._look = look
        self.text: str | None = look()
        """None where it is what some tick on other values has left."""
        self.is_running = False

    def Run(self) -> View:
        self.is_running = True
        self.text = self._look()
        return self

    def Pause(self) -> View:
        self.is_running = False
        return self

    def tick(self, files: Mapping[str, str] | None) -> None:
        if self.is_running:
            self.text = None if files is None else files.get(self.path)

    def __repr__(self) -> str:
        return f"<view {self.path} {'running Sync' if self.is_running else 'paused'} lod=0 tokens=2000>"


class Group:
    """What `group` makes of views."""

    def __init__(self, *members: View) -> None:
        self.members = members


class Space:
    """A namespace in which statements are executed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._acts = True
        """On the world; else it is answered as it was the first time, with nothing written."""
        self._is_edit = False
        """It may look at the world, and not change it."""
        self._is_asked_about = False
        self._left: list[Ask] = []
        self._asked: list[Ask] = []
        self._drawn: Mapping[str, str] = {}
        self._stale = ""
        """Why a file is not written that others have changed since the statements of this path wrote it."""
        self._views: list[View] = []
        own = {**vars(builtins), "open": self._open, "__import__": self._import}
        tools = {"read": self._read, "write": self._write, "view": self._view, "group": Group}
        self.names: dict[str, Any] = {"__builtins__": own, **tools}

    def shown(self) -> dict[str, str]:
        """What each name is bound to, as text, as far as two executions are compared by it."""
        return {name: shown(value) for name, value in sorted(self.names.items()) if name not in _NOT_SHOWN}

    def all_shown(self) -> dict[str, str]:
        """The same with the members of groups."""
        groups = {name: value.members for name, value in self.names.items() if isinstance(value, Group)}
        return self.shown() | {name: f"group of {members}" for name, members in groups.items()}

    def views(self) -> dict[str, View]:
        """Those that a name is bound to."""
        return {name: value for name, value in self.names.items() if isinstance(value, View)}

    def followed(self) -> Mapping[str, str]:
        """What the files hold now that views follow which a name or a group has. Only these look at a tick."""
        groups = [value.members for value in self.names.values() if isinstance(value, Group)]
        views = [*self.views().values(), *(view for members in groups for view in members)]
        return {view.path: self._world.files[view.path] for view in views if view.is_running}

    def tick(self, files: Mapping[str, str] | None) -> None:
        """Views that run show these contents from now on; None where nobody can say which, as for a file not told."""
        for view in self._views:
            view.tick(files)

    def stopped(self, outcome: Outcome) -> Outcome:
        """Of a statement that was stopped, what it had changed is known."""
        self.names |= {name: literal_eval(text) for name, text in outcome.bound.items()}
        return outcome

    def again(self, source: str, outcome: Outcome) -> Outcome:
        """Executes a statement with what it was answered."""
        self._acts = False
        return self._execute(source, outcome.status, outcome.asked)

    def now(
        self, source: str, status: Status, drawn: Mapping[str, str], *, asks: bool = False, stale: str = ""
    ) -> Outcome:
        """Executes one that acts on the world.

        Args:
            drawn: by what it came from, what was drawn for it.
            asks: whether the user is asked about what it writes with a tool.
            stale: the error that it got where it would have written over what it has not seen, empty for none.
        """
        self._acts, self._drawn, self._is_asked_about, self._stale = True, drawn, asks, stale
        return self._execute(source, status, ())

    def instead(self, source: str, status: Status, drawn: Mapping[str, str], recorded: Sequence[Ask]) -> Outcome:
        """Executes one that stands in the place of another, which was given those answers, and may not act."""
        self._acts, self._drawn, self._is_asked_about, self._is_edit = True, drawn, False, True
        try:
            return self._execute(source, status, recorded)
        finally:
            self._is_edit = False

    def _execute(self, source: str, status: Status, recorded: Sequence[Ask]) -> Outcome:
        before = self.shown()
        self._left, self._asked = list(recorded), []
        printed, exception = StringIO(), ""
        with redirect_stdout(printed):
            try:
                exec(compile(source.removesuffix(_LOOP), "<model>", "exec"), self.names)
            except RefusedError as error:
                exception = f"{REFUSED}: {error}"
            except Exception as error:
                exception = f"{type(error).__name__}: {error}"
        after = self.shown()
        return Outcome(
            status=status if status in ("cancelled", "timeout") else "error" if exception else "ok",
            exception=exception,
            stdout=printed.getvalue(),
            bound={name: text for name, text in after.items() if before.get(name) != text},
            after=after,
            deleted=frozenset(before.keys() - after.keys()),
            asked=tuple(self._asked),
        )

    # --- what statements ask ------------------------------------------------------------------------------------------

    def _read(self, path: str) -> str:
        return self._answered("read", path, lambda: self._world.files[path])

    def _view(self, path: str) -> View:
        view = View(path, lambda: self._answered("view", path, lambda: self._world.files[path]))
        self._views.append(view)
        return view

    def _write(self, path: str, text: str) -> None:
        def write() -> str:
            if self._is_edit:
                raise RefusedError("write")
            present = self._world.files.get(path)
            is_new = present != text  # else there is nothing to be asked about
            if self._stale:
                assert is_new
                assert present is not None
                return self._stale
            if self._is_asked_about and is_new and not self._world.allows:
                return _REJECTED
            self._world.files[path] = text
            return ""

        if error := self._answered("write", f"{path}={text}", write):
            raise (PermissionError if error == _REJECTED else OSError)(error)

    def _open(self, path: str, mode: str = "r") -> Any:
        if mode == "r":
            return _Open(read=lambda: self._answered("open", path, lambda: self._world.files[path]))
        return _Open(land=lambda text: self._write(path, text))

    def _import(self, name: str, *_: object) -> Any:
        assert name in ("os", "pathlib", "time"), name
        return _Module(lambda what: self._answered(what, "", lambda: self._drawn[what]), self._write_by_itself)

    def _write_by_itself(self, path: str, text: str) -> int:
        self._check_may_open(path)
        if self._acts:
            self._world.files[path] = text
        self._asked.append(Ask("open to write", path, text))
        return len(text)

    def _check_may_open(self, path: str) -> None:
        """Nothing is opened to write in an edit that does not act, nor when what ran in one runs again."""
        refused = Ask("refused", path, "")
        if self._is_edit or refused in self._left:
            self._asked.append(refused)
            raise RefusedError("open")

    def _answered(self, what: str, argument: str, act: Callable[[], str]) -> str:
        found = next((each for each in self._left if (each.what, each.argument) == (what, argument)), None)
        if found is not None:
            self._left.remove(found)
            answer = found.answer
        elif not self._acts:
            raise RefusedError(what)
        else:
            answer = act()
        self._asked.append(Ask(what, argument, answer))
        return answer


class _Open:
    """A file that was opened: what is written lands when it is closed."""

    def __init__(self, read: Callable[[], str] | None = None, land: Callable[[str], None] | None = None) -> None:
        self.read = read
        self._land = land
        self._text = ""

    def write(self, text: str) -> int:
        self._text += text
        return len(text)

    def __enter__(self) -> _Open:
        return self

    def __exit__(self, *_: object) -> None:
        if self._land is not None:
            self._land(self._text)


class _Module:
    """`os`, `time` and `pathlib`, as far as a statement uses them."""

    def __init__(self, draw: Callable[[str], str], write: Callable[[str, str], int]) -> None:
        self._draw = draw
        self._write = write
        self._path = ""

    def urandom(self, _: int) -> _Module:
        return self

    def hex(self) -> str:
        return self._draw("urandom")

    def time_ns(self) -> int:
        return int(self._draw("time_ns"))

    def Path(self, path: str) -> _Module:
        self._path = path
        return self

    def write_text(self, text: str) -> int:
        return self._write(self._path, text)


def shown(value: Any) -> str:
    """A value as text, without what differs between two processes: a function by what it gives."""
    if type(value).__name__ == "generator":
        frame = value.gi_frame
        return f"generator at {frame.f_locals.get('n') if frame else 'its end'}"
    if isinstance(value, Group):
        return "group"
    return f"function of {value()}" if callable(value) else repr(value)
