"""Outlines that a process below the zygote makes: what it may die of, who may ask, and who answers then."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core.errors import EnvironmentUnavailableError
from engine.files import outlines as files_outlines
from engine.files.outline.fallbacks import outline_by_indentation
from engine.files.outline.model import Outline
from engine.log.events.nodes import OutlineMade
from engine.runtime.sandbox import entering, seccomp
from engine.runtime.system.process_table import children_of
from engine.runtime.worker.handles.outlines import Outlines
from tests.support.revisions import from_text
from tests.support.workers import WorkerBench, shared_zygote

PYTHON = b"class A:\n    def f(self):\n        return 1\n"
DEADLY = b"- " * 300
"""Crashes the grammar of YAML."""
ASK = (
    "import gc\n"
    "asker = next(o for o in gc.get_objects() if type(o).__name__ == 'Outlines' and hasattr(o, 'outline'))\n"
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


def test_parser_process_makes_outlines_and_ends_with_its_user() -> None:
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


def test_deadly_text_gets_another_tier_and_a_new_parser(outlines: Outlines) -> None:
    assert asked(outlines, DEADLY, "a.yaml").tier != "tree-sitter"
    assert asked(outlines, b"a: 1\n", "a.yaml").tier == "tree-sitter"


def test_outline_is_made_once_per_wanted_tier(outlines: Outlines) -> None:
    asked_for: list[str] = []

    def text() -> bytes:
        asked_for.append("text")
        return PYTHON

    first = outlines.outline(text, digest="d", path="a.py")
    assert outlines.outline(text, digest="d", path="a.py") is first
    assert outlines.outline(text, digest="d", path="a.py", tier="tree-sitter") == first
    assert outlines.outline(text, digest="d", path="a.py", tier="indentation").tier == "indentation"
    assert asked_for == ["text"] * 3


def test_unknown_tier_is_replaced_by_indentation(outlines: Outlines) -> None:
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


def test_outline_without_a_parser_is_by_indentation() -> None:
    def refuse() -> socket.socket | None:
        raise OSError("no more files")

    def lose() -> socket.socket | None:
        raise EnvironmentUnavailableError("the zygote has just ended")

    for connect in (lambda: None, refuse, lose):
        assert asked(Outlines(connect), PYTHON, "a.py").tier == "indentation"


def test_interrupted_question_spoils_no_later_one(outlines: Outlines) -> None:
    def interrupted() -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outlines.outline(interrupted, digest="x", path="a.py")
    assert asked(outlines, PYTHON, "a.py").tier == "tree-sitter"


async def test_statement_can_ask_and_its_forks_cannot(b: WorkerBench) -> None:
    assert await b.value(ASK.format(digest="1")) == "('tree-sitter', ['f'])"
    assert (await b.run(ASK.format(digest="2"), plan=True)).value == "('tree-sitter', ['f'])"
    again = ASK.format(digest="3").replace("\n", "\n    ")
    forked = f"{again}\n    print(made.tier, flush=True)\n    os._exit(0)"
    source = f"import os\nif os.fork():\n    os.wait()\nelse:\n    {forked}"
    assert (await b.run(source)).stdout.text == "indentation\n"
    assert await b.value(ASK.format(digest="4")) == "('tree-sitter', ['f'])"


@pytest.mark.slow
def test_patient_caller_gets_a_complete_outline(outlines: Outlines) -> None:
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
