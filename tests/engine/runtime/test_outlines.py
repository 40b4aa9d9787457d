"""Outlines that a process below the zygote makes: what it may die of, who may ask, and who answers then."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from engine.core.errors import EnvironmentUnavailableError
from engine.files import outlines as files_outlines
from engine.files.outline.fallbacks import outline_by_indentation
from engine.files.outline.languages import language_of
from engine.files.outline.model import Outline
from engine.files.revision import from_text
from engine.log.events.nodes import OutlineMade
from engine.runtime.sandbox import entering, seccomp
from engine.runtime.worker.handles.outlines import Outlines
from engine.runtime.worker.processes.brands import children_of
from engine.runtime.zygote import Zygote
from tests.support.workers import bench, shared_zygote

pytestmark = pytest.mark.anyio

PYTHON = b"class A:\n    def f(self):\n        return 1\n"
CONFLICT = b"%s<<<<<<< ours\n%s=======\n%s>>>>>>> theirs\n%s"
DEADLY = b"- " * 300
"""Crashes the grammar of YAML."""
ASK = (
    "import gc\n"
    "asker = next(o for o in gc.get_objects() if type(o).__name__ == 'Outlines')\n"
    "made = asker.outline(lambda: b'def f(): pass\\n', digest={digest!r}, path='a.py')\n"
    "made.tier, [s.name for s in made.symbols]"
)


@pytest.fixture
def outlines() -> Iterator[Outlines]:
    """What asks below the zygote that all tests share."""
    made = Outlines(shared_zygote().ask_outlines)
    yield made
    made.close()


def asked(outlines: Outlines, text: bytes, path: str) -> Outline:
    return outlines.outline(lambda: text, digest=str(hash(text)), path=path)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def parsers() -> set[int]:
    return set(children_of(str(shared_zygote().pid)) or ())


def test_a_process_below_the_zygote_makes_outlines_and_leaves_with_whoever_asked() -> None:
    before = parsers()
    outlines = Outlines(shared_zygote().ask_outlines)
    outline = asked(outlines, PYTHON, "a.py")
    assert (outline.tier, outline.language) == ("tree-sitter", "python")
    assert [symbol.qualified for symbol in outline.symbols] == ["A", "A.f"]
    assert len(parsers() - before) == 1
    outlines.close()
    eventually(lambda: parsers() <= before)


@pytest.mark.skipif(bool(seccomp.missing()), reason="this kernel has no filter of system calls")
def test_the_process_that_reads_a_text_is_in_a_sandbox(outlines: Outlines) -> None:
    before = parsers()
    asked(outlines, PYTHON, "a.py")
    (pid,) = parsers() - before
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
    assert not int(status["CapEff"], 16) & ~sum(1 << each for each in entering.of_root())


def test_a_text_that_ends_the_process_gets_another_tier_and_the_next_text_another_process(outlines: Outlines) -> None:
    assert asked(outlines, DEADLY, "a.yaml").tier != "tree-sitter"
    assert asked(outlines, b"a: 1\n", "a.yaml").tier == "tree-sitter"


def test_an_outline_is_made_once_and_by_the_tier_that_is_wanted(outlines: Outlines) -> None:
    asked_for: list[str] = []

    def text() -> bytes:
        asked_for.append("text")
        return PYTHON

    first = outlines.outline(text, digest="d", path="a.py")
    assert outlines.outline(text, digest="d", path="a.py") is first
    assert outlines.outline(text, digest="d", path="a.py", tier="tree-sitter") == first
    assert outlines.outline(text, digest="d", path="a.py", tier="indentation").tier == "indentation"
    assert asked_for == ["text"] * 3


def test_a_tier_that_only_earlier_versions_had_is_replaced_by_indentation(outlines: Outlines) -> None:
    board = files_outlines.Outlines(outlines)
    revision = from_text(PYTHON.decode())
    board.know({revision.digest: "ctags"})
    board.settle()
    assert board.of(revision, "a.py") == outline_by_indentation(PYTHON)
    assert board.take() == (OutlineMade(digest=revision.digest, tier="indentation"),)


def test_references_are_counted_where_they_are_asked_for(outlines: Outlines) -> None:
    text = b"def load():\n    return Store()\n"
    assert asked(outlines, text, "a.py").references == {}
    counted = outlines.outline(lambda: text, digest=str(hash(text)), path="a.py", references=True)
    assert counted.references == {"Store": 1}


def test_where_nobody_can_be_asked_the_outline_is_made_from_indentation() -> None:
    def refuse() -> socket.socket | None:
        raise OSError("no more files")

    def lose() -> socket.socket | None:
        raise EnvironmentUnavailableError("the zygote has just ended")

    for connect in (lambda: None, refuse, lose):
        assert asked(Outlines(connect), PYTHON, "a.py").tier == "indentation"


def test_an_interrupt_while_a_text_is_read_or_sent_spoils_no_later_question(outlines: Outlines) -> None:
    def interrupted() -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outlines.outline(interrupted, digest="x", path="a.py")
    assert asked(outlines, PYTHON, "a.py").tier == "tree-sitter"


async def test_a_statement_can_ask_in_any_mode_and_what_it_forks_has_no_part_in_that(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        assert await b.value(ASK.format(digest="1")) == "('tree-sitter', ['f'])"
        assert (await b.run(ASK.format(digest="2"), plan=True)).value == "('tree-sitter', ['f'])"
        again = ASK.format(digest="3").replace("\n", "\n    ")
        forked = f"{again}\n    print(made.tier, flush=True)\n    os._exit(0)"
        source = f"import os\nif os.fork():\n    os.wait()\nelse:\n    {forked}"
        assert (await b.run(source)).stdout.text == "indentation\n"
        assert await b.value(ASK.format(digest="4")) == "('tree-sitter', ['f'])"


@pytest.mark.slow
async def test_the_parser_of_a_worker_ends_with_it(tmp_path: Path) -> None:
    before = parsers()
    async with bench(tmp_path) as b:
        await b.value(ASK.format(digest="1"))
        assert len(parsers() - before) == 2
    await anyio.to_thread.run_sync(eventually, lambda: parsers() <= before)


@pytest.mark.slow
def test_a_killed_zygote_is_replaced_for_the_next_text() -> None:
    zygote = Zygote.spawn()
    try:
        outlines = Outlines(zygote.ask_outlines)
        assert asked(outlines, PYTHON, "a.py").tier == "tree-sitter"
        os.kill(zygote.pid, signal.SIGKILL)
        assert asked(outlines, PYTHON + b"\n", "a.py").tier == "tree-sitter"
    finally:
        zygote.close()


@pytest.mark.slow
def test_where_nobody_waits_a_large_text_is_read_to_its_end(outlines: Outlines) -> None:
    text = b"def first():\n" + b"    value = compute(1, 'two', [3, 4])\n" * 120_000 + b"def last(): pass\n"
    made = outlines.outline(lambda: text, digest="large", path="a.py", patient=True)
    assert (made.tier, made.complete) == ("tree-sitter", True)
    assert [symbol.name for symbol in made.symbols] == ["first", "last"]
    at_once = outlines.outline(lambda: text, digest="large", path="a.py")
    assert at_once.tier != "tree-sitter" or not at_once.complete


@pytest.mark.slow
@pytest.mark.parametrize("bracket", [b"(", b"[", b"{", b"<"])
@pytest.mark.parametrize("path", ["a.py", "a.cpp", "a.go", "a.rb", "a.cs", "a.yaml"])
def test_brackets_without_end_are_outlined_in_bounded_time(outlines: Outlines, path: str, bracket: bytes) -> None:
    began = time.process_time()
    asked(outlines, bracket * 60_000, path)
    assert time.process_time() - began < 1  # in this process; the other is ended by the kernel


SITE = Path(pytest.__file__).parents[1]
NODE = Path(__file__).parents[2] / "node" / "node_modules"
PACKAGES = [
    *(
        SITE / name
        for name in (
            "_pytest", "anyio", "click", "httpx", "hypothesis", "importlinter", "jsonschema", "msgspec",
            "prompt_toolkit", "psutil", "pydantic", "rich", "tiktoken", "typer",
        )
    ),
    *(NODE / name for name in ("@clack/core", "@copilotkit/aimock", "acpx", "commander", "jszip", "pako", "zod")),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_no_file_of_a_package_ends_the_process_whole_or_broken(outlines: Outlines, package: Path) -> None:
    before = parsers()
    asked(outlines, PYTHON, "a.py")
    own = parsers() - before
    files = sorted(path for path in package.rglob("*") if path.is_file() and language_of(path.name))
    assert files
    for path in files:
        text = path.read_bytes()
        lines = text.splitlines(keepends=True)
        half = len(lines) // 2
        ours = b"".join(lines[half : half + 5])
        conflict = CONFLICT % (b"".join(lines[:half]), ours, ours, b"".join(lines[half + 5 :]))
        assert asked(outlines, text, path.name).tier == "tree-sitter"
        for broken in (text[: len(text) // 2], conflict):
            outline = asked(outlines, broken, path.name)
            assert all(one.last_line <= max(outline.lines, 1) for one in outline.symbols)
    # A text that takes a second ends it as well as one that crashes it.
    assert parsers() - before == own
