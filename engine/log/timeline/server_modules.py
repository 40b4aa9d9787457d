"""Which MCP servers a session has had: their modules, and what each offered when that was told last. A fold.

Follows the log. Read where servers are named, and by `session.servers`.
"""

from __future__ import annotations

from typing import ClassVar

from ..events import Event
from ..events.session import ServerConnected, ServersNamed


class ServerModules:
    """`modules` by the names of servers; `offers`, tools and resources, by those of modules. `apply` is for the log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((ServersNamed, ServerConnected))

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}
        self.offers: dict[str, tuple[int, int]] = {}

    def apply(self, event: Event) -> None:
        match event:
            case ServersNamed(modules=modules):
                self.modules.update(modules)
            case ServerConnected(module=module, tools=tools, resources=resources):
                self.offers[module] = tools, resources
            case _:
                pass
