"""Shared by both suites for version 1 of the Agent Client Protocol: quotes, the schema, and judges of shapes."""

from __future__ import annotations

from functools import cache, partial
from typing import Final

from conformance.documents import Source, json_document
from conformance.judging import PASS, Judge, Verdict, every, failed, skipped
from conformance.schema import Check, FieldNames, Schema
from conformance.suites import jsonrpc
from conformance.suites.jsonrpc import message_objects, no_message
from conformance.suites.jsonrpc_rules import Rule
from conformance.traffic import Message, Sender, Traffic
from conformance.values import as_object, as_text, is_object

DOCUMENT: Final = "acp1.schema"
_UNSTABLE: Final = "acp1.unstable"


def schema(place: str, quote: str) -> Source:
    return Source(DOCUMENT, place, quote)


def prose(page: str, quote: str) -> Source:
    return Source("acp1.prose", page, quote)


TURN_ENDS: Final = prose(
    "prompt-turn",
    "If there are no pending tool calls, the turn ends and the Agent **MUST** respond to the original "
    "`session/prompt` request with a `StopReason`:",
)
"""Why an agent must answer each prompt that it accepts with a stop reason."""
AGREED: Final = prose(
    "initialization",
    "Clients and Agents **MUST** agree on a protocol version and act according to its specification.",
)
"""Why a program must accept what the schema of its version allows."""

LINE: Final = prose(
    "transports", "Messages are delimited by newlines (`\\n`), and **MUST NOT** contain embedded newlines."
)
UTF8: Final = prose("transports", "JSON-RPC messages **MUST** be UTF-8 encoded.")
INVALID_JSON: Final = schema("/$defs/ErrorCode/anyOf/0", "Invalid JSON was received by the server.")
DECLARED_VERSION: Final = schema("/anyOf/0/properties/jsonrpc", '"enum": ["2.0"]')
ERROR_FIELDS: Final = schema("/$defs/Error/required", '["code", "message"]')
SAME_ID: Final = schema(
    "/$defs/RequestId", "The Server MUST reply with the same value in the Response object if included."
)
ID_TYPES: Final = schema("/$defs/RequestId", "MUST contain a String, Number, or NULL value if included.")
UNKNOWN_METHOD: Final = schema("/$defs/ErrorCode/anyOf/2", "The method does not exist or is not available.")
IGNORED_NOTIFICATION: Final = prose(
    "extensibility", "Unlike with custom requests, implementations **SHOULD** ignore unrecognized notifications."
)


@cache
def definition(name: str) -> Check:
    """Return the compiled check of a definition."""
    return _schema().definition(name)


@cache
def _schema() -> Schema:
    return Schema(json_document(DOCUMENT))


results_fit = partial(jsonrpc.results_fit, definition)
"""One side's results for a method fit a definition."""
params_fit = partial(jsonrpc.params_fit, definition)
"""One side's params of a request or notification fit a definition."""


def messages_fit(side: Sender, *names: str) -> Judge:
    """One side's messages of these definitions have their shape."""

    def found(traffic: Traffic) -> list[Message]:
        return [message for message in message_objects(traffic, side) if shape_of(message)[0] in names]

    def problem(message: Message) -> str:
        name, value = shape_of(message)
        wrong = definition(str(name))(value)
        return f"the {name}: {wrong}" if wrong else ""

    return every(found, problem, lambda: skipped("the program sent no message of this kind"))


def session_of(message: Message) -> str:
    return as_text(message.params.get("sessionId"))


def is_absolute(path: str) -> bool:
    """Accept POSIX and Windows paths, because the program's system is unknown."""
    drive = len(path) > 2 and path[0].isalpha() and path[1] == ":" and path[2] in "\\/"  # noqa: PLR2004 -- `C:\\`
    return path.startswith(("/", "\\\\")) or drive


_RETIRED_METHODS: Final = frozenset({"session/set_model", "session/elicitation", "session/elicitation/complete"})
_RETIRED: Final = {
    "InitializeRequest": (
        "/clientCapabilities/nes",
        "/clientCapabilities/planCapabilities",
        "/clientCapabilities/positionEncodings",
    ),
    "InitializeResponse": ("/agentCapabilities/nes", "/agentCapabilities/positionEncoding"),
    "ListSessionsRequest": ("/additionalDirectories",),
    "LoadSessionResponse": ("/models",),
    "NewSessionResponse": ("/models",),
    "PromptRequest": ("/messageId",),
    "PromptResponse": ("/userMessageId",),
    "ResumeSessionResponse": ("/models",),
}
"""Fields and methods of earlier schemas of version 1, stable or not: npm `@agentclientprotocol/sdk` 0.4.9 to 1.3.0. A
program made with one of those did not invent them."""


