"""Output of statements: captured at the descriptors, bounded, in order, streamed."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from engine.environment.capture import KEPT_BYTES, Capture
from tests.support.workers import bench, until

PIECES = st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(lambda t: t.encode("utf-8", "replace"))))


@given(PIECES)
def test_the_pieces_in_which_bytes_come_make_no_difference(pieces: list[bytes]) -> None:
    heard: list[str] = []
    piecewise, whole = Capture(heard.append), Capture()
    for piece in pieces:
        piecewise.feed(piece)
    whole.feed(b"".join(pieces))
    captured = piecewise.finish()
    assert captured == whole.finish()
    assert captured.text == "".join(heard) == b"".join(pieces).decode("utf-8", "replace")
    assert captured.total_bytes == sum(map(len, pieces))
    assert captured.digest == xxhash.xxh3_64_hexdigest(b"".join(pieces))


def test_text_is_cut_at_a_character_boundary() -> None:
    capture = Capture()
    data = b"a" + "€".encode() * KEPT_BYTES
    capture.feed(data)
    captured = capture.finish()
    assert captured.text == "a" + "€" * ((KEPT_BYTES - 1) // 3)
    assert captured.truncated
    assert captured.total_bytes == len(data)
    assert captured.digest == xxhash.xxh3_64_hexdigest(data)


@pytest.mark.anyio
async def test_python_children_and_c_code_keep_their_order(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run(
            "import os, subprocess, ctypes\n"
            "print('a', end='')\nos.system('printf b')\nos.write(1, b'c')\n"
            "subprocess.run(['printf', 'd'])\nprint('e')\nctypes.CDLL(None).printf(b'last')"
        )
        assert outcome.stdout.text == "abcde\nlast"


@pytest.mark.anyio
async def test_a_flood_is_counted_and_digested_but_not_kept(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        source = "import sys\nfor _ in range(2000): sys.stdout.write('x' * 99_999 + '\\n')"
        outcome = await b.run(source)
        assert outcome.status == "ok"
        assert outcome.stdout.total_bytes == 200_000_000
        assert len(outcome.stdout.text) == KEPT_BYTES
        assert sum(len(text) for _, text in b.output) == KEPT_BYTES
        assert outcome.stdout.digest == xxhash.xxh3_64_hexdigest((b"x" * 99_999 + b"\n") * 2000)


@pytest.mark.anyio
async def test_an_endless_flood_can_be_stopped(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run("while True: print('y' * 1000)", time_limit=0.2)
        assert outcome.status == "timeout"
        assert b.environment.alive
        assert (await b.run("print('after')")).stdout.text == "after\n"


@pytest.mark.anyio
async def test_bytes_that_are_no_utf8_become_replacement_characters(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run("import sys; sys.stderr.buffer.write(b'a\\xffb\\xe2\\x82')")
        assert outcome.stderr.text == "a\ufffdb\ufffd"
        assert outcome.stderr.total_bytes == 5


@pytest.mark.anyio
async def test_output_is_heard_while_the_statement_runs(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.on_output = b.environment.interrupt
        outcome = await b.run("print('early')\nimport time; time.sleep(20)")
        assert outcome.status == "cancelled"
        assert "".join(text for _, text in b.output).startswith("early")


@pytest.mark.anyio
async def test_what_comes_between_statements_belongs_to_the_next(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.run("import subprocess; p = subprocess.Popen('read x; echo late; touch done', shell=True, stdin=-1)")
        await b.run("p.stdin.write(b'go\\n'); p.stdin.close()")
        await until((tmp_path / "done").exists)
        said = (await b.run("1")).stdout.text
        assert said == "late\n" or [text for _, text in b.output] == ["late\n"]


@pytest.mark.anyio
async def test_a_background_flood_does_not_hold_statements_up(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        assert (await b.run("import subprocess; p = subprocess.Popen(['yes'])")).status == "ok"
        assert await b.value("1 + 1") == "2"
        assert (await b.run("p.kill(); p.wait()")).status == "ok"


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_gigabyte_of_output_needs_no_memory(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        before = psutil.Process().memory_info().rss
        outcome = await b.run("import sys\nfor _ in range(1000): sys.stdout.write('z' * 1_000_000)", time_limit=25.0)
        assert outcome.status == "ok"
        assert outcome.stdout.total_bytes == 10**9
        assert psutil.Process().memory_info().rss - before < 20_000_000
