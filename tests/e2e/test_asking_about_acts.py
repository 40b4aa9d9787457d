"""Questions about single changes, from a real agent: what happens to a file while one is open is never overwritten."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import Agent
from tests.support.scripts import last_value, reason, scripted
from tests.support.transcripts import Message, asks_permission, selected

OLD, NEW = "one\ntwo\n", "ONE\ntwo\n"
STATEMENT = """\
try:
    said = edit("{name}", "one", "ONE")
except OSError as error:
    said = f"{{type(error).__name__}}: {{error}}"
said
"""

Answering = Callable[[Agent, Message, Path], None]


def allow(agent: Agent, question: Message, _: Path) -> None:
    agent.answer(question, selected("allow_once"))


def reject(agent: Agent, question: Message, _: Path) -> None:
    agent.answer(question, selected("reject_once"))


def choose_what_was_not_offered(agent: Agent, question: Message, _: Path) -> None:
    agent.answer(question, selected("yes_to_all"))


def close(agent: Agent, question: Message, _: Path) -> None:
    agent.answer(question, {"outcome": {"outcome": "cancelled"}})


def say_nothing_and_cancel(agent: Agent, question: Message, _: Path) -> None:
    agent.notify("session/cancel", {"sessionId": question["params"]["sessionId"]})


def change_it_and_allow(agent: Agent, question: Message, file: Path) -> None:
    file.write_text("mine\n")
    allow(agent, question, file)


def remove_it_and_allow(agent: Agent, question: Message, file: Path) -> None:
    file.unlink()
    allow(agent, question, file)


def put_a_link_there_and_allow(agent: Agent, question: Message, file: Path) -> None:
    file.rename(file.parents[2] / "outside.txt")
    file.symlink_to(file.parents[2] / "outside.txt")
    allow(agent, question, file)


def swap_its_directory_and_allow(agent: Agent, question: Message, file: Path) -> None:
    file.parent.rename(file.parent.parent / "elsewhere")
    file.parent.symlink_to("elsewhere")
    allow(agent, question, file)


CASES: list[tuple[Answering, str, str | None]] = [
    (allow, "wrote case0/a.txt: +1 -1 at line 1", NEW),
    (reject, "PermissionError: The user rejected this change.", OLD),
    (choose_what_was_not_offered, "PermissionError: The user rejected this change.", OLD),
    (close, "", OLD),
    (say_nothing_and_cancel, "", OLD),
    (change_it_and_allow, "OSError: case5/a.txt has changed since the change was requested", "mine\n"),
    (remove_it_and_allow, "OSError: case6/a.txt was removed since the change was requested", None),
    (put_a_link_there_and_allow, "PermissionError: the path is outside the workspace", OLD),
    (swap_its_directory_and_allow, "OSError: the place of case8/a.txt has changed since", OLD),
]
"""What the user does with the question; what the statement gets; what the file then holds."""


@pytest.mark.slow
def test_no_write_without_approval_or_over_a_changed_file(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for number, _ in enumerate(CASES):
        folder = project / f"case{number}"
        folder.mkdir(parents=True)
        (folder / "a.txt").write_text(OLD)
    replies: list[dict[str, Any]] = []
    for number, (_, said, _) in enumerate(CASES):
        replies.append({"statement": STATEMENT.format(name=f"case{number}/a.txt")})
        replies += [{"text": "Done."}] if said else []  # because a turn that is cancelled calls no model again
    with Agent(tmp_path / "state", "--model", scripted(tmp_path, *replies), permission=None) as agent:
        session = agent.open(project)
        agent.call("session/set_config_option", {"sessionId": session, "configId": "_ask_about", "value": "acts"})
        for number, (answer, said, left) in enumerate(CASES):
            file = project / f"case{number}" / "a.txt"
            prompt = agent.begin_prompt(session, f"case {number}")
            question = agent.until(asks_permission)
            (diff,) = question["params"]["toolCall"]["content"]
            assert (diff["path"], diff["oldText"], diff["newText"]) == (str(file), OLD, NEW)
            answer(agent, question, file)
            ended = reason(agent.response(prompt))
            if said:
                assert (ended, (last_value(agent) or "").strip("'\"").startswith(said)) == ("end_turn", True), number
            else:
                assert ended == "cancelled"
            assert (file.read_text() if file.exists() else None) == left
        assert sum(map(asks_permission, agent.received)) == len(CASES)
    left_over = {path.name for path in project.rglob("*") if path.is_file()}
    assert left_over == {"a.txt"}
