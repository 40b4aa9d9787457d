"""The modules of MCP servers in a namespace: each call of a tool is one effect, and so is each look at what there is.

From one statement to the next a module holds nothing of what its server offers: which tools there are, and what they
take, is the host's to know when a call comes. So what a statement asks for depends on the statement alone, and one that
runs again asks for the same.
Must not know how a server is reached. Made by `names`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import ModuleType
from typing import Final, NoReturn, SupportsIndex, cast

from ...core.mcp_servers import call_of, help_of, read_of, resource_at
from ..results import value_of
from ..results.server_help import ServerHelp

Ask = Callable[[str, dict[str, object]], object]
"""`Effects.ask`, of an operation with its arguments."""
_STATE: Final = "__state__"


class _State:
    """What is behind a module. `statement` gives the number of the statement that runs."""

    __slots__ = ("ask", "asked_in", "found", "server", "statement")

    def __init__(self, server: str, ask: Ask, statement: Callable[[], int]) -> None:
        self.server = server
        self.ask = ask
        self.statement = statement
        self.asked_in = -1
        self.found = ServerHelp(server=server, module="")


class ServerTool:
    """What `module.tool` is: calling it calls the tool."""

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
    """What stands under the name of a server. Every attribute is a tool; a call says whether there is such a one.

    `server` is the name that the editor gave it.
    """

    def __init__(self, name: str, server: str, ask: Ask, statement: Callable[[], int]) -> None:
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
    """Nothing beside the text, where `help` lists what a module has."""

    def __repr__(self) -> str:
        name = self.__name__
        return f"<module {name!r} of the MCP server {_state(self).server!r}; help({name}) says what it has>"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        _refuse()


def viewing(view: Callable[..., object], modules: Mapping[str, ServerModule]) -> Callable[..., object]:
    """`view` that takes the addresses of resources, too: it shows the text as it was read."""

    @wraps(view)
    def seen(path: object = None, *args: object, **kwargs: object) -> object:
        place = resource_at(path) if isinstance(path, str) else None
        if place is None or kwargs.get("text") is not None:
            return view(path, *args, **kwargs)
        module = modules.get(place[0])
        if module is None:
            raise ValueError(f"{path!r}: no MCP server has the module {place[0]!r}; there is {', '.join(modules)}")
        text = _state(module).ask(read_of(place[0]), {"uri": place[1]})
        return view(None, *args, **kwargs, text=text, title=path)

    return seen


def _plain(value: object) -> object:
    return os.fspath(cast("os.PathLike[str]", value)) if isinstance(value, os.PathLike) else value


def _state(module: ServerModule) -> _State:
    return cast("_State", module.__dict__[_STATE])


def _help(module: ServerModule) -> ServerHelp:
    """What there is, asked for once in a statement."""
    state = _state(module)
    if state.asked_in != (number := state.statement()):
        operation = help_of(module.__name__)
        found = value_of(operation, state.ask(operation, {}))
        assert isinstance(found, ServerHelp)
        state.found, state.asked_in = found, number
    return state.found


def _refuse() -> NoReturn:
    raise TypeError("what belongs to an MCP server is not copied")
