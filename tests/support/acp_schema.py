"""Judges messages of an ACP agent against the official schemas in tests/schemas/acp."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from jsonschema_rs import Draft202012Validator

Edition = Literal["stable", "unstable", "2", "2 unstable"]
_SERVED_SHAPES = (
    *("ForkSessionRequest", "ForkSessionResponse", "SessionForkCapabilities", "SystemPrompt", "Usage"),
    *("SetSessionTitleRequest", "SetSessionTitleResponse", "SessionTitleCapabilities"),
    *("SessionStatusRequest", "SessionStatusResponse", "SessionStatus", "SessionStatusCapabilities"),
    *("AuthStatusRequest", "AuthStatusResponse", "AuthStatusCapabilities", "AuthState", "AuthAccount"),
    *("ArchiveSessionRequest", "ArchiveSessionResponse", "UnarchiveSessionRequest", "UnarchiveSessionResponse"),
    *("SessionArchiveCapabilities", "SessionArchiveFilter", "AgentAuthCapabilities"),
    *("SystemPromptMode", "SessionSystemPromptCapabilities", "SessionSystemPromptModeCapabilities"),
    "SessionSystemPromptOverrideCapabilities",
)
_SERVED_PROPERTIES = {
    "PromptResponse": ("usage",),
    "SessionCapabilities": ("fork", "archive", "status", "systemPrompt", "title"),
    "SessionInfo": ("archived",),
    "ListSessionsRequest": ("archived",),
    "NewSessionRequest": ("systemPrompt",),
    "LoadSessionRequest": ("systemPrompt",),
    "ResumeSessionRequest": ("systemPrompt",),
}
"""By shape of a stable schema, what the agent serves of the unstable one."""
_UNSTABLE: dict[Edition, Edition] = {"stable": "unstable", "2": "2 unstable"}
SCHEMAS = Path(__file__).parent.parent / "schemas" / "acp"
_FILES: dict[Edition, str] = {
    "stable": "v1/schema.json",
    "unstable": "v1/schema.unstable.json",
    "2": "v2/schema.json",
    "2 unstable": "v2/schema.unstable.json",
}


class NotConformantError(AssertionError):
    """Raised for a message that the schema, or the rule about root keys, does not allow."""


class Coverage:
    """Checks an agent's messages and counts what occurred, so that a suite can ask for everything it advertises."""

    def __init__(self) -> None:
        self.answered: Counter[str] = Counter()
        """Methods of the client's requests that were answered with a result."""
        self.sent: Counter[str] = Counter()
        """Methods of the agent's own requests and notifications."""
        self.updates: Counter[str] = Counter()
        """Kinds of session/update."""
        self.calls: Counter[str] = Counter()
        """Kinds of tool calls."""
        self.contents: Counter[str] = Counter()
        """What tool calls consist of: kinds of content, and `location`."""

    def check(self, message: dict[str, Any], request_method: str | None = None, edition: Edition = "stable") -> None:
        """Validates one message and notes it; `request_method` is what a response answers, if that is known."""
        validate_outgoing(message, request_method, edition)
        if "method" in message:
            self.sent[message["method"]] += 1
        elif "result" in message and request_method is not None:
            self.answered[request_method] += 1
        if message.get("method") == "session/update":
            self._note(message["params"]["update"])

    def _note(self, update: dict[str, Any]) -> None:
        self.updates[update["sessionUpdate"]] += 1
        if "toolCallId" in update:
            self.calls.update([update["kind"]] if "kind" in update else [])
            self.contents.update(block["type"] for block in update.get("content") or ())
            self.contents.update("location" for _ in update.get("locations") or ())


