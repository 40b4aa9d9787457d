"""The page of what this agent does of ACP, `docs/acp.md`: methods, updates, capabilities and content.

The names come from the official schemas, and what is served from the adapter's own tables. `_WHY` has the reason for
each name that is not served; a test finds one without a reason, and a reason for one that is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple, cast, get_args

from acp_adapter import v1, v2
from acp_adapter.conversation import ELICIT, REQUEST_PERMISSION
from acp_adapter.editor_files import READ, WRITE
from acp_adapter.jsonrpc.peer import CANCEL_REQUEST
from acp_adapter.requests import Initialized, SignIn
from acp_adapter.updates import shapes
from acp_adapter.v2 import shapes as v2_shapes
from acp_adapter.wire import WireModel
from engine import __version__

SCHEMAS = Path(__file__).parents[2] / "tests" / "schemas" / "acp"
Edition = Literal["1", "1 unstable", "2 draft", "2 draft, unstable"]
EDITIONS: Final[dict[Edition, str]] = {
    "1": "v1/schema.json",
    "1 unstable": "v1/schema.unstable.json",
    "2 draft": "v2/schema.json",
    "2 draft, unstable": "v2/schema.unstable.json",
}
"""The schema of each edition, oldest first."""
Version = Literal[1, 2]
VERSIONS: Final[dict[Version, tuple[Edition, ...]]] = {
    1: ("1", "1 unstable"),
    2: ("2 draft", "2 draft, unstable"),
}
"""The editions of each version."""
Subject = Literal[
    "methods of agents",
    "methods of clients",
    "updates",
    "content of prompts",
    "content of tool calls",
    "what agents offer",
    "what clients offer",
]
SUBJECTS: Final[tuple[Subject, ...]] = get_args(Subject)

_TERMINALS: Final = "the agent runs commands itself, because it could not end, redact or undo programs of the client"
_PROVIDERS: Final = "providers are configured in the agent's environment, see [models](models.md)"
_PROXY: Final = "this method is for programs between an editor and an agent, and Rewindow is an agent"
_SUBAGENTS: Final = "Rewindow starts no subagents"
_TUNNEL: Final = "Rewindow does not connect to servers through the editor. The error of `session/new` says so"
_ADDRESSES: Final = "Rewindow does not send the user to a web page in a question"
_OVERRIDE: Final = "a system prompt is only appended, because the agent's own instructions explain how statements run"
_CANCELLED_WITH_THE_TURN: Final = "`session/cancel` ends everything that a turn runs"
WHY: Final[Mapping[str, str]] = {
    "auth/status_update": "clients request the status with `auth/status`",
    "providers/list": _PROVIDERS,
    "providers/set": _PROVIDERS,
    "providers/disable": _PROVIDERS,
    "mcp/message": _TUNNEL,
    "proxy/initialize": _PROXY,
    "proxy/successor": _PROXY,
    "elicitation/complete": _ADDRESSES,
    "terminal/cancel": _CANCELLED_WITH_THE_TURN,
    "tool_call/cancel": _CANCELLED_WITH_THE_TURN,
    "terminal/create": _TERMINALS,
    "terminal/output": _TERMINALS,
    "terminal/wait_for_exit": _TERMINALS,
    "terminal/kill": _TERMINALS,
    "terminal/release": _TERMINALS,
    "user_message_chunk": "version 2 gets whole messages of the user (`user_message`)",
    "tool_call_content_chunk": "content is sent whole, and output is sent by `terminal_output_chunk`",
    "plan_update": "in version 1, `plan` has the same content, and every client knows it",
    "plan_removed": "an empty `plan` removes it",
    "compaction_summary_chunk": "a summary is sent whole",
    "subagent_update": _SUBAGENTS,
    "session_message": _SUBAGENTS,
    "session_message_chunk": _SUBAGENTS,
    "terminal": "sent only to clients that draw terminals for an agent's commands (`terminal_output` in `_meta`)",
    "audio": "Rewindow does not use recordings, and only names them in the text of the prompt",
    "promptCapabilities.audio": "Rewindow does not use recordings, and only names them in the text of the prompt",
    "session.prompt.audio": "Rewindow does not use recordings, and only names them in the text of the prompt",
    "mcpCapabilities.acp": _TUNNEL,
    "session.mcp.acp": _TUNNEL,
    "session.systemPrompt.mode": _OVERRIDE,
    "session.systemPrompt.mode.override": _OVERRIDE,
    "sessionCapabilities.systemPrompt.mode": _OVERRIDE,
    "sessionCapabilities.systemPrompt.mode.override": _OVERRIDE,
    "providers": _PROVIDERS,
    "session": "this name only groups other capabilities",
    "auth": "this name only groups other capabilities",
    "session.configOptions": "this name only groups other capabilities",
    "subagents": _SUBAGENTS,
    "plan": "`plan` is sent to every client",
    "elicitation": "this name only groups other capabilities",
    "elicitation.url": _ADDRESSES,
}
"""Why a name is not served or used by a version that has it."""
_HEAD: Final = """\
# Support of ACP

