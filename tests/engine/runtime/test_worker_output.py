"""Output that only a process's descriptors have: of children, of C code, of what runs in the background."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.support.environments import until
from tests.support.workers import bench

pytestmark = pytest.mark.anyio


async def test_python_children_and_c_code_keep_their_order(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run(
            "import os, subprocess, ctypes\n"
            "print('a', end='')\nos.system('printf b')\nos.write(1, b'c')\n"
            "subprocess.run(['printf', 'd'])\nprint('e')\nctypes.CDLL(None).printf(b'last')"
        )
        assert outcome.stdout.text == "abcde\nlast"


async def test_warnings_are_shown_on_stderr(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        outcome = await b.run("import warnings; warnings.warn('careful')")
        assert "UserWarning: careful" in outcome.stderr.text


async def test_what_comes_between_statements_belongs_to_the_next(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.run("import subprocess; p = subprocess.Popen('read x; echo late; touch done', shell=True, stdin=-1)")
        await b.run("p.stdin.write(b'go\\n'); p.stdin.close()")
        await until((tmp_path / "done").exists)
        said = (await b.run("1")).stdout.text
        assert said == "late\n" or [text for _, text in b.output] == ["late\n"]


async def test_a_background_flood_does_not_hold_statements_up(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        assert (await b.run("import subprocess; p = subprocess.Popen(['yes'])")).status == "ok"
        assert await b.value("1 + 1") == "2"
        assert (await b.run("p.kill(); p.wait()")).status == "ok"


@pytest.mark.slow
async def test_a_gigabyte_of_output_needs_no_memory(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        before = psutil.Process().memory_info().rss
        outcome = await b.run("import sys\nfor _ in range(1000): sys.stdout.write('z' * 1_000_000)", time_limit=25.0)
        assert outcome.status == "ok"
        assert outcome.stdout.total_bytes == 10**9
        assert psutil.Process().memory_info().rss - before < 20_000_000
