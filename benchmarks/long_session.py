"""A session of 50 Rounds on a real project whose files change, played against a server that keeps every prompt.

The replies are fixed: they open views, follow some of them, search, edit, run programs, and answer; between prompts an
editor (this module) changes files, also the project's AGENTS.md, five times. What the server received is all that is
looked at: the tokens of each prompt, how many of them it shares with the one before from the first on, and how many the
tail takes. Beside it the same prompts stand with every view's text as the file is at that moment, which is what re-
rendering everything would send.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.prompts import shared_tokens, text_of
from engine.core.tokens import count
from tests.support.agents import Agent
from tests.support.llm_answers import chat
from tests.support.llm_server import llm_server

PROJECT: Final = Path(__file__).parent.parent / "tests" / "data" / "projects" / "cachetools"
PROMPTS: Final = 10
_FOLLOWED: Final = ("src/cachetools/keys.py", "src/cachetools/func.py", "tests/test_lru.py")
_LOOKED_AT: Final = (
    "src/cachetools/__init__.py",
    "tests/test_lfu.py",
    "tests/test_rr.py",
    "tests/test_keys.py",
    "tests/test_fifo.py",
    "tests/test_ttl.py",
    "tests/test_func.py",
)
_PROMPT: Final = "Step {number}: make the caches of part {number} clearer."
_SAID: Final = re.compile(_PROMPT.format(number=r"\d+") + r"\s*")
_VIEW: Final = "{name} = view({path!r}, tokens={tokens}{follow})"


class Played(NamedTuple):
    """Tokens over all prompts: sent, shared with the prompt before, in tails; and those of re-rendered prompts."""

    prompts: int
    sent: int
    shared: int
    tails: int
    rerendered_sent: int
    rerendered_shared: int
    trivial_bytes: int


def play(prompts: int = PROMPTS) -> Played:
    """Five Rounds for each prompt; the project's AGENTS.md changes before every second one, from the third on."""
    with tempfile.TemporaryDirectory() as directory, llm_server() as server:
        place = Path(directory)
        project = place / "project"
        shutil.copytree(PROJECT, project)
        _instruct(project, 0)
        arguments = ("--model", "provider:openai:gpt-5")
        contents: list[dict[str, str]] = []
        with Agent(place / "state", *arguments, env=server.environment()) as agent:
            session = agent.open(project)
            for number in range(prompts):
                replies = [chat("", json.dumps({"source": source}), f"c{number}_{n}") for n, source in _cells(number)]
                server.answers += [*replies, chat(f"Step {number} is done.")]
                agent.prompt(session, _PROMPT.format(number=number), seconds=120)
                contents += [_contents(project)] * (len(replies) + 1)
                _edit_outside(project, number)
                if number % 2:
                    _instruct(project, number)
        bodies = [asked.body for asked in server.asked]
        with llm_server(chat("Hi.")) as other:
            with Agent(place / "other", *arguments, env=other.environment()) as agent:
                agent.prompt(agent.open(place), "hello")
            trivial = len(json.dumps(other.asked[0].body).encode())
    texts = [text_of(body) for body in bodies]
    tails = [_tail(body) for body in bodies]
    # Without the tail, which re-rendering everything would have no need of.
    rerendered = [
        _rerendered(text.removesuffix(tail), now) for text, tail, now in zip(texts, tails, contents, strict=True)
    ]
    return Played(
        prompts=len(texts),
        sent=sum(map(count, texts)),
        shared=shared_tokens(texts),
        tails=sum(map(count, tails)),
        rerendered_sent=sum(map(count, rerendered)),
        rerendered_shared=shared_tokens(rerendered),
        trivial_bytes=trivial,
    )


def _cells(number: int) -> Sequence[tuple[int, str]]:
    """The statements of one prompt."""
    path = (_FOLLOWED + _LOOKED_AT)[number % 10]
    follow = ", freq='Sync'" if path in _FOLLOWED else ""
    sources = (
        _VIEW.format(name=f"v{number}", path=path, tokens=1_500, follow=follow),
        f"hits = grep('def |class ', {path!r}); [hit.text for hit in hits[:8]]",
        f"with open({path!r}, 'a') as file: print('# step {number}', file=file)",
        f"bash('wc -l {path} && python -m compileall -q {path}')",
    )
    return list(enumerate(sources))


def _edit_outside(project: Path, number: int) -> None:
    """What an editor saves while the agent is idle: a line in one of the files that are followed."""
    path = project / _FOLLOWED[number % len(_FOLLOWED)]
    lines = path.read_text().splitlines(keepends=True)
    at = min(len(lines) - 1, 5 + 3 * number)
    path.write_text("".join([*lines[:at], f"# note {number}\n", *lines[at:]]))


def _instruct(project: Path, number: int) -> None:
    """Write the project's instructions; with each number some of their 60 lines differ."""
    lines = [f"- Rule {line}: keep part {line} of the caches as plain as it is." for line in range(60)]
    lines[number * 5 : number * 5 + 3] = [
        f"- Since step {number}: name things of part {part} anew." for part in range(3)
    ]
    (project / "AGENTS.md").write_text("\n".join(["# Rules", "", *lines, ""]))


def _contents(project: Path) -> dict[str, str]:
    return {path: (project / path).read_text() for path in (*_FOLLOWED, *_LOOKED_AT)}


def _tail(body: dict[str, Any]) -> str:
    """What follows the prompt in the last message, or all of that message where it follows a result."""
    text = str(body["messages"][-1]["content"])
    return text[said.end() :] if (said := _SAID.match(text)) else text


def _rerendered(text: str, now: dict[str, str]) -> str:
    """The prompt with each view's lines as they are now."""
    for path, content in now.items():
        start = text.find(f"[{path}]\n")
        if start < 0:
            continue
        body = start + len(path) + 3
        lines = text[body:].split("\n")
        shown = next((at for at, line in enumerate(lines) if not line.partition("\t")[0].isdigit()), len(lines))
        fresh = [f"{at}\t{line}" for at, line in enumerate(content.splitlines()[:shown], 1)]
        text = text[:body] + "\n".join(fresh + lines[shown:])
    return text
