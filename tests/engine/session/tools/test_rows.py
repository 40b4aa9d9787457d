"""Each row of the toolbox has its module, and both take the same arguments."""

from __future__ import annotations

import msgspec
import pytest

from engine.core.toolbox import FILES, INJECTED, REQUIRED, ROUTED, TOOLS, VIEWS, call_title, tool_named
from engine.log.cycles.views import GROUPS
from engine.session.tools import OPERATIONS

OF_ROUTED_WRITES = ("write", "mode")
"""An argument that no statement gives: it comes with what other code opens."""


@pytest.mark.parametrize("name", [*TOOLS, *ROUTED])
def test_a_row_and_its_module_take_the_same_arguments(name: str) -> None:
    tool = tool_named(name)
    assert tool is not None
    row = [(each.name, each.type, each.default) for each in tool.parameters]
    fields = msgspec.structs.fields(OPERATIONS[name].arguments)
    taken = [(each.name, each.type, REQUIRED if each.default is msgspec.NODEFAULT else each.default) for each in fields]
    assert row == [each for each in taken if (name, each[0]) != OF_ROUTED_WRITES]


@pytest.mark.parametrize("name", TOOLS)
def test_row_has_its_own_name_and_plain_arguments(name: str) -> None:
    tool = TOOLS[name]
    assert tool.name == name
    assert tool.doc
    assert tool.examples
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"nothing of this name": 1}, OPERATIONS[name].arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "title"),
    [
        ("read", {"path": "a.py", "start_line": 3, "end_line": 9}, "Read a.py from line 3 to line 9"),
        ("read", {"path": "{path}\0{x}"}, "Read {path}\0{x}"),
        ("grep", {"pattern": "x", "path": ".", "glob": None, "context": 0}, 'Search "x"'),
        ("grep", {"pattern": "x", "path": "src", "glob": "*.py"}, 'Search "x" in src, in *.py'),
        ("find", {"glob": "*.py", "path": "."}, "Find *.py"),
        ("write", {"path": "a.py", "text": "x"}, "Write a.py"),
        ("grep", {"path": "a.py"}, "grep a.py"),
        ("rename", {"path": "b", "source": "a"}, "Rename a to b"),
        ("Read", {"path": "a.py"}, "Read a.py"),
    ],
)
def test_a_call_has_a_title_of_what_it_was_given(name: str, arguments: dict[str, object], title: str) -> None:
    assert call_title(name, arguments) == title


@pytest.mark.parametrize("name", TOOLS)
def test_required_arguments_make_a_title(name: str) -> None:
    row = TOOLS[name]
    required = {each.name: f"<{each.name}>" for each in row.parameters if each.default is REQUIRED}
    assert "<" in call_title(name, required)
    assert "{" not in call_title(name, {each.name: "given" for each in row.parameters})


def test_no_tool_takes_the_name_of_another_injected_name() -> None:
    assert not VIEWS.keys() & TOOLS.keys()
    assert len(INJECTED) == len(VIEWS) + len(TOOLS) + len(FILES) + 1


def test_calls_are_grouped_by_rows_or_usual_names() -> None:
    assert {name: GROUPS[name] for name in TOOLS} == {name: tool.group for name, tool in TOOLS.items()}
    assert (GROUPS["grep"], GROUPS["edit"], GROUPS["bash"]) == ("read-group", "write-group", "bash-group")