@cache
def _methods(document: str, side: Sender) -> frozenset[str]:
    callee = "client" if side == "server" else "agent"
    definitions = as_object(json_document(document)["$defs"])
    return frozenset(
        shape["x-method"]
        for shape in definitions.values()
        if is_object(shape) and shape.get("x-side") in (callee, "protocol", "both")
    )


def method_problem(message: Message) -> str:
    """The method belongs to the protocol, or is an extension."""
    name = message.method
    known = name in _RETIRED_METHODS or any(
        name in _methods(document, message.sender) for document in (DOCUMENT, _UNSTABLE)
    )
    return (
        ""
        if known or name.startswith("_")
        else f"{name!r} is not defined by the protocol and does not begin with an underscore"
    )


@cache
def _field_names(document: str) -> FieldNames:
    return FieldNames(Schema(json_document(document)))


def no_own_fields(side: Sender) -> Judge:
    """One side's messages have no field that the schema does not define."""

    def judge(traffic: Traffic) -> Verdict:
        for message in message_objects(traffic, side):
            name, value = shape_of(message)
            if name is None:
                continue
            unknown = _field_names(DOCUMENT).unknown(name, value)
            # Fields that are not stable yet belong to the protocol as well.
            for path in sorted(unknown & _field_names(_UNSTABLE).unknown(name, value) if unknown else ()):
                if path in _RETIRED.get(name, ()):
                    continue
                return failed(f"{path.lstrip('/')} of a {name} is not in the schema", message.index)
        return PASS if message_objects(traffic, side) else no_message()

    return judge


@cache
def shapes() -> dict[tuple[str, bool], str]:
    """Return the definitions of params (False) and results (True), by method."""
    definitions = as_object(json_document(DOCUMENT)["$defs"])
    return {
        (schema["x-method"], name.endswith("Response")): name
        for name, schema in definitions.items()
        if is_object(schema) and "x-method" in schema
    }


def shape_of(message: Message) -> tuple[str | None, object]:
    """Return a message's definition and the part that must fit it."""
    if message.method:
        return shapes().get((message.method, False)), message.object.get("params")
    if "error" in message.object:
        return "Error", message.object["error"]
    if message.answers is not None and "result" in message.object:
        return shapes().get((message.answers.method, True)), message.object["result"]
    return None, None


# --- rules for both sides ---------------------------------------------------------------------------------------------

METHOD_NAMES: Final = Rule(
    "advisory",
    "The {program} calls only methods of the protocol, or methods that begin with an underscore.",
    lambda subject: every(
        lambda traffic: [message for message in subject.messages(traffic) if message.method],
        method_problem,
        lambda: skipped(f"the {subject.name} called no method"),
    ),
    '{"jsonrpc":"2.0","method":"status/changed","params":{}}',
    page="extensibility",
    quote="implementations **MAY** expose and call custom JSON-RPC requests as long as their name starts with an "
    "underscore (`_`).",
)
OWN_FIELDS: Final = Rule(
    "mandatory",
    "The {program} adds no fields of its own to protocol types outside `_meta`.",
    lambda subject: no_own_fields(subject.side),
    '{"protocolVersion":1,"theme":"dark"}',
    page="extensibility",
    quote="Implementations **MUST NOT** add any custom fields at the root of a type that's part of the specification.",
)
EXTENSION_REQUEST: Final = Rule(
    "mandatory",
    "The {program} answers every extension request, known or not.",
    lambda subject: subject.answered("extension"),
    "silence",
    "unknown-methods",
    page="extensibility",
    quote="Upon receiving a custom request, implementations **MUST** respond accordingly with the provided `id`:",
)
UNKNOWN_EXTENSION: Final = Rule(
    "advisory",
    "The {program} answers an unknown extension request with -32601.",
    lambda subject: subject.method_not_found("extension"),
    '{"result":null}',
    "unknown-methods",
    page="extensibility",
    quote="If the receiving end doesn't recognize the custom method name, it should respond with the standard "
    '"Method not found" error:',
)
