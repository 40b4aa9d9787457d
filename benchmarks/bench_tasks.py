"""What small coding tasks cost: model calls, tokens that a model reads and writes, and questions to the user.

The tasks and the replies of a scripted model are in `tests/data/tasks`. A script says what it says, so this measures
what the instructions make possible and not what a model does with them: `ours` is the shortest script that solves the
task with the tools, `before` the shortest one without them on the other checkout, `plain` the same one here, and
`one act each` is ours with every act in a statement of its own, as models call the tools of other agents. Every run has
to leave the same files. Nothing is timed.
"""

from __future__ import annotations

import ast
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from benchmarks.clients import Client
from benchmarks.environments import Checkout
from benchmarks.measuring import Figures, Setting, row
from benchmarks.report import Row
from engine.core.tokens import count
from tests.support.coding_tasks import CodingTask, Reply, coding_task, environment, texts

TASKS: Final = ("mru", "rename", "check")


class Cost(NamedTuple):
    """Of one task. `read` is all that was sent to the model over all its calls, in tokens; `written` what it said."""

    calls: float
    read: float
    written: float
    questions: float
    files: dict[str, str]


def run(setting: Setting = Setting()) -> list[Row]:  # noqa: B008 -- immutable
    """Five rows for each task."""
    return [each for name in TASKS for each in _rows(name, setting)]


def _rows(name: str, setting: Setting) -> list[Row]:
    tools, plain = coding_task(name), coding_task(name, "plain")
    ours = setting.checkouts["ours"]
    runs = {"ours": (ours, tools)}
    if setting.against is not None:
        runs["before"] = (setting.against, plain)
    runs |= {"plain": (ours, plain), "one act each": (ours, _one_act_each(tools))}
    costs = {subject: _cost(checkout, task) for subject, (checkout, task) in runs.items()}
    _check_same(name, costs)
    acts = {"ours": _cost(ours, tools, acts=True).questions, "plain": _cost(ours, plain, acts=True).questions}
    return [
        row(f"{name}: model calls", _figures(costs, "calls"), _number),
        row(f"{name}: tokens read by the model", _figures(costs, "read"), _number),
        row(f"{name}: tokens written by the model", _figures(costs, "written"), _number),
        row(f"{name}: questions, asking about statements", _figures(costs, "questions"), _number),
        row(f"{name}: questions, asking about acts", acts, _number),
    ]


def _figures(costs: dict[str, Cost], field: str) -> Figures:
    return {subject: getattr(cost, field) for subject, cost in costs.items()}


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _check_same(name: str, costs: dict[str, Cost]) -> None:
    for subject, cost in costs.items():
        if cost.files != costs["ours"].files:
            differing = sorted(path for path, text in cost.files.items() if costs["ours"].files.get(path) != text)
            raise RuntimeError(f"{name}: {subject} left other files than ours: {', '.join(differing) or 'fewer'}")


def _one_act_each(task: CodingTask) -> CodingTask:
    """The same acts, each in a statement of its own with what prepares it."""
    cells = [Reply(reply.text if not part else "", source) for reply in task.replies for part, source in _parts(reply)]
    return task._replace(replies=tuple(cells))


def _parts(reply: Reply) -> Iterator[tuple[int, str]]:
    lines, start, part = reply.source.splitlines(keepends=True), 0, 0
    for node in ast.parse(reply.source).body:
        calls = isinstance(node, ast.Expr | ast.For) or isinstance(getattr(node, "value", None), ast.Call)
        if calls:
            yield part, "".join(lines[start : node.end_lineno])
            start, part = node.end_lineno or 0, part + 1
    assert start == len(lines), "the last statement performs nothing"


def _cost(checkout: Checkout, task: CodingTask, *, acts: bool = False) -> Cost:
    with tempfile.TemporaryDirectory() as directory, patch.dict(os.environ, environment()):
        place = Path(directory)
        project = task.copy(place / "project")
        script = place / "replies.jsonl"
        script.write_text("\n".join(json.dumps(reply) for reply in task.script()))
        client = Client((checkout.agent, "--model", f"scripted:{script}"), place / "state", str(project))
        session = client.open()
        if acts:
            client.call("session/set_config_option", {"sessionId": session, "configId": "_ask_about", "value": "acts"})
        used, questions = _solve(client, session, task.request)
        client.close()
        said = sum(count(reply.text) + count(reply.source) for reply in task.replies) + count(task.summary)
        return Cost(len(used), sum(used), said, questions, texts(project))


def _solve(client: Client, session: str, request: str) -> tuple[list[int], int]:
    """The tokens of each model call, and how many questions were asked; all are answered with yes."""
    used: list[int] = []
    questions = 0
    prompt = client.begin_prompt(session, request)

    def ends(message: dict[str, Any]) -> bool:
        nonlocal questions
        update = message.get("params", {}).get("update", {})
        if update.get("sessionUpdate") == "usage_update":
            used.append(update["used"])
        if message.get("method") == "session/request_permission":
            questions += 1
            client.answer(message["id"], {"outcome": {"outcome": "selected", "optionId": "allow_once"}})
        return message.get("id") == prompt and "method" not in message

    assert "result" in client.until(ends)
    return used, questions
