"""The examples of docs/views.md give the results that it shows, and it names every method of views and groups."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.files.group import GroupHandle
from engine.files.view import ViewHandle
from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.memory import in_memory
from tests.support.workers import shared_zygote

PAGE = (Path(__file__).parents[2] / "docs" / "views.md").read_text(encoding="utf-8")
FILES = re.findall(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CALLED_BY_TICKS = {"OnMemberChanged", "Tick"}
BLOCKS = re.findall(r"^```pycon\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """Each prompt of the page, in order, with the result shown after it."""
    parts = re.findall(r"^>>> (.*(?:\n\.\.\. .*)*)\n((?:(?!>>> ).*\n)*)", "".join(BLOCKS), re.MULTILINE)
    return [(prompt.replace("\n... ", "\n"), result.rstrip("\n")) for prompt, result in parts]


def plain(text: str) -> str:
    """What an editor was sent, without the fences that make it Markdown."""
    return "\n".join(line for line in text.split("\n") if line != "```").rstrip("\n")


@pytest.mark.anyio
async def test_examples_give_the_results_shown(tmp_path: Path) -> None:
    for name, text in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    results: list[tuple[str, str]] = []
    async with in_memory(tmp_path, environments=lambda: WorkerEnvironment(shared_zygote())) as client:
        session = await client.open(tmp_path)
        for prompt, _ in examples():
            before = len(client.text())
            await client.prompt(session, prompt)
            results.append((prompt, plain(client.text()[before:])))
    assert results == examples()


@pytest.mark.parametrize("kind", [ViewHandle, GroupHandle])
def test_every_method_is_named(kind: type) -> None:
    methods = {name for name in dir(kind) if name[0].isupper()} - CALLED_BY_TICKS
    assert methods
    assert not [name for name in methods if f"`{name}" not in PAGE]
