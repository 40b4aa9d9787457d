"""What every client of MCP is to be answered, over any transport and in both eras: requests, and facts of each
answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

FILES: Final = {
    "src/app.py": "import os\n\n\ndef start():\n    return 1\n",
    "src/util.py": "def helper():\n    pass\n",
    "naïve ü.txt": "é 漢字 🎉\n",
}
"""The project."""

Facts = Mapping[str, object]
"""By place, such as `content.0.text` or `tools.*.name` for that of each, what stands there: a value, a pattern that the
whole text matches, or None where there is nothing."""


class Ask(NamedTuple):
    """A request, and the facts of its result; with a code, of the error that it leads to."""

    method: str
    params: Mapping[str, Any]
    facts: Facts
    code: int | None = None


class Edit(NamedTuple):
    """Somebody else writes a file."""

    path: str
    text: str


class Hear(NamedTuple):
    """A notification comes."""

    method: str
    facts: Facts


Step = Ask | Edit | Hear


def check(step: Ask | Hear, answer: Mapping[str, Any]) -> None:
    """Holds an answer, or the parameters of a notification, to the facts of its step."""
    for place, wanted in step.facts.items():
        found = _found(answer, place.split("."))
        said = f"{step.method}: {place} is {found!r}, not {wanted!r}"
        if isinstance(wanted, re.Pattern):
            assert isinstance(found, str), said
            assert wanted.fullmatch(found), said
        else:
            assert found == wanted, said


def _found(value: Any, path: Sequence[str]) -> Any:
    for position, part in enumerate(path):
        if part == "*":
            return [_found(each, path[position + 1 :]) for each in value]
        value = value[int(part)] if isinstance(value, list) else value.get(part)
        if value is None:
            return None
    return value


def _call(
    tool: str, arguments: Mapping[str, Any], text: object, facts: Facts | None = None, failed: bool = False
) -> Ask:
    """A call whose reply is this text, in one block and nowhere else."""
    always = {
        "content.*.type": ["text"],
        "content.0.text": text,
        "structuredContent": None,
        "isError": failed,
    }
    return Ask("tools/call", {"name": tool, "arguments": arguments}, {**always, **(facts or {})})


def _read(uri: str, text: object) -> Ask:
    facts = {"contents.*.uri": [uri], "contents.0.mimeType": "text/plain", "contents.0.text": text}
    return Ask("resources/read", {"uri": uri}, facts)


def _prompt(name: str, given: Mapping[str, str], text: str) -> Ask:
    facts = {"messages.*.role": ["user"], "messages.0.content.text": re.compile(text, re.DOTALL)}
    return Ask("prompts/get", {"name": name, "arguments": given}, facts)


def _refused(method: str, params: Mapping[str, Any], said: str) -> Ask:
    # Some clients set words of their own before the server's.
    return Ask(method, params, {"message": re.compile(f".*{re.escape(said)}.*")}, code=-32602)


_APP: Final = "1\timport os\n2\t\n3\t\n4\tdef start():\n5\t    return 1\n"
_GROUP: Final = r"# Main_view: src/app\.py.*start.*# src/util\.py.*helper.*"
_GROUP_FACTS: Final = r"g  Main_view, src/\*\.py  \d+/200 tokens  lod 1  follows"
_HANDLE: Final = {
    "name": "Main_view",
    "title": "src/app.py",
    "firstLine": 1,
    "lastLine": 5,
    "lines": 5,
    "tokens": 18,
    "budget": 300,
    "lod": 0,
    "follows": True,
    "statement": 1,
}
# A client with a process for each request is told of each worker that took over from the one before.
_QUIET: Final = r"(Nothing changed\.|rebuilt in a new worker: [^-+]*)"

LISTED: Final = Ask(
    "tools/list",
    {},
    {
        "tools.*.name": ["view", "group", "tick", "timeline", "run", "rewind", "replay"],
        "tools.*.inputSchema.type": ["object"] * 7,
        "tools.*.annotations.readOnlyHint": [True, True, True, True, False, False, False],
        "tools.*.annotations.destructiveHint": [False, False, False, False, True, True, False],
        "tools.*.outputSchema": [None] * 7,
    },
)
ESSENTIAL: Final[Sequence[Ask]] = (
    LISTED,
    _call("view", {}, "No handles are open. `view` with a path opens a view."),
    _call(
        "view",
        {"path": "src/app.py", "name": "Main_view", "tokens": 300, "follow": True},
        f"Main_view  src/app.py  lines 1-5 of 5  18/300 tokens  lod 0  follows  statement 1\n{_APP}",
        {f"_meta.rewindow/handle.{key}": value for key, value in _HANDLE.items()},
    ),
    _call(
        "group",
        {"name": "g", "add": ["Main_view", "src/*.py"], "tokens": 200},
        re.compile(rf"{_GROUP_FACTS}  statement 2\n{_GROUP}", re.DOTALL),
    ),
    _call("tick", {}, re.compile(rf"{_QUIET}\ncursor \d+")),
    _call("run", {"code": "print('é')\n6 * 7"}, re.compile(r"statement 3  ok  \d+ ms\né\n42")),
    _call(
        "timeline",
        {},
        re.compile(
            r"1  ok \d+ ms  Main_view = view\('src/app\.py', tokens=300, freq='Sync'\)\n"
            r"2  ok \d+ ms  g = group\(Main_view, 'src/\*\.py', tokens=200\)\n"
            r"3  ok \d+ ms  print\('é'\)"
        ),
    ),
    Ask(
        "resources/list",
        {},
        {"resources.*.uri": ["view://Main_view", "group://g", "timeline://session"]},
    ),
    Ask(
        "resources/templates/list",
        {},
        {"resourceTemplates.*.uriTemplate": ["view://{name}", "group://{name}", "changes://{cursor}"]},
    ),
    _read("view://Main_view", f"Main_view  src/app.py  lines 1-5 of 5  18/300 tokens  lod 0  follows\n{_APP}"),
    _read("group://g", re.compile(rf"{_GROUP_FACTS}\n{_GROUP}", re.DOTALL)),
    _read("timeline://session", re.compile(r"1  ok .*\n2  ok .*\n3  ok .*")),
    _read("changes://0", re.compile(rf"{_QUIET}\ncursor \d+")),
    Ask("prompts/list", {}, {"prompts.*.name": ["orient", "review-changes"]}),
    _prompt("orient", {"path": "src"}, r"Get to know the directory src .*add \[\"src/\*\*/\*\"\].*"),
    _prompt("review-changes", {}, rf"Review these changes .*\n\n{_QUIET}"),
)

_DIFF: Final = r"Main_view: .*-.*return 1.*\+.*return 2.*\ncursor \d+"
FURTHER: Final[Sequence[Step]] = (
    _call("timeline", {"statement": 3}, re.compile(r"3  ok \d+ ms\nprint\('é'\)\n6 \* 7\n--\né\n42")),
    _call(
        "view",
        {"path": "naïve ü.txt"},
        "na_ve  naïve ü.txt  lines 1-1 of 1  9/2000 tokens  lod 0  statement 4\n1\té 漢字 🎉\n",
    ),
    _call(
        "view",
        {},
        re.compile(
            r"3 handles\nMain_view  view  src/app\.py  18/300 tokens  lod 0  follows\n"
            r"g  group  Main_view, src/\*\.py  \d+/200 tokens  lod 1  follows\n"
            r"na_ve  view  naïve ü\.txt  9/2000 tokens  lod 0"
        ),
    ),
    Ask(
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "view://{name}"}, "argument": {"name": "name", "value": "Ma"}},
        {"completion.values": ["Main_view"]},
    ),
    # What somebody else writes is told to who subscribed, and adopted by `tick` alone.
    Ask("subscribe", {"uri": "view://Main_view"}, {}),
    Edit("src/app.py", "import os\n\n\ndef start():\n    return 2\n"),
    Hear("notifications/resources/updated", {"uri": "view://Main_view"}),
    _read("view://Main_view", re.compile(f".*{re.escape(_APP)}", re.DOTALL)),
    _call("tick", {}, re.compile(_DIFF, re.DOTALL)),
    _call("tick", {}, re.compile(r"Nothing changed\.\ncursor \d+")),
    _call("tick", {"since": 0}, re.compile(_DIFF, re.DOTALL)),
    _prompt("review-changes", {"since": "0"}, r".*-.*return 1.*\+.*return 2.*"),
    # Lists change where handles open and close.
    _call("view", {"name": "na_ve", "close": True}, "na_ve is closed  statement 5"),
    Hear("notifications/resources/list_changed", {}),
    # What a model can mend is a reply; what it cannot is an error.
    _call(
        "run",
        {"code": "1/0"},
        re.compile(r"statement 6  error .*\nTraceback.*ZeroDivisionError.*", re.DOTALL),
        failed=True,
    ),
    _call("view", {"name": "nothing"}, "There is no view nothing; open: Main_view.", failed=True),
    _call("view", {"tokens": "many"}, "`tokens` must be an integer, not 'many'.", failed=True),
    _refused("tools/call", {"name": "nothing", "arguments": {}}, "Unknown tool: nothing; the tools are view, group,"),
    _refused("resources/read", {"uri": "view://nobody"}, "Unknown resource: view://nobody; the known resources are "),
    _refused("prompts/get", {"name": "nothing", "arguments": {}}, "Unknown prompt: nothing; the prompts are orient,"),
    _refused(
        "prompts/get",
        {"name": "review-changes", "arguments": {"since": "x"}},
        "`since` must be a cursor that `tick` returned",
    ),
)
LEGACY: Final = (Ask("ping", {}, {}),)
"""What the newer era has no more."""
