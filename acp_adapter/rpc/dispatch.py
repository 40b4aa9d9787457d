"""Runs handlers through jsonrpcserver and turns whatever they do into one response.

The one module that knows jsonrpcserver, and around its traps: it splats params into arguments (so they travel as a
list of one value), puts exception text into `data` (so nothing but its own error type ever reaches it), and runs a
handler in a task outside of anyio's tree (so each handler has a cancel scope of its own there).
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import anyio

from acp_adapter.rpc.errors import INTERNAL_ERROR, Code, ToError, WireError
from acp_adapter.rpc.messages import error_response
from acp_adapter.rpc.methods import Codec, Incoming, Method

if TYPE_CHECKING:
    from jsonrpcserver.result import Result

C = TypeVar("C")
_log = logging.getLogger(__name__)


def _without_validator(name: str) -> None:
    """Lets submodules of a package be imported without its `__init__`, until the package itself is asked for.

    jsonrpcserver's own loads jsonschema for a default validator that is not used here: 60 of 190 ms of start-up.
    """
    spec = importlib.util.find_spec(name)
    assert spec is not None
    sys.modules[name] = importlib.util.module_from_spec(spec)


_is_loaded = "jsonrpcserver" in sys.modules
if not _is_loaded:
    _without_validator("jsonrpcserver")
try:
    from jsonrpcserver.async_dispatcher import dispatch_to_response_pure
    from jsonrpcserver.exceptions import JsonRpcError
    from jsonrpcserver.response import to_serializable
    from jsonrpcserver.result import Success
    from jsonrpcserver.sentinels import NODATA
finally:
    if not _is_loaded:
        del sys.modules["jsonrpcserver"]


def _as_it_is(message: Any) -> Any:
    return message


class Dispatcher(Generic[C]):
    """The methods of one connection, as jsonrpcserver wants them."""

    def __init__(self, methods: Mapping[str, Method[C, Any, Any]], codec: Codec, to_error: ToError) -> None:
        self._codec = codec
        self._to_error = to_error
        self._methods: dict[str, Callable[..., Awaitable[Result]]] = dict.fromkeys(methods, self._run)

    async def dispatch(self, incoming: Incoming[C]) -> dict[str, Any] | None:
        """The response to a request, None for a notification; raises nothing but what ends the process.

        Must be shielded from cancellation from outside: `incoming.scope` is the way to cancel a handler.
        """
        message: dict[str, Any] = {"method": incoming.method.name, "params": [incoming.params]}
        if not incoming.is_notification:
            message["id"] = incoming.id
        respond = cast("Callable[..., Awaitable[dict[str, Any] | None]]", dispatch_to_response_pure)
        return await respond(
            deserializer=_as_it_is,
            validator=_as_it_is,
            methods=self._methods,
            context=incoming,
            post_process=to_serializable,
            request=message,
        )

    async def _run(self, incoming: Incoming[C], params: Any) -> Result:
        error = WireError(Code.CANCELLED, "The request was cancelled")
        try:
            with incoming.scope:
                if incoming.failure is not None:
                    raise incoming.failure
                result = await incoming.method.handler(incoming.context, params)
                return Success(self._codec.write_result(incoming.method.name, result))
        except Exception as exc:
            error = self.error_of(exc, incoming.method.name)
        except anyio.get_cancelled_exc_class():
            # because something the handler waited for was cancelled, not the handler: the request keeps its answer
            pass
        raise JsonRpcError(int(error.code), error.message, NODATA if error.data is None else error.data)

    def error_of(self, exc: Exception, method: str) -> WireError:
        """What the client is told. The log gets the sentence of an internal error, or its traceback where it has none.

        An error that says what is wrong needs no traceback, which would only hide the sentence on a terminal.
        """
        try:
            error = self._to_error(exc)
        except Exception:
            _log.exception("The error boundary failed")
            error = INTERNAL_ERROR
        if error.message == INTERNAL_ERROR.message:
            _log.error("%s failed", method, exc_info=exc)
        elif error.code == Code.INTERNAL_ERROR:
            _log.error("%s failed: %s", method, error.message)
        return error


def unanswerable(incoming: Incoming[Any]) -> dict[str, Any]:
    """The response to a request whose result cannot be written as JSON."""
    return error_response(incoming.id, INTERNAL_ERROR)
