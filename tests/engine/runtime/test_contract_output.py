"""Output of statements in any environment: bounded, in order, given to the sink while it grows."""

from __future__ import annotations

import threading

import pytest
import xxhash

from engine.runtime.connection import CAPTURED_BYTES
from engine.runtime.environment import Environment
from tests.support.environments import Bench

pytestmark = pytest.mark.anyio
AnyBench = Bench[Environment]


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


async def test_output_is_given_to_the_sink_on_the_hosts_thread_while_the_statement_runs(b: AnyBench) -> None:
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


async def test_a_stream_that_a_statement_closed_or_replaced_is_back_in_the_next(b: AnyBench) -> None:
    assert (await b.run("import sys\nsys.stdout.close(); sys.stderr = None")).status == "ok"
    outcome = await b.run("print('back'); print('again', file=sys.stderr)")
    assert (outcome.stdout.text, outcome.stderr.text) == ("back\n", "again\n")
