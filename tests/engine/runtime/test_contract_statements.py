"""What statements do in any environment: namespace, values, errors, output, effects, nodes."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import xxhash

from engine.core.errors import EnvironmentUnavailableError
from engine.core.execution import ExceptionInfo
from engine.log.events.execution import NamesRebound
from engine.log.past import RestorePlan
from engine.log.redaction import NO_SECRETS
from engine.log.statements import EffectAnswer, EffectRequest
from engine.runtime.connection import CAPTURED_BYTES
from engine.runtime.environment import EnvironmentSpec
from tests.support.environments import (
    PATIENCE,
    AnyBench,
    Make,
    contents,
    ended_otherwise,
    opened,
    refuse,
    request,
    spec_for,
    until,
)


async def test_names_live_from_statement_to_statement(b: AnyBench) -> None:
    first = await b.run("x = [1, 2]")
    assert first.status == "ok"
    assert first.value is None
    assert first.diff.added["x"].short_repr == "[1, 2]"
    assert await b.value("x + [3]") == "[1, 2, 3]"


async def test_none_is_not_displayed_and_a_long_value_is_bounded(b: AnyBench) -> None:
    assert await b.value("None") is None
    long = await b.value("'a' * 100_000")
    assert len(long) < 17_000
    assert "left out" in long


async def test_error_keeps_bindings_and_shows_only_user_frames(b: AnyBench) -> None:
    outcome = await b.run("y = 1\ndef f():\n    return 1 / 0\nf()")
    assert outcome.status == "error"
    assert outcome.exception.type == "ZeroDivisionError"
    lines = outcome.exception.traceback.splitlines()
    assert lines[1].startswith('  File "<statement ')
    assert "return 1 / 0" in outcome.exception.traceback
    assert "_rewindow" not in outcome.exception.traceback
    assert "engine/runtime/worker" not in outcome.exception.traceback
    assert await b.value("y") == "1"


async def test_notes_and_causes_are_in_the_traceback(b: AnyBench) -> None:
    outcome = await b.run(
        "try:\n    {}['k']\nexcept KeyError as e:\n    n = ValueError()\n    n.add_note('a note')\n    raise n from e"
    )
    assert "a note" in outcome.exception.traceback
    assert "direct cause" in outcome.exception.traceback


async def test_an_exception_whose_str_fails_is_recorded(b: AnyBench) -> None:
    outcome = await b.run("class E(Exception):\n    def __str__(self): raise SystemExit\nraise E()")
    assert outcome.exception.type == "E"
    assert "SystemExit" in outcome.exception.message


RAISING = (
    ("x = = 1", "SyntaxError"),
    ("import sys; sys.exit(4)", "SystemExit"),
    ("exit(4)", "SystemExit"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("raise GeneratorExit", "GeneratorExit"),
    ("def f(): return f()\nf()", "RecursionError"),
    ("input('name? ')", "EOFError"),
    ("class R:\n    def __repr__(self): raise ValueError\nR()", "ValueError"),
    ("open('/definitely/not/here')", "FileNotFoundError"),
    ("a\0b", "SyntaxError"),
)
"""Statements, and the type of what each raises."""


async def test_whatever_a_statement_raises_is_a_recorded_error(b: AnyBench) -> None:
    await b.run("kept = 1")
    for source, kind in RAISING:
        outcome = await b.run(source)
        assert outcome.status == "error", source
        assert outcome.exception.type == kind
        assert await b.value("kept") == "1"


@pytest.mark.parametrize(
    "source", ["x = = 1", "return", "a\0b", "(" * 300, "-" * 100_000 + "1", "+".join("1" * 50_000)]
)
async def test_invalid_source_has_no_frames_of_ours(b: AnyBench, source: str) -> None:
    outcome = await b.run(source)
    frames = [line for line in outcome.exception.traceback.splitlines() if line.startswith("  File ")]
    assert [line for line in frames if '"<statement ' not in line] == []


async def test_lone_surrogates_become_replacement_characters_everywhere(b: AnyBench) -> None:
    outcome = await b.run(
        "globals()[chr(0xd800)] = chr(0xdfff); print(chr(0xd801))\n"
        "import sys; sys.stdout.buffer.write(b'\\xed\\xa0\\x80')\n"
        "class S:\n    def __repr__(self): return chr(0xd802)\nS()"
    )
    assert outcome.status == "ok"
    assert outcome.value == "\ufffd"
    assert "\ufffd" in outcome.diff.added
    outcome = await b.run("raise ValueError(chr(0xd800))")
    assert outcome.exception.message == "\ufffd"
    assert await b.value("'\ud800'") == repr("\ufffd")


async def test_statement_is_main_and_has_inspectable_source(b: AnyBench) -> None:
    await b.run("def g():\n    return 42")
    assert await b.value("__name__") == "'__main__'"
    assert await b.value("import inspect; inspect.getsource(g)") == repr("def g():\n    return 42")


@pytest.mark.parametrize("asked_for", ["result", "request"])
async def test_too_large_message_is_an_error_and_the_namespace_stays(b: AnyBench, asked_for: str) -> None:
    await b.run("kept = 1")
    large = "globals().update({f'{i}_' + 'n' * 1_000_000: i for i in range(70)})"
    outcome = await b.run(large if asked_for == "result" else "#" * (81 << 20))
    assert "FrameTooLargeError" in f"{outcome.exception.type}: {outcome.exception.message}"
    assert await b.value("kept") == "1"


async def test_effects_are_answered_by_the_host(b: AnyBench) -> None:
    asked: list[EffectRequest] = []

    async def answer(effect: EffectRequest) -> EffectAnswer:
        asked.append(effect)
        return EffectAnswer(value="a\nb")

    outcome = await b.run("r = read('f.txt', 2, end_line=3)\nls('.')", effects=answer)
    assert outcome.status == "ok"
    assert outcome.value == repr("a\nb")
    assert [(e.ordinal, e.operation, e.arguments) for e in asked] == [
        (0, "read", {"path": "f.txt", "start_line": 2, "end_line": 3}),
        (1, "ls", {"path": "."}),
    ]
    assert await b.value("r") == repr("a\nb")


ANSWERED = (
    ("FileNotFoundError", "FileNotFoundError"),
    ("PermissionError", "PermissionError"),
    ("NoSuchThing", "RuntimeError"),
    ("SystemExit", "RuntimeError"),
    ("UnicodeDecodeError", "RuntimeError"),
)
"""Types of errors that a host answers, and of what the statement sees."""


async def test_an_error_answer_is_raised_in_the_statement(b: AnyBench) -> None:
    for answered, raised in ANSWERED:

        async def answer(_: EffectRequest, kind: str = answered) -> EffectAnswer:
            return EffectAnswer(error=ExceptionInfo(type=kind, message="why"))

        outcome = await b.run("read('x')", effects=answer)
        assert outcome.exception.type == raised
        assert "why" in outcome.exception.message


async def test_failing_handler_and_strange_answer_are_statement_errors(b: AnyBench) -> None:
    async def fail(_: EffectRequest) -> EffectAnswer:
        raise IsADirectoryError("it is one")

    async def strange(_: EffectRequest) -> EffectAnswer:
        return EffectAnswer(value=object())

    outcome = await b.run("read('x')", effects=fail)
    assert outcome.exception.type == "IsADirectoryError"
    outcome = await b.run("read('x')", effects=strange)
    assert outcome.exception.type == "ValueError"


async def test_surviving_thread_neither_blocks_nor_asks_the_host(b: AnyBench, tmp_path: Path) -> None:
    go, done = tmp_path / "go", tmp_path / "done"
    await b.run(
        "import os, threading, time\nlate = []\ndef work():\n"
        f"    while not os.path.exists({str(go)!r}): time.sleep(0.002)\n"
        f"    try: read('x')\n    except RuntimeError as e: late.append(str(e))\n    os.mkdir({str(done)!r})\n"
        "t = threading.Thread(target=work); t.start()"
    )
    assert await b.value("t.is_alive()") == "True"
    go.touch()
    await until(done.exists)
    assert await b.value("t.join(); late") == "['read() can only be called while a statement runs']"
    assert (await b.environment.project(["a"], 1000)).text_tokens == (1,)


async def test_rebound_injected_name_is_recorded_and_restored(b: AnyBench) -> None:
    outcome = await b.run("view = 5; del ls")
    assert next(event for event in outcome.events if isinstance(event, NamesRebound)).names == ("ls", "view")
    assert not outcome.diff
    assert (await b.run("view")).events == ()
    outcome = await b.run("restore_names(); callable(view), callable(ls)")
    assert outcome.value == "(True, True)"
    assert outcome.events == ()


async def test_a_view_is_displayed_ticked_and_projected(b: AnyBench, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
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


async def test_statement_in_an_idle_environment_begins_at_once(b: AnyBench) -> None:
    happened: list[str] = []

    async def answer(asked: EffectRequest) -> EffectAnswer:
        happened.append(asked.operation)
        return EffectAnswer(value="content")

    assert b.environment.idle
    running = b.environment.run(
        request("print('out'); read('a')"),
        answer,
        lambda *_: happened.append("output"),
        begun=lambda: happened.append("begun"),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: running)
        await anyio.lowlevel.checkpoint()
        assert happened[:1] == ["begun"]
        assert not b.environment.idle
    assert set(happened[1:]) == {"output", "read"}
    assert b.environment.idle


async def test_failure_when_a_statement_begins_stops_it(b: AnyBench) -> None:
    def fail() -> None:
        raise KeyError("begun")

    with anyio.fail_after(PATIENCE), pytest.raises(KeyError, match="begun"):
        await b.environment.run(request("while True: pass"), refuse, b.take, begun=fail)
    assert await b.value("1 + 1") == "2"


async def test_environment_that_is_not_started_or_closed_is_unavailable(make: Make, tmp_path: Path) -> None:
    environment = make()
    with pytest.raises(EnvironmentUnavailableError, match="start"):
        await environment.run(request("1"), refuse, lambda *_: None)
    with pytest.raises(EnvironmentUnavailableError, match="start"):
        await environment.restore(RestorePlan(), contents, ended_otherwise)
    environment.interrupt()
    await environment.start(spec_for(tmp_path))
    assert environment.alive
    await environment.close()
    await environment.close()
    assert not environment.alive
    for use in (
        lambda: environment.run(request("1"), refuse, lambda *_: None),
        lambda: environment.tick(1, 0.0),
        lambda: environment.project([], 0),
    ):
        with pytest.raises(EnvironmentUnavailableError, match="no live namespace"):
            await use()
    with pytest.raises(EnvironmentUnavailableError, match="closed"):
        await environment.restore(RestorePlan(), contents, ended_otherwise)
    with pytest.raises(EnvironmentUnavailableError, match="closed"):
        await environment.start(spec_for(tmp_path))


async def test_missing_directory_is_reported_at_the_start(make: Make, tmp_path: Path) -> None:
    environment = make()
    with pytest.raises(EnvironmentUnavailableError, match="FileNotFoundError"):
        await environment.start(EnvironmentSpec(cwd=str(tmp_path / "nowhere"), redactor=NO_SECRETS))
    assert not environment.alive
    with pytest.raises(EnvironmentUnavailableError):
        await environment.tick(1, 0.0)
    await environment.start(spec_for(tmp_path))
    assert environment.alive
    await environment.close()


async def test_a_second_start_begins_with_a_fresh_namespace(b: AnyBench, tmp_path: Path) -> None:
    await b.run("x = 1")
    await b.environment.start(spec_for(tmp_path))
    assert await b.value("'x' in globals()") == "False"


async def test_requests_from_several_tasks_are_served_one_after_the_other(b: AnyBench) -> None:
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(b.run, "a = 1")
            tasks.start_soon(b.environment.tick, 1, 0.0)
            tasks.start_soon(b.run, "b = 2")
            tasks.start_soon(b.environment.project, ["x"], 100)
    assert await b.value("a + b") == "3"


async def test_several_environments_share_neither_names_nor_output(make: Make, tmp_path: Path) -> None:
    source = "x = {0}\nfor n in range(200): print({0}, n)"
    async with opened(make(), tmp_path) as first, opened(make(), tmp_path) as second, opened(make(), tmp_path) as third:
        benches = (first, second, third)
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for number, bench in enumerate(benches):
                    tasks.start_soon(bench.run, source.format(number))
        for number, bench in enumerate(benches):
            assert await bench.value("x") == str(number)
            written = "".join(text for _, text in bench.output)
            assert written == "".join(f"{number} {n}\n" for n in range(200))


async def test_a_flood_is_counted_and_digested_but_not_kept(b: AnyBench) -> None:
    outcome = await b.run("import sys\nfor _ in range(400): _ = sys.stdout.write('x' * 99_999 + '\\n')")
    assert outcome.status == "ok"
    assert outcome.stdout.total_bytes == 40_000_000
    assert len(outcome.stdout.text) == CAPTURED_BYTES
    assert sum(len(text) for _, text in b.output) == CAPTURED_BYTES
    assert outcome.stdout.digest == xxhash.xxh3_64_hexdigest((b"x" * 99_999 + b"\n") * 400)


async def test_an_endless_flood_can_be_stopped(b: AnyBench) -> None:
    outcome = await b.run("while True: print('y' * 1000)", time_limit=0.2)
    assert outcome.status == "timeout"
    assert b.environment.alive
    assert (await b.run("print('after')")).stdout.text == "after\n"


async def test_bytes_that_are_no_utf8_become_replacement_characters(b: AnyBench) -> None:
    outcome = await b.run("import sys; sys.stderr.buffer.write(b'a\\xffb\\xe2\\x82')")
    assert outcome.stderr.text == "a\ufffdb\ufffd"
    assert outcome.stderr.total_bytes == 5


async def test_output_reaches_the_sink_on_the_hosts_thread(b: AnyBench) -> None:
    threads: list[int] = []

    def interrupt() -> None:
        threads.append(threading.get_ident())
        b.environment.interrupt()

    b.on_output = interrupt
    outcome = await b.run("print('early')\nimport time\nwhile True: time.sleep(0.001)")
    assert outcome.status == "cancelled"
    assert "".join(text for _, text in b.output).startswith("early")
    assert set(threads) == {threading.get_ident()}


async def test_the_streams_are_apart_and_each_in_order(b: AnyBench) -> None:
    outcome = await b.run(
        "import sys\nprint('a'); print('b', file=sys.stderr); print('c'); print('d', file=sys.stderr)"
    )
    assert (outcome.stdout.text, outcome.stderr.text) == ("a\nc\n", "b\nd\n")
    for name, text in (("stdout", "a\nc\n"), ("stderr", "b\nd\n")):
        assert "".join(piece for stream, piece in b.output if stream == name) == text


async def test_closed_stream_is_back_in_the_next_statement(b: AnyBench) -> None:
    assert (await b.run("import sys\nsys.stdout.close(); sys.stderr = None")).status == "ok"
    outcome = await b.run("print('back'); print('again', file=sys.stderr)")
    assert (outcome.stdout.text, outcome.stderr.text) == ("back\n", "again\n")
