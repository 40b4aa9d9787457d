"""A headless Chromium that tests drive, and pages of recorded sessions as files for it.

The browser runs below Node, which gets one command a line; see `tests/page/browser.mjs`. It needs the packages of
`tests/page`, which exist for Linux on x86-64.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio.to_thread
import pytest

from session_page.assembly import bundle, file_page, packed
from tests.support.node import node

HOME: Final = Path(__file__).parents[1] / "page"
RECORDED: Final = Path(__file__).parents[1] / "data" / "page"
VIEWS: Final = ("Timeline", "Files", "Context", "Views", "Requests", "Compare")
SIZES: Final = ((1440, 900), (400, 800))
SHOTS: Final = "REWINDOW_PAGE_SHOTS"
"""The variable with a folder for screenshots; without it none are taken."""
REQUIRED: Final = "REWINDOW_PAGE_REQUIRED"
"""The variable that forbids to skip these tests, for continuous integration."""


class BrowserError(AssertionError):
    """The browser could not do a command; the message says why."""


class Browser:
    """One tab. `open` begins a new one, with a profile of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def command(self, name: str, **fields: object) -> Any:
        """Do a command and return its value. Raises BrowserError."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": name, **fields}) + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BrowserError("the browser ended")
        answer = json.loads(line)
        if "error" in answer:
            raise BrowserError(answer["error"])
        return answer["value"]

    async def do(self, name: str, **fields: object) -> Any:
        """Do a command while this process serves the page."""
        return await anyio.to_thread.run_sync(lambda: self.command(name, **fields))

    async def open(self, url: str, **fields: object) -> None:
        await self.do("open", url=url, **fields)

    async def click(self, target: str) -> None:
        await self.do("click", target=target)

    async def fill(self, target: str, text: str) -> None:
        await self.do("fill", target=target, text=text)

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.do("press", key=key)

    async def wait(self, target: str, state: str = "visible") -> None:
        await self.do("wait", target=target, state=state)

    async def text(self, target: str) -> str:
        return await self.do("text", target=target)

    async def texts(self, target: str) -> list[str]:
        return await self.do("texts", target=target)

    async def count(self, target: str) -> int:
        return await self.do("count", target=target)

    async def evaluate(self, expression: str) -> Any:
        return await self.do("evaluate", expression=expression)

    async def problems(self) -> list[str]:
        """Errors, warnings and dialogs of the page since it was opened."""
        return await self.do("problems")

    async def shot(self, name: str) -> None:
        """Take a screenshot, if somebody wants them."""
        if folder := os.environ.get(SHOTS):
            await self.do("shot", path=str(Path(folder) / f"{name}.png"))


def lacking(what: str) -> NoReturn:
    """Skip a test that lacks something of the page's tests, or fail where these must run."""
    if os.environ.get(REQUIRED):
        pytest.fail(f"{what}, and {REQUIRED} is set")
    pytest.skip(what)


@contextmanager
def browser(patience: float = 20) -> Iterator[Browser]:
    """Start a browser that waits at most so many seconds for anything, or skip the test where it cannot run."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        lacking("the browser of these tests exists for Linux on x86-64 alone")
    if not (HOME / "node_modules").exists():
        lacking("tests/page/node_modules is not installed; `make test-all` installs it")
    environment = {**os.environ, "PATIENCE_MS": str(patience * 1000)}
    with subprocess.Popen(
        [node(), "browser.mjs"], cwd=HOME, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        tab = Browser(process)
        try:
            tab.answer()
            yield tab
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def recorded(name: str) -> dict[str, Any]:
    """Return a recorded document: small, branched or hostile."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def write_page(path: Path, document: Mapping[str, Any], comparisons: Sequence[Mapping[str, Any]] = ()) -> str:
    """Write the page of a document into a file, and return its address."""
    notes = {
        "made_at": 1796008940.0,
        "version": "1",
        "contains": ["A recorded session."],
        "left_out": [],
        "comparisons": list(comparisons),
    }
    data = {"schema": "session-file/1", "document": document, "file": notes}
    path.write_bytes(file_page(bundle(), packed(json.dumps(data).encode())))
    return path.as_uri()


def many(count: int) -> dict[str, Any]:
    """Return a document with that many statements, each with an execution, words around it and now and then a file."""
    document = recorded("small")
    document["contents"] = {}
    for table in ("statements", "executions", "files", "conversation", "requests", "calls", "messages", "questions"):
        document[table] = []
    for index in range(count):
        key = index * 10
        document["conversation"].append(
            {"key": key, "event": f"e{key}", "at": key, "branch": "main", "type": "reply" if index % 20 else "user",
             "text": {"text": f"Now I look at part {index}."}}
        )  # fmt: skip
        document["statements"].append(
            {"key": key + 1, "statement_id": f"st{index}", "index": index + 1, "branch": "main", "at": key,
             "source": {"text": f"part_{index} = read('part_{index}.txt').splitlines()\nprint(len(part_{index}))"},
             "by": "model", "call": f"call{index}", "executions": [key + 2], "before": [key]}
        )  # fmt: skip
        document["executions"].append(
            {"key": key + 2, "execution_id": f"ex{index}", "statement": key + 1, "branch": "main",
             "status": "error" if index % 50 == 7 else "ok", "started_at": key, "time_ms": index % 900, "counts": True,
             "stdout": {"text": {"text": f"{index}\n" * 20}, "bytes": 60},
             "names": [{"name": f"part_{index}", "change": "added", "type": "list", "value": f"[{index}]"}]}
        )  # fmt: skip
        document["calls"].append(
            {"key": index + 1, "position": key, "branch": "main", "at": key, "round": index, "used": 1000 + index,
             "size": 128000, "shared": 900 + index, "sections": {"instructions": 900, "results": 100 + index}}
        )  # fmt: skip
    document["branches"] = [{"key": "main", "last": count, "is_active": True}]
    document["session"]["events"] = count * 10
    return document
