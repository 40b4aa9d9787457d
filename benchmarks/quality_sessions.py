"""Coding sessions on two installed packages, and every prompt that they cause, with the files as they were then.

A session is a list of tasks, each one user prompt: list, search, open views at several levels, edit, run a check, look
again, tick. The functions come from the package's own syntax trees by a fixed seed, so a session is the same on each
machine that has the same versions. Between tasks an editor (this module) changes a file that a view follows. Must not
know what is measured: that is `bench_quality`.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import random
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.agents import Agent
from tests.support.llm_answers import chat
from tests.support.llm_server import Asked, llm_server

PACKAGES: Final = ("anyio", "httpx")
TASKS: Final = (3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
"""The tasks of each session. A task has ten statements and an answer."""
_LEAST_LINES: Final = 6

Files = Mapping[str, str]
"""Text by path, relative to the project."""


class Target(NamedTuple):
    """A function, the lines of it that a task replaces, and another function that mentions it."""

    path: str
    symbol: str
    old: str
    new: str
    needed: frozenset[str]
    """Names of the package that the changed lines and the function mention."""
    caller_path: str
    caller: str

    @property
    def name(self) -> str:
        return self.symbol.rpartition(".")[2]


class Step(NamedTuple):
    """A statement, and what it is to a program whose tools are a shell and an editor."""

    source: str
    plain: tuple[str, ...] = ()
    """`view PATH`, `shell COMMAND`, `edit PATH`, or nothing where such a program has nothing to do."""


class Prompt(NamedTuple):
    """What one call received. `step` is what the model replied, empty where it answered in prose."""

    messages: tuple[str, ...]
    files: Files
    step: Step
    task: int


def package(name: str) -> Path:
    """Where the installed package is."""
    spec = importlib.util.find_spec(name)
    assert spec
    assert spec.origin
    return Path(spec.origin).parent


def targets(project: Path, seed: int, number: int) -> list[Target]:
    """Functions of the project that another function mentions, in a fixed order."""
    found = list(_functions(project))
    names = {symbol.rpartition(".")[2] for _, symbol, _, _ in found}
    mentions = {(path, symbol): _names(text) & names for path, symbol, text, _ in found}
    random.Random(seed).shuffle(found)
    chosen: list[Target] = []
    for path, symbol, text, whole in found:
        name = symbol.rpartition(".")[2]
        callers = [each for each, used in mentions.items() if name in used and each[1].rpartition(".")[2] != name]
        old = _unique_end(text, whole)
        if name.startswith("__") or not callers or not old or any(each.path == path for each in chosen[-2:]):
            continue
        last = old.splitlines()[-1]
        indent = last[: len(last) - len(last.lstrip())]
        new = f"{old}\n{indent}# checked for {name}"
        needed = frozenset(_names(text) & names | {name})
        chosen.append(Target(path, symbol, old, new, needed, *callers[0]))
        if len(chosen) == number:
            break
    return chosen


def steps(target: Target, number: int) -> list[Step]:
    """What an agent does for one task."""
    path, name, caller = target.path, target.name, target.caller_path
    folder, check = path.partition("/")[0], f"python -m compileall -q {path}"
    word = rf"\b{name}\b"
    outline = (f"shell grep -nE '^ *(class|def|async def) ' {path}",)
    return [
        Step(f"ls({folder!r})", (f"shell ls {folder}",)),
        Step(f"grep({word!r}, {folder!r})[:30]", (f"shell grep -rnw {name} {folder}",)),
        Step(f"overview{number} = view({path!r}, lod=2)", outline),
        Step(f"outline{number} = view({path!r}, lod=1)"),
        Step(f"body{number} = view({path!r}, {target.symbol!r}, tokens=800, freq='Sync')", (f"view {path}",)),
        Step(f"edit({path!r}, {target.old!r}, {target.new!r})", (f"edit {path}",)),
        Step(f"bash({check!r})", (f"shell {check}",)),
        Step(f"show(body{number})", (f"view {path}",)),
        Step(f"caller{number} = view({caller!r}, {target.caller!r}, tokens=800, freq='Sync')", (f"view {caller}",)),
        Step("tick()"),
    ]


def play(name: str, seed: int, tasks: int, *, only: Sequence[Step] = ()) -> list[Prompt]:
    """Every call of one session on a copy of the package. With `only`, one task of these steps.

    Raises AssertionError where a call failed.
    """
    with tempfile.TemporaryDirectory() as directory, llm_server() as server:
        project = Path(directory) / "project"
        shutil.copytree(package(name), project / name, ignore=shutil.ignore_patterns("__pycache__"))
        chosen = targets(project, seed, tasks)
        asked = _Asked(project)
        server.asked = asked
        plan = [only] if only else [steps(target, number) for number, target in enumerate(chosen)]
        with Agent(Path(directory) / "state", "--model", "provider:openai:gpt-5", env=server.environment()) as agent:
            session = agent.open(project)
            for number, planned in enumerate(plan):
                calls = [json.dumps({"source": step.source}) for step in planned]
                server.answers += [chat("", call, f"c{number}_{at}") for at, call in enumerate(calls)] + [chat("Done.")]
                agent.prompt(session, f"Step {number}.", seconds=300)
                if not only:
                    _edit_outside(project / chosen[number].caller_path, number)
        replies = [(step, number) for number, planned in enumerate(plan) for step in (*planned, Step(""))]
        assert len(replies) == len(asked), f"{len(asked)} calls for {len(replies)} replies"
        return [
            Prompt(_messages(each.body), files, step, number)
            for each, files, (step, number) in zip(asked, asked.files, replies, strict=True)
        ]


class _Asked(list[Asked]):
    """What a server was asked, and the project's files at each of these moments."""

    def __init__(self, project: Path) -> None:
        super().__init__()
        self.files: list[Files] = []
        self._project = project
        self._texts: dict[str, str] = {}

    def append(self, value: Asked, /) -> None:
        texts = {str(path.relative_to(self._project)): path.read_text() for path in self._project.rglob("*.py")}
        self.files.append({path: self._texts.setdefault(text, text) for path, text in texts.items()})
        super().append(value)


