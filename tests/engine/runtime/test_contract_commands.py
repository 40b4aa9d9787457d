"""Programs beside the statements of any environment: their output, their end, and what they are given."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import pytest

from engine.core.errors import EnvironmentUnavailableError
from engine.core.programs import CommandRequest
from engine.log.redaction import NO_SECRETS
from engine.log.statements import EffectAnswer, EffectRequest
from engine.runtime.environment import EnvironmentSpec
from engine.runtime.system.process_table import stat_of
from tests.support.environments import AnyBench, Bench, Make, until

ENDLESS = "echo begins; while :; do sleep 0.05; done"


def has_ended(pid: str | bytes) -> bool:
    found = stat_of(int(pid))
    return found is None or found.state == b"Z"


def gate(b: AnyBench) -> str:
    """The start of a command that says so and does not end by itself."""
    return f"cd {b.cwd}; echo $$ > new; mv new started; {ENDLESS}"


async def test_program_ends_with_its_code_and_output_in_order(b: AnyBench) -> None:
    outcome = await b.command("echo out; echo err >&2; echo more; exit 3")
    assert (outcome.code, outcome.signal, outcome.timed_out, outcome.stopped, outcome.reason) == (
        3, None, False, False, "",
    )  # fmt: skip
    assert (outcome.stdout.head, outcome.stdout.tail, outcome.stdout.total) == (b"out\nerr\nmore\n", b"", 13)
    assert outcome.stderr.total == 0
    assert outcome.seconds > 0


async def test_the_streams_can_be_kept_apart(b: AnyBench) -> None:
    outcome = await b.command("echo out; echo err >&2", merged=False)
    assert (outcome.stdout.head, outcome.stderr.head) == (b"out\n", b"err\n")


async def test_a_program_that_a_signal_ended_says_which(b: AnyBench) -> None:
    outcome = await b.command("kill -SEGV $$")
    assert (outcome.code, outcome.signal) == (None, signal.SIGSEGV)


async def test_output_reaches_the_sink_while_the_program_runs(b: AnyBench) -> None:
    (b.cwd / "answered").unlink(missing_ok=True)
    b.on_output = (b.cwd / "answered").touch
    outcome = await b.command("echo first; until test -e answered; do sleep 0.01; done; echo last")
    assert "".join(text for _, text in b.output) == "first\nlast\n"
    assert outcome.code == 0


async def test_a_program_runs_while_a_statement_waits_for_its_effect(b: AnyBench) -> None:
    async def effect(_: EffectRequest) -> EffectAnswer:
        return EffectAnswer(value=(await b.command("echo beside")).stdout.head.decode())

    assert (await b.run("print(read('x'))", effects=effect)).stdout.text == "beside\n\n"


@pytest.mark.parametrize("size", [5_000_000, pytest.param(1_000_000_000, marks=pytest.mark.slow)])
async def test_of_much_output_both_ends_are_kept(b: AnyBench, size: int) -> None:
    outcome = await b.command(f"echo begin; head -c {size} /dev/zero; echo end", kept=1000)
    assert outcome.code == 0
    assert outcome.stdout.total == size + 10
    assert outcome.stdout.head == b"begin\n" + bytes(494)
    assert outcome.stdout.tail == bytes(496) + b"end\n"
    assert outcome.stdout.left_out == size + 10 - 1000
    assert "".join(text for _, text in b.output) == outcome.stdout.text
    # The last word may be part of a key, so the cut removes it.
    assert f"\n... {size - 494 + 3} bytes left out ...\n\n" in outcome.stdout.text


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 25])
async def test_what_is_kept_is_the_whole_up_to_the_bound(b: AnyBench, length: int) -> None:
    text = bytes(range(65, 65 + length))
    outcome = await b.command(f"printf %s {text.decode()}", kept=10)
    whole = text if length <= 10 else text[:5] + text[-5:]
    assert outcome.stdout.head + outcome.stdout.tail == whole
    assert "".join(text for _, text in b.output) == outcome.stdout.text


async def test_a_program_that_has_printed_enough_is_ended(b: AnyBench) -> None:
    outcome = await b.command("yes", stop_at=1001, kept=4000)
    assert (outcome.stopped, outcome.timed_out, outcome.code, outcome.signal) == (True, False, None, None)
    assert outcome.stdout.head + outcome.stdout.tail == b"y\n" * 500 + b"y"


async def test_bytes_that_are_no_utf8_are_kept_as_they_are(b: AnyBench) -> None:
    outcome = await b.command(r"printf 'a\377b\342\202'")
    assert outcome.stdout.head == b"a\xffb\xe2\x82"
    assert "".join(text for _, text in b.output) == "a\ufffdb\ufffd"


async def test_a_program_reads_its_input_and_then_the_end(b: AnyBench) -> None:
    assert (await b.command("wc -c; cat")).stdout.head == b"0\n"
    assert (await b.command("cat; cat", stdin=b"given\n")).stdout.head == b"given\n"
    assert (await b.command("cat /dev/stdin", stdin=bytes(3_000_000))).stdout.total == 3_000_000


async def test_a_program_has_no_terminal_and_asks_nobody(b: AnyBench) -> None:
    outcome = await b.command("read answer </dev/tty || echo none; read answer || echo nothing; tty; echo $TERM $PAGER")
    assert outcome.stdout.head.endswith(b"none\nnothing\nnot a tty\ndumb cat\n")


async def test_no_startup_file_named_by_the_environment_is_sourced(make: Make, tmp_path: Path) -> None:
    (tmp_path / "rc").write_text("echo sourced\n")
    variables = {"PATH": os.environ["PATH"], "BASH_ENV": "rc", "ENV": "rc", "PAGER": "less", "KEPT": "kept"}
    environment = make()
    try:
        await environment.start(EnvironmentSpec(cwd=str(tmp_path), redactor=NO_SECRETS, variables=variables))
        outcome = await Bench(environment, tmp_path).command("echo $KEPT $PAGER $BASH_ENV")
        assert outcome.stdout.head == b"kept cat\n"
    finally:
        await environment.close()


async def test_what_would_open_an_editor_ends_with_a_sentence(b: AnyBench) -> None:
    begin = "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty"
    outcome = await b.command(f"export HOME=$PWD; {begin}")
    assert outcome.code == 1
    assert b"no editor is available: give the text in the command" in outcome.stdout.head
    assert (await b.command(f"export HOME=$PWD; {begin} -m first")).code == 0


@pytest.mark.slow
async def test_slow_program_is_terminated_then_killed(b: AnyBench) -> None:
    polite = await b.command("trap 'echo asked; exit 5' TERM; while :; do sleep 0.01; done", seconds=1.0)
    assert (polite.timed_out, polite.code, polite.signal) == (True, None, None)
    assert polite.stdout.head.endswith(b"asked\n")
    deaf = await b.command("trap '' TERM INT HUP; while :; do sleep 0.01; done", seconds=0.1)
    assert (deaf.timed_out, deaf.code, deaf.signal, deaf.reason) == (True, None, None, "")


async def test_a_program_ends_with_the_wait_that_is_cancelled(b: AnyBench) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(b.command, gate(b))
        await until((b.cwd / "started").exists)
        tasks.cancel_scope.cancel()
    await until(lambda: has_ended((b.cwd / "started").read_text()))
    assert await b.value("1") == "1"


async def test_what_a_program_left_in_its_group_ends_with_it(b: AnyBench) -> None:
    outcome = await b.command("sleep 600 & echo $!")
    await until(lambda: has_ended(outcome.stdout.head))


async def test_closing_the_environment_ends_its_programs(b: AnyBench) -> None:
    ended: list[str] = []

    async def run() -> None:
        ended.append((await b.command(gate(b))).reason)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await until((b.cwd / "started").exists)
        await b.environment.close()
    assert ended == ["the session was closed"]
    with pytest.raises(EnvironmentUnavailableError):
        await b.command("true")


@pytest.mark.parametrize(
    ("argv", "how", "error", "about"),
    [
        (("/nowhere/program", "x"), {}, FileNotFoundError, "/nowhere/program"),
        (("{cwd}/plain", "x"), {}, PermissionError, "plain"),
        (("{cwd}", "x"), {}, PermissionError, "denied"),
        (("/bin/echo", "x"), {"cwd": "{cwd}/none"}, FileNotFoundError, "none"),
        (("/bin/echo", "x"), {"cwd": "{cwd}/plain"}, NotADirectoryError, "plain"),
        (("/bin/echo", "x\0y"), {}, ValueError, "NUL"),
        (("/bin/echo", "x"), {"cwd": "/\0"}, ValueError, "NUL"),
        (("/bin/echo", "x" * 3_000_000), {}, OSError, "too long"),
    ],
)
async def test_program_that_cannot_start_is_an_error_with_the_reason(
    b: AnyBench, argv: tuple[str, ...], how: dict[str, str], error: type[Exception], about: str
) -> None:
    (b.cwd / "plain").write_text("no program")
    given = tuple(part.replace("{cwd}", str(b.cwd)) for part in argv)
    with pytest.raises(error, match=about):
        await b.command(*given, **{name: value.replace("{cwd}", str(b.cwd)) for name, value in how.items()})
    assert (await b.command("echo again")).stdout.head == b"again\n"


async def test_arguments_without_utf8_reach_the_program_unchanged(b: AnyBench) -> None:
    outcome = await b.command("/usr/bin/printf", "%s", "a\udcffb")
    assert outcome.stdout.head == b"a\xffb"


async def test_without_a_start_there_is_nothing_to_run_in(make: Make) -> None:
    environment = make()
    with pytest.raises(EnvironmentUnavailableError):
        await environment.command(
            CommandRequest(argv=("/bin/true",), cwd="/", seconds=1.0, kept_bytes=1), lambda *_: None
        )


@pytest.mark.parametrize("taken_by", ["link", "directory", "link above"])
async def test_command_runs_in_no_directory_that_took_the_place(b: AnyBench, tmp_path: Path, taken_by: str) -> None:
    place, elsewhere = tmp_path / "above/place", tmp_path / "elsewhere"
    (elsewhere / "place").mkdir(parents=True)
    place.mkdir(parents=True)
    state = place.stat()
    how = {"cwd": str(place), "directory": (state.st_dev, state.st_ino)}
    assert (await b.command("touch made", **how)).code == 0
    assert (place / "made").exists()
    if taken_by == "link above":
        place.parent.rename(tmp_path / "moved")
        place.parent.symlink_to(elsewhere)
    else:
        place.rename(tmp_path / "moved")
        place.symlink_to(elsewhere) if taken_by == "link" else place.mkdir()
    with pytest.raises(OSError, match="another directory replaced this one"):
        await b.command("touch other", **how)
    assert not [*elsewhere.rglob("other"), *place.glob("other")]
