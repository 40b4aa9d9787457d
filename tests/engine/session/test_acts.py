"""What the host answers a statement, and what of it goes on the log."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
import pytest

from engine.core.ids import ExecutionId, ToolCallId
from engine.log.events import Event
from engine.log.events.conversation import ToolResult
from engine.log.statements import EffectAnswer, EffectRequest
from engine.session.directories import Scratch
from engine.session.editor_files import EditorBuffers
from engine.session.fetching import Fetcher
from engine.session.forms import FormQuestions
from engine.session.policy import Questions
from engine.session.tool_calls import ToolCalls, ToolContext
from engine.session.tool_records import SHOWN_CHARS, FileState, file_state
from engine.session.tools import OPERATIONS, SeenFiles, Workspace
from engine.session.working_tree.changes import TreeComparison
from tests.support.in_process import InProcessEnvironment
from tests.support.session_parts import session_parts

pytestmark = pytest.mark.anyio
SECONDS = 10.0
PARENT = ToolCallId("p")


async def performed(root: Path, operation: str, **arguments: object) -> tuple[EffectAnswer, ToolResult]:
    """The answer to one effect, and the result that the log has of it."""
    answer, events = await logged(root, operation, arguments)
    (result,) = [event for event in events if isinstance(event, ToolResult)]
    return answer, result


async def logged(root: Path, operation: str, arguments: dict[str, object]) -> tuple[EffectAnswer, Sequence[Event]]:
    """The answer to one effect, and all that the log has of it."""
    parts, workspace = session_parts(root), Workspace(str(root))
    log = parts.log
    desk = ToolContext(
        parts=parts,
        workspace=workspace,
        questions=Questions(log, parts.policy, parts.redactor, workspace.roots),
        forms=FormQuestions(parts.redactor),
        fetcher=Fetcher(),
        downloads=Scratch(root, parts.session_id).keep,
        seen=SeenFiles(),
        comparison=TreeComparison(parts, workspace),
        buffers=EditorBuffers(workspace, parts.clock),
        dismissed=lambda: None,
    )
    acts = ToolCalls(desk, ExecutionId("ex"), PARENT, approved=True)
    with anyio.fail_after(SECONDS):
        answer = await acts.perform(
            EffectRequest(ordinal=0, operation=operation, arguments=arguments), InProcessEnvironment(len)
        )
    return answer, log.events


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("write", {"path": "a", "text": ["x" * 100] * 10_000}),
        ("write", {"path": "a", "text": {"x" * 1_000_000: 1}}),
        ("read", {"path": "a" * 1_000_000}),
        ("read", {"path": "a", "x" * 1_000_000: 1}),
        ("read", {str(number): "x" * 2_000 for number in range(1_000)}),
        ("x" * 1_000_000, {}),
    ],
)
async def test_whatever_is_asked_the_log_repeats_a_bounded_part(
    tmp_path: Path, operation: str, arguments: dict[str, object]
) -> None:
    answer, events = await logged(tmp_path, operation, arguments)
    assert answer.error is not None
    assert sum(len(msgspec.json.encode(event)) for event in events) < 100_000


async def test_statement_gets_the_whole_answer_and_the_log_its_beginning(tmp_path: Path) -> None:
    text = "x" * (SHOWN_CHARS + 5)
    (tmp_path / "a.txt").write_text(text)
    answer, result = await performed(tmp_path, "read", path="a.txt")
    assert answer.value == text
    assert (result.status, result.parent_id) == ("ok", PARENT)
    assert result.text == "x" * SHOWN_CHARS + "\n... 5 more characters"


@pytest.mark.parametrize("operation", ["", "workspace", "os", "../read", "view"])
async def test_unknown_operation_is_refused(tmp_path: Path, operation: str) -> None:
    answer, result = await performed(tmp_path, operation)
    assert answer.error is not None
    assert answer.error.type == "ValueError"
    assert answer.error.message == f"no operation {operation!r}; there are {', '.join(OPERATIONS)}"
    assert result.status == "error"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": 3}, "path must be str, not int"),
        ({"path": ["a"]}, "path must be str, not list"),
        ({"path": "a", "start_line": "1"}, "start_line must be int | None, not str"),
        ({}, "Object missing required field `path`"),
    ],
)
async def test_arguments_of_another_type_are_the_statements_mistake(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    answer, result = await performed(tmp_path, "read", **arguments)
    assert answer.error is not None
    assert (answer.error.type, answer.error.message) == ("TypeError", f"read(): {said}")
    assert result.text == f"TypeError: read(): {said}"


LIMIT = 1 << 20


def test_a_file_is_read_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    assert file_state(str(tmp_path / "file"), LIMIT).data == b"text"


def test_a_link_above_the_name_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/file").write_text("theirs")
    (tmp_path / "work").symlink_to("secret")
    assert file_state(str(tmp_path / "work/file"), LIMIT) == FileState()
    assert file_state(str(tmp_path / "secret/../secret/file"), LIMIT) == FileState()


def test_what_speaks_of_this_process_is_no_file() -> None:
    assert file_state(f"/proc/{os.getpid()}/environ", LIMIT) == FileState()
    assert file_state("/proc/self/environ", LIMIT) == FileState()
