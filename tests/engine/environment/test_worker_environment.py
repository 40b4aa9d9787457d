"""Statements in a real worker: namespace, values, errors, imports, effects, nodes."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from engine.environment.worker_environment import WorkerEnvironment
from engine.errors import EnvironmentUnavailableError
from engine.events.execution import NamesRebound
from engine.execution import ExceptionInfo
from engine.ids import ExecutionId
from engine.ports import EffectAnswer, EffectRequest, EnvironmentSpec
from tests.support.workers import PATIENCE, bench, request, shared_zygote, spec_for

pytestmark = pytest.mark.anyio


async def test_names_live_from_statement_to_statement(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        first = await b.run("x = [1, 2]")
        assert first.status == "ok"
        assert first.value is None
        assert first.diff.added["x"].short_repr == "[1, 2]"
        assert await b.value("x + [3]") == "[1, 2, 3]"


async def test_none_is_not_displayed_and_a_long_value_is_bounded(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        assert await b.value("None") is None
        long = await b.value("'a' * 100_000")
        assert long is not None
        assert len(long) < 17_000
        assert "left out" in long


async def test_an_error_keeps_what_was_bound_and_starts_its_traceback_at_the_users_frame(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run("y = 1\ndef f():\n    return 1 / 0\nf()")
        assert outcome.status == "error"
        assert outcome.exception is not None
        assert outcome.exception.type == "ZeroDivisionError"
        lines = outcome.exception.traceback.splitlines()
        assert lines[1].startswith('  File "<statement ')
        assert "return 1 / 0" in outcome.exception.traceback
        assert "_rewindow" not in outcome.exception.traceback
        assert "engine/worker" not in outcome.exception.traceback
        assert await b.value("y") == "1"


async def test_notes_and_causes_are_in_the_traceback(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run(
            "try:\n    {}['k']\nexcept KeyError as e:\n"
            "    n = ValueError()\n    n.add_note('a note')\n    raise n from e"
        )
        assert outcome.exception is not None
        assert "a note" in outcome.exception.traceback
        assert "direct cause" in outcome.exception.traceback


async def test_an_exception_whose_str_fails_is_recorded(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run("class E(Exception):\n    def __str__(self): raise SystemExit\nraise E()")
        assert outcome.exception is not None
        assert outcome.exception.type == "E"
        assert "SystemExit" in outcome.exception.message


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("x = = 1", "SyntaxError"),
        ("import sys; sys.exit(4)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("input('name? ')", "EOFError"),
        ("class R:\n    def __repr__(self): raise ValueError\nR()", "ValueError"),
        ("open('/definitely/not/here')", "FileNotFoundError"),
        ("a\0b", "SyntaxError"),
    ],
)
async def test_whatever_a_statement_raises_is_a_recorded_error(tmp_path: Path, source: str, kind: str) -> None:
    async with bench(tmp_path) as b:
        await b.run("kept = 1")
        outcome = await b.run(source)
        assert outcome.status == "error"
        assert outcome.exception is not None
        assert outcome.exception.type == kind
        assert await b.value("kept") == "1"


async def test_lone_surrogates_become_replacement_characters_everywhere(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run(
            "globals()[chr(0xd800)] = chr(0xdfff); print(chr(0xd801))\n"
            "import sys; sys.stdout.buffer.write(b'\\xed\\xa0\\x80')\n"
            "class S:\n    def __repr__(self): return chr(0xd802)\nS()"
        )
        assert outcome.status == "ok"
        assert outcome.value == "\ufffd"
        assert "\ufffd" in outcome.diff.added
        outcome = await b.run("raise ValueError(chr(0xd800))")
        assert outcome.exception is not None
        assert outcome.exception.message == "\ufffd"
        assert await b.value("'\ud800'") == repr("\ufffd")


async def test_a_projects_own_engine_package_is_what_statements_import(tmp_path: Path) -> None:
    for name in ("engine", "conformance", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    async with bench(tmp_path) as b:
        assert await b.value("import sys; 'engine' in sys.modules") == "False"
        assert await b.value("import engine, conformance, tests; engine.MINE, conformance.MINE, tests.MINE") == (
            "(True, True, True)"
        )


async def test_the_environment_is_the_specs_and_nothing_of_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-not-for-statements")
    async with bench(tmp_path) as b:
        names = await b.value("import os; sorted(os.environ)")
        assert names == "['HOME', 'PATH', 'PYTHONHASHSEED']"
        leaked = await b.value("b'sk-not' in open('/proc/self/environ', 'rb').read()")
        assert leaked == "False"
        assert await b.value("os.getcwd()") == repr(str(tmp_path))
        assert await b.value("__name__") == "'__main__'"


async def test_import_paths_come_after_the_standard_library_and_read_pth_files(tmp_path: Path) -> None:
    site, extra = tmp_path / "site", tmp_path / "extra"
    site.mkdir()
    extra.mkdir()
    (site / "json.py").write_text("WRONG = True")
    (site / "theirs.py").write_text("X = 1")
    (site / "link.pth").write_text(str(extra))
    (extra / "linked.py").write_text("Y = 2")
    environment = WorkerEnvironment(shared_zygote())
    try:
        await environment.start(replace(spec_for(tmp_path), import_paths=(str(site),)))
        asked = request("import json, theirs, linked; hasattr(json, 'WRONG'), theirs.X, linked.Y")
        outcome = await environment.run(asked, _no_effect, lambda *_: None)
        assert outcome.value == "(False, 1, 2)"
    finally:
        await environment.close()


async def _no_effect(asked: EffectRequest) -> EffectAnswer:
    raise AssertionError(asked)


async def test_classes_of_statements_can_be_pickled_and_sources_inspected(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.run("class A:\n    x = 1\ndef g():\n    return 42")
        assert await b.value("import pickle; pickle.loads(pickle.dumps(A())).x") == "1"
        assert await b.value("import inspect; inspect.getsource(g)") == repr("def g():\n    return 42")


async def test_effects_are_answered_by_the_host(tmp_path: Path) -> None:
    asked: list[EffectRequest] = []

    async def answer(effect: EffectRequest) -> EffectAnswer:
        asked.append(effect)
        return EffectAnswer(value="a\nb")

    async with bench(tmp_path) as b:
        outcome = await b.run("r = read('f.txt', 2, end_line=3)\nls('.')", effects=answer)
        assert outcome.status == "ok"
        assert outcome.value == "a\nb"
        assert [(e.ordinal, e.operation, e.arguments) for e in asked] == [
            (0, "read", {"path": "f.txt", "start_line": 2, "end_line": 3}),
            (1, "ls", {"path": "."}),
        ]
        assert await b.value("r") == repr("a\nb")


@pytest.mark.parametrize(
    ("answered", "raised"),
    [
        ("FileNotFoundError", "FileNotFoundError"),
        ("PermissionError", "PermissionError"),
        ("NoSuchThing", "RuntimeError"),
        ("SystemExit", "RuntimeError"),
        ("UnicodeDecodeError", "RuntimeError"),
    ],
)
async def test_an_error_answer_is_raised_in_the_statement(tmp_path: Path, answered: str, raised: str) -> None:
    async def answer(_: EffectRequest) -> EffectAnswer:
        return EffectAnswer(error=ExceptionInfo(type=answered, message="why"))

    async with bench(tmp_path) as b:
        outcome = await b.run("read('x')", effects=answer)
        assert outcome.exception is not None
        assert outcome.exception.type == raised
        assert "why" in outcome.exception.message


async def test_a_handler_that_raises_and_an_answer_that_is_no_plain_data_are_errors_in_the_statement(
    tmp_path: Path,
) -> None:
    async def fail(_: EffectRequest) -> EffectAnswer:
        raise IsADirectoryError("it is one")

    async def strange(_: EffectRequest) -> EffectAnswer:
        return EffectAnswer(value=object())

    async with bench(tmp_path) as b:
        outcome = await b.run("read('x')", effects=fail)
        assert outcome.exception is not None
        assert outcome.exception.type == "IsADirectoryError"
        outcome = await b.run("read('x')", effects=strange)
        assert outcome.exception is not None
        assert outcome.exception.type == "ValueError"


async def test_a_thread_that_outlives_its_statement_cannot_ask_the_host(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.run(
            "import threading\nlate = []\nmay = threading.Event()\ndef work():\n    may.wait(10)\n"
            "    try: read('x')\n    except RuntimeError as e: late.append(str(e))\n"
            "t = threading.Thread(target=work); t.start()"
        )
        assert (await b.environment.tick(1, 0.0)).events == ()
        outcome = await b.run("may.set(); t.join(); late")
        assert outcome.status == "ok"
        assert (await b.environment.project(["a"], 1000)).text_tokens == (1,)


async def test_rebinding_an_injected_name_is_recorded_and_undone_by_restore_names(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run("view = 5; del ls")
        assert next(event for event in outcome.events if isinstance(event, NamesRebound)).names == ("ls", "view")
        assert not outcome.diff
        assert (await b.run("view")).events == ()
        outcome = await b.run("restore_names(); callable(view), callable(ls)")
        assert outcome.value == "(True, True)"
        assert outcome.events == ()


async def test_a_view_is_displayed_ticked_and_projected(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    async with bench(tmp_path) as b:
        outcome = await b.run("h = view('a.txt', freq='Sync')")
        assert "two" in outcome.displays[0].text
        assert outcome.locations[0].path == str(tmp_path / "a.txt")
        assert (await b.environment.tick(1, 1.0)).events == ()
        (tmp_path / "a.txt").write_text("one\nthree\n")
        kinds = [event.kind for event in (await b.environment.tick(2, 2.0)).events]
        assert "file_changed" in kinds
        counted = await b.environment.project(["hello world"], 0)
        assert (counted.text_tokens, counted.tail, counted.handles) == ((2,), "", ())
        part = await b.environment.project(["hello world", ""], 2000)
        assert part.text_tokens == (2, 0)
        assert part.handles[0].name == "h"
        assert part.tail_tokens <= 2000


async def test_warnings_are_shown_on_stderr(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run("import warnings; warnings.warn('careful')")
        assert "UserWarning: careful" in outcome.stderr.text


async def test_a_directory_that_does_not_exist_is_said_at_the_start(tmp_path: Path) -> None:
    environment = WorkerEnvironment(shared_zygote())
    with pytest.raises(EnvironmentUnavailableError, match="FileNotFoundError"):
        await environment.start(EnvironmentSpec(cwd=str(tmp_path / "nowhere")))
    assert not environment.alive
    with pytest.raises(EnvironmentUnavailableError):
        await environment.tick(1, 0.0)
    await environment.close()
    await environment.close()


async def test_requests_from_several_tasks_are_served_one_after_the_other(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(b.run, "a = 1")
                tasks.start_soon(b.environment.tick, 1, 0.0)
                tasks.start_soon(b.run, "b = 2")
                tasks.start_soon(b.environment.project, ["x"], 100)
        assert await b.value("a + b") == "3"


async def test_four_sessions_share_one_zygote_and_nothing_else(tmp_path: Path) -> None:
    async with bench(tmp_path) as a, bench(tmp_path) as b, bench(tmp_path) as c, bench(tmp_path) as d:
        for number, one in enumerate((a, b, c, d)):
            await one.run(f"x = {number}; print(x)")
        assert [await one.value("x") for one in (a, b, c, d)] == ["0", "1", "2", "3"]
        assert len({one.environment.pid for one in (a, b, c, d)}) == 4


async def test_snapshots_are_not_to_be_had(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        assert await b.environment.snapshot(ExecutionId("ex_1")) is False