def _messages(body: dict[str, Any]) -> tuple[str, ...]:
    return tuple(
        f"{message.get('content') or ''}{json.dumps(message['tool_calls']) if message.get('tool_calls') else ''}"
        for message in body["messages"]
    )


def _edit_outside(path: Path, number: int) -> None:
    """What an editor saves between two tasks: a line after the first blank one, which is outside of any statement."""
    lines = path.read_text().splitlines(keepends=True)
    at = next((at for at, line in enumerate(lines) if line.startswith(("import ", "from "))), 0)
    path.write_text("".join([*lines[:at], f"# note {number}\n", *lines[at:]]))


def _functions(project: Path) -> Iterator[tuple[str, str, str, str]]:
    """Path, symbol, own text and the whole file's of each function that is long enough."""
    for path in sorted(project.rglob("*.py")):
        whole = path.read_text()
        tree = ast.parse(whole)
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        for owner, body in [("", tree.body), *((node.name + ".", node.body) for node in classes)]:
            for node in body:
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                    lines = whole.splitlines()[node.lineno - 1 : node.end_lineno]
                    if len(lines) >= _LEAST_LINES:
                        yield str(path.relative_to(project)), owner + node.name, "\n".join(lines), whole


def _names(text: str) -> set[str]:
    words = "".join(char if char.isalnum() or char == "_" else " " for char in text).split()
    return {word for word in words if len(word) > 3 and not word.isdigit()}


def _unique_end(text: str, whole: str) -> str:
    """The last lines of a function, at least two, as many as occur once; empty where none do."""
    lines = text.splitlines()
    ends = ("\n".join(lines[-many:]) for many in range(2, len(lines)))
    return next((end for end in ends if whole.count(end) == 1), "")
