"""The judge of sessions on a cluster notices what it must, and a few kills with a fixed seed leave nothing wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.cluster import episode, world_of
from tests.faults.cluster_judge import FOR_NOW, Act, Book, violations

Message = dict[str, Any]
SEED = 7
pytestmark = pytest.mark.anyio


def turn(book: Book, text: str, status: str = "ok", stdout: str = "") -> None:
    """Add the events of one prompt that ran as a statement."""
    name = str(len(book.log))
    call = {"tool_call_id": f"call_{name}"}
    statement, execution = {"statement_id": f"st_{name}"}, {"execution_id": f"ex_{name}"}
    for event in (
        {"kind": "user_message", "text": text},
        {"kind": "tool_call", **call},
        {"kind": "statement_recorded", "source": text, **statement},
        {"kind": "execution_started", **execution, **statement},
        {"kind": "execution_finished", "status": status, "stdout": {"text": stdout}, **execution, **statement},
        {"kind": "tool_result", **call},
        {"kind": "run_stop"},
    ):
        book.audit.append((len(book.log), "store", 1, "backend"))
        book.log.append({"seq": len(book.log), **event})


@pytest.fixture
def story(tmp_path: Path) -> tuple[list[Act], Book, Path]:
    """A session with nothing wrong: an interrupted write, and a statement that failed, are among its acts."""
    acts = [
        Act("v0 = 1", name="v0", reason="end_turn"),
        Act("write('f.txt', 'old')", path="f.txt", content="old", reason="end_turn"),
        Act("write('f.txt', 'new')", path="f.txt", content="new"),
        Act("v1 = v0 + 1", name="v1", reason="end_turn"),
        Act("v2 = v0 + 2", name="v2"),
        Act("never stored", refusal="no"),
        Act("show", reason="end_turn"),
    ]
    book = Book()
    for act, status in zip(acts[:5], ("ok", "ok", "interrupted", "ok", "interrupted"), strict=True):
        turn(book, act.text, status)
    turn(book, "show", stdout="NAMES [('v0', 1), ('v1', 2)]")
    (tmp_path / "f.txt").write_text("new")
    assert violations(acts, book, tmp_path) == []
    return acts, book, tmp_path


def _lose_turn(_: list[Act], book: Book, __: Path) -> None:
    del book.log[:7], book.audit[:7]


def _repeat_turn(_: list[Act], book: Book, __: Path) -> None:
    turn(book, "v0 = 1")


def _repeat_event(_: list[Act], book: Book, __: Path) -> None:
    book.log.append({**book.log[4], "seq": len(book.log)})


def _run_refused(acts: list[Act], book: Book, __: Path) -> None:
    turn(book, acts[5].text)


def _leave_open(_: list[Act], book: Book, __: Path) -> None:
    del book.log[-1], book.audit[-1]


def _write_twice(_: list[Act], book: Book, __: Path) -> None:
    book.audit[3] = (3, "other store", 1, "backend")


def _write_late(_: list[Act], book: Book, __: Path) -> None:
    book.audit[3] = (3, "store", 2, "backend")


def _write_unnoted(_: list[Act], book: Book, __: Path) -> None:
    del book.audit[3]


def _show(names: str) -> Callable[[list[Act], Book, Path], None]:
    def change(_: list[Act], book: Book, __: Path) -> None:
        book.log[-3]["stdout"]["text"] = names

    return change


def _file(name: str, text: str) -> Callable[[list[Act], Book, Path], None]:
    return lambda _, __, work: (work / name).write_text(text) and None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_lose_turn, "'v0 = 1' was sent 1 times, acknowledged 1, stored 0 times"),
        (_lose_turn, "not numbered one after another"),
        (_repeat_turn, "'v0 = 1' was sent 1 times, acknowledged 1, stored 2 times"),
        (_repeat_event, "execution_finished of ex_0 is stored 2 times"),
        (_run_refused, "'never stored' was refused (no), and ran: ok"),
        (_leave_open, "6 user_message and 5 run_stop"),
        (_write_twice, "the connection backend has written under 2 leases' owners"),
        (_write_late, "under an earlier lease"),
        (_write_unnoted, "42 events, and 41 were noted"),
        (_show("NAMES [('v0', 1)]"), "v1 is None, and must be 2"),
        (_show("NAMES [('v0', 1), ('v1', 3)]"), "v1 is 3, and must be 2"),
        (_show("NAMES [('v0', 1), ('v1', 2), ('v2', 3)]"), "v2 is 3, and must be None"),
        (_show(""), "the variables were not shown"),
        (_file("f.txt", "ne"), "f.txt is 'ne'"),
        (_file("other.tmp", "x"), "a file is left: other.tmp"),
    ],
)
def test_the_judge_notices(
    story: tuple[list[Act], Book, Path], change: Callable[[list[Act], Book, Path], None], sentence: str
) -> None:
    change(*story)
    assert any(sentence in each for each in violations(*story))


def test_a_prompt_that_was_refused_for_now_may_have_run(story: tuple[list[Act], Book, Path]) -> None:
    acts, book, work = story
    acts[5].refusal = f"session x is {FOR_NOW}: y"
    turn(book, acts[5].text)
    turn(book, "show", stdout="NAMES [('v0', 1), ('v1', 2)]")
    acts.append(Act("show", reason="end_turn"))
    assert violations(acts, book, work) == []


@pytest.mark.slow
async def test_a_few_kills_on_a_cluster() -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    with world_of(1) as world:
        counts, wrong, stories = await episode(world, SEED, kills=4, sessions=4)
    assert wrong == []
    assert counts.total() >= 4
    assert any(act.is_acknowledged for story in stories for act in story.acts)
