"""The versions of the protocol: which one a connection speaks, and what every version has.

Each version is a package (`v1`, `v2`). A connection begins with version 1, and `initialize` chooses. Version 2 is
imported by the first client that asks for it. Must not know shapes. Used by the server, connections and conversations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from acp_adapter import v1
from acp_adapter.jsonrpc.messages import Json

if TYPE_CHECKING:  # loaded in the session and prompt stages
    from acp_adapter.questions import Asked
    from acp_adapter.requests import Activity
    from acp_adapter.shown import Facts
    from acp_adapter.updates import Update
    from engine import Form, PermissionAnswer, PermissionQuestion

VERSIONS: Final = {1: "v1", 2: "v2"}
"""The package of each version that is served. """


class Writer(Protocol):
    """Writes the updates of one session as JSON."""

    def live(self, updates: Iterable[Update]) -> Iterator[Json]: ...

    def replayed(self, updates: Iterable[Update]) -> Iterator[Json]: ...

    def activity(self, activity: Activity, /) -> Sequence[Json]: ...


class Questions(Protocol):
    """Params and answers of the requests to the editor that every version has."""

    def permission_params(self, session_id: str, question: PermissionQuestion, facts: Facts) -> Json: ...

    def permission_answer(self, result: object) -> PermissionAnswer: ...

    def form_request(self, session_id: str, form: Form) -> Asked: ...

    def options_request(self, session_id: str, form: Form) -> Asked | None: ...


class Version(Protocol):
    """A version of the protocol: a package."""

    @property
    def VERSION(self) -> int: ...

    @property
    def METHODS(self) -> frozenset[str]: ...

    @property
    def client(self) -> Questions: ...

    def read_params(self, method: str, params: object) -> Any: ...

    def write_result(self, method: str, result: Any) -> Json: ...

    def writer(self, redact: Callable[[str], str]) -> Writer: ...


FIRST: Final[Version] = cast("Version", v1)


class Versions:
    """The version that a connection speaks, as the codec of its peer."""

    def __init__(self) -> None:
        self.current = FIRST

    def use(self, version: int) -> None:
        """Speak this version from now on; it is one of VERSIONS."""
        self.current = _version(version)

    def read_params(self, method: str, params: object) -> Any:
        """Return the params of a call. Those of `initialize` are read as the version that it asks for."""
        version = _version(_chosen(params)) if method == "initialize" else self.current
        return version.read_params(method, params)

    def write_result(self, method: str, result: Any) -> Json:
        """Return the JSON object that answers a call."""
        return self.current.write_result(method, result)


def _version(number: int) -> Version:
    return cast("Version", import_module(f"{__package__}.{VERSIONS[number]}"))


def _chosen(params: object) -> int:
    """Return the highest version that is served and not above the one asked for; at least 1."""
    asked: object = cast("dict[str, object]", params).get("protocolVersion") if isinstance(params, dict) else None
    if type(asked) is not int:
        return min(VERSIONS)
    return max((version for version in VERSIONS if version <= asked), default=min(VERSIONS))
