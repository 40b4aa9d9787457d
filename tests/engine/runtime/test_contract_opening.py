"""What `open` of a statement writes goes to the host, in both environments; paths are absolute, because the process of
an in-process environment is the tests' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.core.execution import ExceptionInfo
from engine.log.statements import EffectAnswer, EffectRequest
from engine.runtime.environment import Environment
from tests.support.environments import Bench, past, restore

pytestmark = pytest.mark.anyio
AnyBench = Bench[Environment]


class Disk:
    """A host that writes what it is asked to, as far as it may."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[tuple[str, bytes]] = []
        self.error: ExceptionInfo | None = None

    async def __call__(self, effect: EffectRequest) -> EffectAnswer:
        arguments: Any = effect.arguments
        assert effect.operation == "write"
        self.asked.append((arguments["path"], arguments["text"]))
        if self.error is None:
            (self.root / arguments["path"]).write_bytes(arguments["text"])
        return EffectAnswer(value={}, error=self.error)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


async def test_a_write_lands_before_the_next_line_and_an_open_file_with_the_statement(
    b: AnyBench, tmp_path: Path, disk: Disk
) -> None:
    place = str(tmp_path / "a.txt")
    source = f"with open({place!r}, 'w') as f: n = f.write('one\\n')\nf = open({place!r}, 'a'); g = f.write('two\\n'); "
    outcome = await b.run(source + f"__import__('pathlib').Path({place!r}).read_text()", effects=disk)
    assert outcome.value == repr("one\n")
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
    assert (await b.run("f.write('three\\n'); f.close()", effects=disk)).status == "ok"
    assert disk.asked == [("a.txt", text) for text in (b"one\n", b"one\ntwo\n", b"one\ntwo\nthree\n")]
    assert await b.value("f.closed") == "True"


async def test_what_a_finalizer_meets_fails_the_statement(b: AnyBench, tmp_path: Path, disk: Disk) -> None:
    disk.error = ExceptionInfo(type="PermissionError", message="The user rejected this change.")
    outcome = await b.run(f"open({str(tmp_path / 'a')!r}, 'w').write('x')\nx = 1", effects=disk)
    assert outcome.exception is not None
    assert (outcome.status, outcome.exception.type) == ("error", "PermissionError")
    assert "The user rejected this change." in outcome.exception.message
    assert "a was closed by its last reference" in outcome.exception.traceback
    assert await b.value("x") == "1"
    both = await b.run(f"open({str(tmp_path / 'b')!r}, 'w').write('x')\n1 / 0", effects=disk)
    assert both.exception is not None
    assert both.exception.type == "ZeroDivisionError"
    assert both.stderr.text == "PermissionError: The user rejected this change.\n"


async def test_plan_mode_names_open(b: AnyBench, tmp_path: Path, disk: Disk) -> None:
    outcome = await b.run(f"open({str(tmp_path / 'a')!r}, 'w')", effects=disk, plan=True)
    assert outcome.exception is not None
    assert outcome.exception.type == "PermissionError"
    assert f"was kept from open {tmp_path / 'a'}" in outcome.exception.message
    assert not disk.asked


async def test_a_replay_takes_the_recorded_answer_and_touches_nothing(b: AnyBench, tmp_path: Path) -> None:
    place = tmp_path / "a"
    source = f"with open({str(place)!r}, 'x') as f: n = f.write('x')"
    (tmp_path / "a").write_text("as it is now")
    restored = await restore(b, past(source, answers=(EffectAnswer(value={}),)))
    assert restored.divergences == ()
    assert place.read_text() == "as it is now"
    assert await b.value("n, f.closed") == "(1, True)"


async def test_a_stopped_statement_lands_nothing_more(b: AnyBench, tmp_path: Path, disk: Disk) -> None:
    place = str(tmp_path / "a")
    source = f"f = open({place!r}, 'w'); n = f.write('x')\nprint('now', flush=True)\nwhile True: pass"
    b.on_output = b.environment.interrupt
    outcome = await b.run(source, effects=disk)
    b.on_output = None
    assert outcome.status == "cancelled"
    assert not disk.asked
    assert (await b.run("1", effects=disk)).status == "ok"
    assert not disk.asked
    assert (await b.run("f.write('y'); f.close()", effects=disk)).status == "ok"
    assert disk.asked == [("a", b"xy")]
