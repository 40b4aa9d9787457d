"""The names injected into every namespace: the nodes' functions, a function for each tool, `restore_names`, and the
modules of MCP servers, where the session has some.

Owns their meaning there and notices when a statement rebinds one; `toolbox` says which names there are. A statement may
rebind any of them, and keeps what it bound: `find` and `read` are good names for functions of one's own. What the
session has to run by itself calls them by way of ORIGINALS, which is put back before each statement. Must not know how
a tool is performed. Built by `interpreter`; `namespace` leaves these names out of its diffs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from inspect import Parameter as Argument
from inspect import Signature
from types import MappingProxyType
from typing import Final, Protocol, cast

from ...core.toolbox import OPEN, ORIGINALS, REQUIRED, RESTORE, TOOLS, Tool
from ..results import value_of
from .handles.board import Board
from .handles.last_shown import LastShown
from .server_modules import ServerModule, viewing


class Ask(Protocol):
    """`Effects.ask`."""

    def __call__(self, operation: str, arguments: dict[str, object], basis: str | None = None) -> object: ...


class InjectedNames:
    """What is injected, and into which namespace. `servers` are the names of MCP servers, by those of their modules."""

    def __init__(
        self,
        board: Board,
        ask: Ask,
        open_file: Callable[..., object],
        namespace: dict[str, object],
        servers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._namespace = namespace
        self._rebound: set[str] = set()
        changing = LastShown(board).ask_to_change(ask)
        proxies = {tool.name: proxy(tool, changing if tool.kind == "edit" else ask) for tool in TOOLS.values()}
        entries = proxies["ls"]

        def ls(path: str | None = None) -> object:
            """Without a path: the handles there are. With one: the entries of that directory."""
            return board.ls() if path is None else entries(path)

        def restore_names() -> None:
            """Gives injected names that were rebound or deleted their meaning back."""
            self.restore()

        modules = {name: ServerModule(name, server, ask, lambda: board.statement) for name, server in servers.items()}
        self.originals: dict[str, object] = {
            **board.names(),
            **proxies,
            "ls": ls,
            OPEN: open_file,
            RESTORE: restore_names,
        }
        if modules:
            self.originals["view"] = viewing(cast("Callable[..., object]", self.originals["view"]), modules)
        self._held = _held(self.originals)
        self.originals |= modules
        self.restore()

    def begin(self) -> None:
        """A statement is about to run."""
        self._namespace[ORIGINALS] = self._held

    def restore(self) -> None:
        self._namespace.update(self.originals)
        self._rebound.clear()

    def newly_rebound(self) -> tuple[str, ...]:
        """Names that were rebound or deleted since the last time this was asked, sorted."""
        now = {name for name, value in self.originals.items() if self._namespace.get(name, self) is not value}
        fresh = tuple(sorted(now - self._rebound))
        self._rebound = now
        return fresh


def _held(originals: Mapping[str, object]) -> object:
    """An object that has these as attributes, to which nothing can be assigned."""
    methods = {name: staticmethod(cast("Callable[..., object]", value)) for name, value in originals.items()}
    return type(
        ORIGINALS, (), {"__slots__": (), "__doc__": "The names that every session has, as they were.", **methods}
    )()


_KIND: Final = Argument.POSITIONAL_OR_KEYWORD


def proxy(tool: Tool, ask: Ask) -> Callable[..., object]:
    """The function that statements call: it has the row's signature and docstring, and asks the host.

    It raises TypeError for arguments that do not go with the signature; the host says what else is wrong with them.
    """
    signature = Signature(
        [Argument(each.name, _KIND, default=_default(each.default), annotation=each.type) for each in tool.parameters]
    )

    later = {each.name: each.default for each in tool.parameters if each.later}

    def call(*args: object, **kwargs: object) -> object:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{tool.name}(): {error}") from None
        bound.apply_defaults()
        said = {name: value for name, value in bound.arguments.items() if name not in later or value != later[name]}
        answer = ask(tool.name, {name: _plain(tool, name, value) for name, value in said.items()})
        return value_of(tool.name, answer)

    call.__name__ = call.__qualname__ = tool.name
    call.__doc__ = tool.doc
    call.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess] -- what `inspect` and `help` read
    return call


def _default(value: object) -> object:
    return Argument.empty if value is REQUIRED else value


def _plain(tool: Tool, name: str, value: object) -> object:
    plain = os.fsdecode(cast("os.PathLike[str]", value)) if isinstance(value, os.PathLike) else value
    if isinstance(plain, str):
        try:
            plain.encode()
        except UnicodeEncodeError:
            # On its way it would become another text, and so another file's name or content.
            raise ValueError(f"{tool.name}(): {name} holds half a surrogate pair, which is no character") from None
    return plain
