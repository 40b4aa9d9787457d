"""The names injected into every namespace: functions of views, a function for each tool, and MCP servers' modules.

`InjectedNames` notices when a statement rebinds one. A statement may rebind any of them and keeps its own, because
`find` and `read` are good names for functions. The session's own statements use ORIGINALS, which is restored before
each statement. `toolbox` lists the names.

A server's module keeps nothing from one statement to the next: the host knows the tools when a call arrives. So the
effects of a statement depend on the statement alone, and are the same when it runs again. Must not know how a tool runs
or how a server is reached. Made by the interpreter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import Parameter as Argument
from inspect import Signature
from types import MappingProxyType, ModuleType
from typing import Final, NoReturn, Protocol, SupportsIndex, cast

from ...core.mcp_servers import call_of, help_of, read_of, resource_at
from ...core.toolbox import OPEN, ORIGINALS, REQUIRED, RESTORE, TOOLS, Tool
from ..results import ServerHelp, note_of, value_of
from .handles.board import Board, LastShown

AskServer = Callable[[str, dict[str, object]], object]
"""`Effects.ask`, of an operation with its arguments."""
_STATE: Final = "__state__"
_KIND: Final = Argument.POSITIONAL_OR_KEYWORD


class InjectedNames:
    """The injected objects of one namespace. `servers` has the names of MCP servers by module."""

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
            """Without a path: the handles. With one: the entries of that directory."""
            return board.ls() if path is None else entries(path)

        def restore_names() -> None:
            """Restores injected names that were rebound or deleted."""
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
        """Prepare for a statement."""
        self._namespace[ORIGINALS] = self._held

    def restore(self) -> None:
        self._namespace.update(self.originals)
        self._rebound.clear()

    def newly_rebound(self) -> tuple[str, ...]:
        """The names that were rebound or deleted since the last call, sorted."""
        now = {name for name, value in self.originals.items() if self._namespace.get(name, self) is not value}
        fresh = tuple(sorted(now - self._rebound))
        self._rebound = now
        return fresh


def _held(originals: Mapping[str, object]) -> object:
    """An object with these read-only attributes."""
    methods = {name: staticmethod(cast("Callable[..., object]", value)) for name, value in originals.items()}
    return type(
        ORIGINALS, (), {"__slots__": (), "__doc__": "The built-in names of every session, unchanged.", **methods}
    )()


def proxy(tool: Tool, ask: Ask) -> Callable[..., object]:
    """The function that statements call: it has the row's signature and docstring, and asks the host.

    It raises TypeError for arguments that do not match the signature; the host checks the rest.
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
        answer = ask(tool.name, {name: _names_plain(tool, name, value) for name, value in said.items()})
        if note := note_of(tool.name, answer):
            print(note)
        return value_of(tool.name, answer)

    call.__name__ = call.__qualname__ = tool.name
    call.__doc__ = tool.doc
    call.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess] -- what `inspect` and `help` read
    return call


def _default(value: object) -> object:
    return Argument.empty if value is REQUIRED else value


def _names_plain(tool: Tool, name: str, value: object) -> object:
    plain = os.fsdecode(cast("os.PathLike[str]", value)) if isinstance(value, os.PathLike) else value
    if isinstance(plain, str):
        try:
            plain.encode()
        except UnicodeEncodeError:
            # Encoding would change the text, and so a file's name or content.
            raise ValueError(
                f"{tool.name}(): {name} contains half of a surrogate pair, which is not a character"
            ) from None
    return plain


class _State:
    """The state of a module. `statement` returns the number of the running statement."""

    __slots__ = ("ask", "asked_in", "found", "server", "statement")

    def __init__(self, server: str, ask: AskServer, statement: Callable[[], int]) -> None:
        self.server = server
        self.ask = ask
        self.statement = statement
        self.asked_in = -1
        self.found = ServerHelp(server=server, module="")


# --- modules of MCP servers -------------------------------------------------------------------------------------------


class ServerTool:
    """The object `module.tool`: calling it calls the tool."""

    __slots__ = ("__name__", "_module")

    def __init__(self, module: ServerModule, name: str) -> None:
        self._module = module
        self.__name__ = name

    def __call__(self, *args: object, **arguments: object) -> object:
        operation = call_of(self._module.__name__, self.__name__)
        if args:
            raise TypeError(f"{operation}() takes its arguments by name only; help({operation}) shows them")
        plain = {name: _plain(value) for name, value in arguments.items()}
        return value_of(operation, _state(self._module).ask(operation, plain))

    def _said(self) -> str:
        return _help(self._module).text_of(self.__name__)

    __doc__ = cast("str", property(_said))  # what `help` shows

    def __repr__(self) -> str:
        return (
            f"<tool {call_of(self._module.__name__, self.__name__)} of the MCP server {_state(self._module).server!r}>"
        )

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        _refuse()


class ServerModule(ModuleType):
    """The module of a server. Every attribute is a tool; the call fails if there is none of that name.

    `server` is its name in the editor.
    """

    def __init__(self, name: str, server: str, ask: AskServer, statement: Callable[[], int]) -> None:
        super().__init__(name)
        self.__dict__[_STATE] = _State(server, ask, statement)  # under a name that no tool has

    def __getattr__(self, name: str) -> ServerTool:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return ServerTool(self, name)

    def __dir__(self) -> Iterable[str]:
        return [tool.name for tool in _help(self).tools]

    def _said(self) -> str:
        return _help(self).text

    __doc__ = cast("str", property(_said))
    __all__ = ()
    """Empty, so that `help` shows only the text."""

    def __repr__(self) -> str:
        name = self.__name__
        return f"<module {name!r} of the MCP server {_state(self).server!r}; help({name}) lists its tools>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        _refuse()


def viewing(view: Callable[..., object], modules: Mapping[str, ServerModule]) -> Callable[..., object]:
    """A `view` that also accepts addresses of resources, and shows their text."""

    @wraps(view)
    def seen(path: object = None, *args: object, **kwargs: object) -> object:
        place = resource_at(path) if isinstance(path, str) else None
        if place is None or kwargs.get("text") is not None:
            return view(path, *args, **kwargs)
        module = modules.get(place[0])
        if module is None:
            raise ValueError(f"{path!r}: no MCP server has the module {place[0]!r}; there are {', '.join(modules)}")
        text = _state(module).ask(read_of(place[0]), {"uri": place[1]})
        return view(None, *args, **kwargs, text=text, title=path)

    return seen


def _plain(value: object) -> object:
    return os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, os.PathLike) else value


def _state(module: ServerModule) -> _State:
    return cast("_State", module.__dict__[_STATE])


def _help(module: ServerModule) -> ServerHelp:
    """The server's tools and resources, requested once in a statement."""
    state = _state(module)
    if state.asked_in != (number := state.statement()):
        operation = help_of(module.__name__)
        found = value_of(operation, state.ask(operation, {}))
        assert isinstance(found, ServerHelp)
        state.found, state.asked_in = found, number
    return state.found


def _refuse() -> NoReturn:
    raise TypeError("objects of an MCP server cannot be copied")


class Ask(Protocol):
    """`Effects.ask`."""

    def __call__(self, operation: str, arguments: dict[str, object], basis: str | None = None) -> object: ...