def validate_outgoing(message: dict[str, Any], request_method: str | None, edition: Edition = "stable") -> None:
    """Raises NotConformantError unless an agent may send this. Extension methods (`_x`) are free in their params."""
    _require(isinstance(message, dict) and message.get("jsonrpc") == "2.0", message, "jsonrpc is not 2.0")
    keys = set(message) - {"jsonrpc"}
    if "method" in message:
        _require(keys <= {"id", "method", "params"}, message, f"unknown keys in {sorted(keys)}")
        if "id" in message:
            _check(edition, "RequestId", message["id"], message)
        _check_params(edition, message)
    elif "error" in message:
        _require(keys == {"id", "error"}, message, f"wrong keys: {sorted(keys)}")
        if message["id"] is not None:
            _check(edition, "RequestId", message["id"], message)
        _check(edition, "Error", message["error"], message)
        text = message["error"]["message"]
        _require(text != "" and "\n" not in text, message, "an error message must be one sentence")
    else:
        _require(keys == {"id", "result"}, message, f"wrong keys: {sorted(keys)}")
        _check(edition, "RequestId", message["id"], message)
        if request_method is not None and not request_method.startswith("_"):
            _check(edition, definition(edition, request_method, "agent", "Response"), message["result"], message)


def _check_params(edition: Edition, message: dict[str, Any]) -> None:
    method = message["method"]
    if method.startswith("_"):
        return
    suffix = "Request" if "id" in message else "Notification"
    side = "protocol" if method.startswith("$/") else "client"
    _check(edition, definition(edition, method, side, suffix), message.get("params"), message)


@cache
def schema(edition: Edition) -> dict[str, Any]:
    """A vendored schema of ACP; the stable ones with what the agent serves of the unstable ones."""
    found: dict[str, Any] = json.loads((SCHEMAS / _FILES[edition]).read_text(encoding="utf-8"))
    if edition in _UNSTABLE:
        unstable = schema(_UNSTABLE[edition])["$defs"]
        found["$defs"] |= {name: unstable[name] for name in _SERVED_SHAPES if name in unstable}
        for shape, names in _SERVED_PROPERTIES.items():
            if shape not in found["$defs"]:  # of one version alone
                continue
            offered = unstable[shape]["properties"]
            found["$defs"][shape]["properties"] |= {name: offered[name] for name in names if name in offered}
    return found


@cache
def definition(edition: Edition, method: str, side: str, suffix: str) -> str:
    """The name of the shape that goes with a method, such as NewSessionResponse for session/new."""
    for name, shape in schema(edition)["$defs"].items():
        if shape.get("x-method") == method and shape.get("x-side") == side and name.endswith(suffix):
            return name
    raise NotConformantError(f"the {edition} schema has no {suffix} of {method} on the {side} side")


@cache
def validator(edition: Edition, name: str) -> Draft202012Validator:
    """The validator of one definition, closed against unknown root keys."""
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": _closed(edition), "unevaluatedProperties": False})


@cache
def _closed(edition: Edition) -> dict[str, Any]:
    """All definitions, each closed against unknown root keys."""
    definitions = copy.deepcopy(schema(edition)["$defs"])
    for shape in list(_values(definitions)):
        _close(shape)
    return definitions


def _check(edition: Edition, name: str, value: Any, message: dict[str, Any]) -> None:
    error = next(iter(validator(edition, name).iter_errors(value)), None)
    if error is not None:
        place = "/".join(map(str, error.instance_path)) or "the whole"
        raise NotConformantError(f"not a {name}: {place}: {error.message}\n{json.dumps(message)[:2000]}")


def _values(node: Any) -> Iterator[dict[str, Any]]:
    """Every subschema that describes a whole value, not just an aspect of one as the members of allOf do."""
    if isinstance(node, list):
        for item in cast("list[Any]", node):
            yield from _values(item)
    elif isinstance(node, dict):
        fields = cast("dict[str, Any]", node)
        if isinstance(fields.get("properties"), dict):
            yield from fields["properties"].values()
        yield from (fields[key] for key in ("items", "additionalProperties") if isinstance(fields.get(key), dict))
        for item in fields.values():
            yield from _values(item)


def _close(shape: dict[str, Any]) -> None:
    if any(key in shape for key in ("$ref", "allOf", "anyOf", "oneOf", "properties")):
        shape.setdefault("unevaluatedProperties", False)


def _require(holds: bool, message: Any, reason: str) -> None:
    if not holds:
        raise NotConformantError(f"{reason}: {json.dumps(message)[:2000]}")
