"""The terminal's own commands, the words that leave, and the first screen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from engine.cli.terminal.interaction import greeting, model_name
from engine.cli.terminal.line_editor import LOCAL_COMMANDS, local_command_in
from engine.cli.terminal.rendering import painted
from engine.context.tail.rights import entered_sentence
from engine.core.ids import ExecutionId, StatementId
from engine.log.events.execution import ExecutionFinished
from engine.log.events.session import DomainEntered
from engine.session.session import Session

LONG = "\n".join(f"line {number}" for number in range(100))


def session(*values: str | None, entered: DomainEntered | None = None) -> Session:
    """What the commands look at of a session."""
    cells = [
        SimpleNamespace(
            index=number,
            finished=ExecutionFinished(
                execution_id=ExecutionId("e"),
                statement_id=StatementId(f"s{number}"),
                status="ok",
                started_at=0.0,
                ended_at=1.0,
                value=value,
            ),
        )
        for number, value in enumerate(values, 1)
    ]
    return cast("Session", SimpleNamespace(cells=cells, path=[entered] if entered else []))


def answer(line: str, of: Session) -> str | None:
    command, argument = local_command_in(line)
    assert command is not None
    return command.run(of, argument)


def test_open_shows_the_whole_result_of_a_statement() -> None:
    of = session("first", LONG, None)
    assert answer("/open 2", of) == f"Statement 2:\n```\n{LONG}\n```"
    assert answer("/open", of) == "Statement 3 gave nothing."
    assert answer("/open 9", of) == "There is no result of a statement `9`."
    assert answer("/open", session()) == "No statement has run yet."


def test_sandbox_says_what_the_line_in_the_session_leaves_out() -> None:
    entered = DomainEntered(held=True, writable=("/home/me/project",))
    assert answer("/sandbox", session(entered=entered)) == entered_sentence(entered)
    assert "No statement of a model has run yet" in (answer("/sandbox", session()) or "")


@pytest.mark.parametrize("word", ["exit", "quit", "exit()", "quit()", "/exit", " quit "])
def test_the_usual_words_leave(word: str) -> None:
    assert local_command_in(word) == (LOCAL_COMMANDS["exit"], "")
    assert answer(word, session()) is None


@pytest.mark.parametrize("model", ["direct", "provider:openai:gpt-5", "scripted:/tmp/replies.jsonl"])
def test_the_first_screen_names_the_model_in_two_lines_of_80_columns(model: str) -> None:
    text = painted(greeting(model), in_colour=False)
    first, second = text.splitlines()
    assert max(len(first), len(second)) <= 80
    assert model_name(model) in first or "No model is set" in first


def test_a_model_is_called_what_the_user_called_it_without_its_kind() -> None:
    assert model_name("provider:openai:gpt-5") == "openai:gpt-5"
    assert model_name("scripted:/tmp/replies.jsonl") == "replies.jsonl"
    assert model_name("direct") == "no model"