*Generated from `acp_adapter/` and the official schemas by `make docs`. A test fails when it is out of date.*

The Agent Client Protocol (ACP) has a version 1 and a draft of version 2. Each has a stable and an unstable edition of
its schema. Rewindow speaks both versions. It answers `initialize` with version 1 to clients that ask for version 1, and
with version 2 to clients that ask for a higher version.

This page lists every method, update, kind of content and capability of the schemas. The columns of the tables:
- `since`: the oldest edition that has the name
- `1` and `2`: whether Rewindow supports the name in this version. A dash means that the version does not have the name
- the last column: the reason if Rewindow does not support it

An agent's capability is marked "yes" if `initialize` offers it. A client's capability is marked "yes" if Rewindow
behaves differently for a client that offers it.

In version 1, Rewindow also handles the notifications `document/didOpen`, `didChange`, `didSave`, `didClose` and
`didFocus` ([unsaved text](configuration.md#unsaved-text-in-an-editor)). Version 2 has no method for files. So Rewindow
reads and writes files on the disk there, and does not know text that an editor has not saved.

A session's title is the beginning of its first prompt, unless the client sets another title. Rewindow does not ask the
model for a title, because this would need another call, or more text in each prompt.
"""


class Row(NamedTuple):
    """A name of the protocol: the oldest edition that has it, the versions that serve or use it, and why others do not.

    `served` has each version that has the name.
    """

    name: str
    edition: Edition
    served: Mapping[Version, bool]
    why: str


def page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(_section(subject) for subject in SUBJECTS)])


def rows(subject: Subject) -> list[Row]:
    """Return the names of a subject, by edition."""
    known = known_names(subject)
    by_version = {version: (_known(subject, version), served_names(subject, version)) for version in VERSIONS}
    found: list[Row] = []
    for name, edition in known.items():
        served = {version: name in here for version, (there, here) in by_version.items() if name in there}
        found.append(Row(name, edition, served, "" if all(served.values()) else WHY.get(name, "")))
    return found


def known_names(subject: Subject) -> dict[str, Edition]:
    """Return the names that the schemas have, with the oldest edition that has each."""
    found: dict[str, Edition] = {}
    for edition in EDITIONS:
        for name in _NAMES[subject](_definitions(edition)):
            found.setdefault(name, edition)
    return found


def _known(subject: Subject, version: Version) -> set[str]:
    return {name for edition in VERSIONS[version] for name in _NAMES[subject](_definitions(edition))}


def served_names(subject: Subject, version: Version) -> frozenset[str]:
    """Return the names that a version of the adapter serves, sends, offers or uses."""
    match subject:
        case "methods of agents":
            return frozenset((*(v1 if version == 1 else v2).METHODS, CANCEL_REQUEST))
        case "methods of clients":
            files = (READ, WRITE) if version == 1 else ()
            return frozenset(("session/update", REQUEST_PERMISSION, ELICIT, *files, CANCEL_REQUEST))
        case "updates":
            return frozenset(_updates(version))
        case "content of prompts":
            offered = _offered_content(version)
            return frozenset(kind for kind, mark in _MARKS.items() if mark is None or offered.get(mark) not in _ABSENT)
        case "content of tool calls":
            module = shapes if version == 1 else v2_shapes
            return frozenset(_defaults(module, "type")) & set(known_names(subject))
        case "what agents offer":
            return frozenset(_offered(_initialized(version)))
        case "what clients offer":
            return frozenset(name for name in known_names(subject) if _is_used(name, version))


def _section(subject: Subject) -> str:
    lines = [f"## {subject.capitalize()}", "", "| name | since | 1 | 2 | |", "|---|---|---|---|---|"]
    lines += [
        f"| `{row.name}` | {row.edition} | {' | '.join(_cell(row, version) for version in VERSIONS)} | {row.why} |"
        for row in rows(subject)
    ]
    return "\n".join([*lines, ""])


def _cell(row: Row, version: Version) -> str:
    return "-" if version not in row.served else "yes" if row.served[version] else "no"


# --- names of the schemas ---------------------------------------------------------------------------------------------


@cache
def _definitions(edition: Edition) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads((SCHEMAS / EDITIONS[edition]).read_text())["$defs"])


def _methods(definitions: dict[str, Any], *sides: str) -> Iterator[str]:
    found = {each["x-method"] for each in definitions.values() if each.get("x-side") in sides}
    return iter(sorted(found))


def _kinds(definitions: dict[str, Any], union: str, tag: str) -> Iterator[str]:
    for variant in definitions[union].get("oneOf") or definitions[union]["anyOf"]:
        kind = variant.get("properties", {}).get(tag, {}).get("const")
        if kind is not None:
            yield kind


def _capabilities(definitions: dict[str, Any], name: str) -> Iterator[str]:
    """Yield the paths of all properties below a definition, such as `fs.readTextFile`."""
    for key, value in definitions.get(name, {}).get("properties", {}).items():
        if key == "_meta":
            continue
        references = [
            each["$ref"] for each in (value, *value.get("allOf", ()), *value.get("anyOf", ())) if "$ref" in each
        ]
        below = [path for each in references for path in _capabilities(definitions, each.rpartition("/")[2])]
        if not below or {"type": "null"} in value.get("anyOf", ()):
            yield key
        yield from (f"{key}.{path}" for path in below)


_NAMES: Final = {
    "methods of agents": lambda definitions: _methods(definitions, "agent", "protocol", "proxy"),
    "methods of clients": lambda definitions: _methods(definitions, "client", "protocol"),
    "updates": lambda definitions: _kinds(definitions, "SessionUpdate", "sessionUpdate"),
    "content of prompts": lambda definitions: _kinds(definitions, "ContentBlock", "type"),
    "content of tool calls": lambda definitions: _kinds(definitions, "ToolCallContent", "type"),
    "what agents offer": lambda definitions: _capabilities(definitions, "AgentCapabilities"),
    "what clients offer": lambda definitions: _capabilities(definitions, "ClientCapabilities"),
}


_MARKS: Final = {
    "text": None,
    "resource_link": None,
    "image": "image",
    "audio": "audio",
    "resource": "embeddedContext",
}
"""The capability of agents for each kind of content in prompts; None for those that each agent takes."""


# --- what the adapter does --------------------------------------------------------------------------------------------

_ABSENT: Final = (None, False)
"""A mark of a capability that is not offered; version 1 has booleans, version 2 objects."""


def _updates(version: Version) -> Iterator[str]:
    if version == 1:
        yield from _defaults(shapes, "session_update")
    else:
        yield from _defaults(v2_shapes, "session_update")


def _defaults(module: ModuleType, field: str) -> Iterator[str]:
    for shape in vars(module).values():
        if isinstance(shape, type) and issubclass(shape, WireModel) and field in shape.model_fields:
            yield shape.model_fields[field].default


def _initialized(version: Version) -> dict[str, Any]:
    result = Initialized(__version__, (SignIn("agent", "Read the keys", "Reads the keys."),))
    if version == 1:
        return v1.write_result("initialize", result)["agentCapabilities"]
    return v2.write_result("initialize", result)["capabilities"]


def _offered_content(version: Version) -> dict[str, Any]:
    offered = _initialized(version)
    return offered["promptCapabilities"] if version == 1 else offered["session"]["prompt"]


def _offered(value: dict[str, Any], before: str = "") -> Iterator[str]:
    for key, each in value.items():
        name = before + key
        if isinstance(each, dict):
            yield name
            yield from _offered(each, f"{name}.")
        elif each is True:
            yield name


def _is_used(name: str, version: Version) -> bool:
    """Return whether the adapter reads anything else from a client that offers this, however it marks that."""
    read = (v1 if version == 1 else v2).read_params
    plain = read("initialize", {"protocolVersion": version})
    for mark in (True, {}):
        offered: object = mark
        for key in reversed(name.split(".")):
            offered = {key: offered}
        key = "clientCapabilities" if version == 1 else "capabilities"
        if read("initialize", {"protocolVersion": version, key: offered}) != plain:
            return True
    return False
