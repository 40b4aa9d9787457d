"""What the judges of both suites for version 1 of the Agent Client Protocol share: sources, the schema, shapes."""

from __future__ import annotations

from functools import cache
from typing import Final

from conformance.documents import Source, json_document
from conformance.judging import every
from conformance.judging_rpc import no_message, objects
from conformance.requirement import Judge
from conformance.schema import Check, FieldNames, Schema
from conformance.traffic import Message, Sender, Traffic
from conformance.values import as_object, as_text, is_object
from conformance.verdict import PASS, Verdict, failed, skipped

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
"""Why an agent that is prompted, by whatever it says it takes, has to answer with a stop reason."""
AGREED: Final = prose(
    "initialization",
    "Clients and Agents **MUST** agree on a protocol version and act according to its specification.",
)
"""Why a program has to take what the schema of the version allows."""


@cache
def definition(name: str) -> Check:
    """The compiled check of one definition of the schema."""
    return _schema().definition(name)


@cache
def _schema() -> Schema:
    return Schema(json_document(DOCUMENT))


def result_is(method: str, name: str, side: Sender = "server") -> Judge:
    """Every result that one side answers a method with has the shape of a definition."""
    asking: Sender = "client" if side == "server" else "server"

    def found(traffic: Traffic) -> list[Message]:
        return [r.answer for r in traffic.requests(asking, method) if r.answer is not None and r.succeeded]

    def problem(answer: Message) -> str:
        wrong = definition(name)(answer.object.get("result"))
        return f"the result of {method}: {wrong}" if wrong else ""

    return every(found, problem, lambda: skipped(f"{method} was never answered with a result"))


def params_are(method: str, name: str, side: Sender = "server", *, notification: bool = False) -> Judge:
    """The params of every request, or notification, of one side with this method have the shape of a definition."""

    def found(traffic: Traffic) -> list[Message]:
        return traffic.notifications(side, method) if notification else traffic.requests(side, method)

    def problem(message: Message) -> str:
        wrong = definition(name)(message.object.get("params"))
        return f"the params of {method}: {wrong}" if wrong else ""

    return every(found, problem, lambda: skipped(f"the program never sent {method}"))


def are(side: Sender, *names: str) -> Judge:
    """Every message of one side that a definition of these is for has its shape."""

    def found(traffic: Traffic) -> list[Message]:
        return [message for message in objects(traffic, side) if shaped(message)[0] in names]

    def problem(message: Message) -> str:
        name, value = shaped(message)
        wrong = definition(str(name))(value)
        return f"the {name}: {wrong}" if wrong else ""

    return every(found, problem, lambda: skipped("the program sent none of these messages"))


def session_of(message: Message) -> str:
    return as_text(message.params.get("sessionId"))


def is_absolute(path: str) -> bool:
    """On POSIX or on Windows: what a program runs on is its own matter."""
    drive = len(path) > 2 and path[0].isalpha() and path[1] == ":" and path[2] in "\\/"  # noqa: PLR2004 -- `C:\\`
    return path.startswith(("/", "\\\\")) or drive


def error_problem(message: Message) -> str:
    """What is wrong with the error of a response that holds one, and nothing else."""
    if "error" not in message.object or "result" in message.object:
        return ""
    wrong = definition("Error")(message.object["error"])
    return f"the error: {wrong}" if wrong else ""


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
"""Fields that earlier schemas of version 1 had, like the methods above, stable or not: npm `@agentclientprotocol/sdk`
0.4.9 to 1.3.0. A program that was made by one of those has not made them up."""


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
    """Whether a method is one that the sender may call: the protocol's, or an extension's."""
    name = message.method
    known = name in _RETIRED_METHODS or any(
        name in _methods(document, message.sender) for document in (DOCUMENT, _UNSTABLE)
    )
    return "" if known or name.startswith("_") else f"{name!r} is not the protocol's, and begins with no underscore"


@cache
def _field_names(document: str) -> FieldNames:
    return FieldNames(Schema(json_document(document)))


def no_own_fields(side: Sender) -> Judge:
    """One side's messages hold no field that the schema does not know."""

    def judge(traffic: Traffic) -> Verdict:
        for message in objects(traffic, side):
            name, value = shaped(message)
            if name is None:
                continue
            unknown = _field_names(DOCUMENT).unknown(name, value)
            # What is not stable yet is the protocol's own too.
            for path in sorted(unknown & _field_names(_UNSTABLE).unknown(name, value) if unknown else ()):
                if path in _RETIRED.get(name, ()):
                    continue
                return failed(f"{path.lstrip('/')} of a {name} is not in the schema", message.index)
        return PASS if objects(traffic, side) else no_message()

    return judge


@cache
def shapes() -> dict[tuple[str, bool], str]:
    """The definitions of params (False) and of results (True) by method."""
    definitions = as_object(json_document(DOCUMENT)["$defs"])
    return {
        (schema["x-method"], name.endswith("Response")): name
        for name, schema in definitions.items()
        if is_object(schema) and "x-method" in schema
    }


def shaped(message: Message) -> tuple[str | None, object]:
    """The definition that a message has to follow, and the part of it that has to."""
    if message.method:
        return shapes().get((message.method, False)), message.object.get("params")
    if "error" in message.object:
        return "Error", message.object["error"]
    if message.answers is not None and "result" in message.object:
        return shapes().get((message.answers.method, True)), message.object["result"]
    return None, None
