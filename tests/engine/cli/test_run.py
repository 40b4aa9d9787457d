"""`rewindow run` without a person: one prompt from the command line or a pipe, plain text, and an exit code."""

from __future__ import annotations

import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import COMMAND, SECONDS, Home
from tests.support.scripts import Gate, scripted
from tests.support.stores import ROOT

AGENT_MODULES = """
import sys
import anyio, anyio.to_thread
from acp_adapter import connection, server
from engine.session import host
for stage in ("answering", "session", "prompt"):
    host.load(stage)
    connection.load(stage)
print([name for name in sys.modules if name.split(".")[0] in ("prompt_toolkit", "pygments", "rich", "wcwidth")])
"""


def start(home: Home, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, "run", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home.variables,
        cwd=home.path,
    )


@pytest.mark.slow
def test_a_piped_prompt_is_carried_out(tmp_path: Path) -> None:
    done = Home(tmp_path).run_as_process("run", stdin=b"print(1)\n1 + 1\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n2\n", "")


@pytest.mark.slow
def test_without_a_sandbox_a_refused_statement_does_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    touched = tmp_path / "touched"
    asks = {"text": "I will touch it.", "statement": "import os; os.mkdir('touched'); print('did it')"}
    model = scripted(tmp_path, asks, {"text": "The end."})
    refused = home.run_as_process("run", "--model", model, "-p", "go", REWINDOW_SANDBOX="off")
    assert (refused.returncode, refused.stdout) == (4, "The end.\n")
    assert "rewindow: nobody can be asked here" in refused.stderr
    assert "`--mode auto`" in refused.stderr
    assert not touched.exists()
    done = home.run_as_process("run", "--model", model, "--mode", "auto", "-p", "go", REWINDOW_SANDBOX="off")
    assert (done.returncode, done.stdout) == (0, "The end.\n")
    assert touched.exists()


@pytest.mark.slow
def test_a_prompt_that_cannot_be_one_is_refused_with_a_sentence(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for stdin, sentence in (
        (b"print('\xff')", "the prompt on standard input is not UTF-8: byte 7"),
        (b" \n", "the prompt is empty"),
        (b"", "the prompt is empty"),
    ):
        done = subprocess.run(
            [*COMMAND, "run"], input=stdin, capture_output=True, env=home.variables, cwd=tmp_path, timeout=SECONDS
        )
        assert (done.returncode, done.stdout) == (2, b"")
        assert sentence in done.stderr.decode()
        assert b"Traceback" not in done.stderr
    both = home.run_as_process("run", "ses_1", "-c", "-p", "1")
    assert both.returncode == 2
    assert "give that or a SESSION" in both.stderr
    mode = home.run_as_process("run", "--mode", "fast", "-p", "1")
    assert (mode.returncode, mode.stdout) == (2, "")
    assert "--mode must be ask, auto or plan, not 'fast'" in mode.stderr


@pytest.mark.slow
def test_an_interrupt_cancels_the_prompt_and_the_exit_code_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gate = Gate(tmp_path / "gate")
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        running = start(home, "-p", f"print('begun', flush=True); {gate.source}")
        gate.reached()
        running.send_signal(number)
        out, errors = running.communicate(timeout=SECONDS)
        assert (running.returncode, errors) == (code, b""), number
        assert out.startswith(b"begun\n" if number == signal.SIGINT else b""), number
        gate.release()
    assert home.run("sessions").stdout.count("ses_") == 3
    assert home.run("doctor").stdout.count("left running") == 0


@pytest.mark.slow
def test_a_reader_that_leaves_ends_it_without_a_complaint(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with start(home, "-p", "import time\nfor i in range(10**6): print(i, 'x' * 500); time.sleep(0.001)") as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline().startswith(b"0 x")
        running.stdout.close()
        assert running.wait(SECONDS) == 0
        assert running.stderr.read() == b""


@pytest.mark.slow
def test_a_session_goes_on_from_one_prompt_to_the_next(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.run_as_process("run", "-p", "x = 20").returncode == 0
    done = home.run_as_process("run", "-c", stdin=b"x + 22")
    assert done.returncode == 0
    assert done.stdout == "42\n"
    assert home.run("sessions").stdout.count("ses_") == 1


@pytest.mark.slow
def test_a_secret_is_in_nothing_that_is_printed(tmp_path: Path) -> None:
    secret = "a-secret-value-9"
    done = Home(tmp_path).run_as_process("run", "-p", f"print('{secret}'); '{secret}'", SOME_TOKEN=secret)
    assert (done.returncode, done.stdout, done.stderr) == (0, "***\n'***'\n", "")


def test_a_terminal_without_a_reader_is_told_what_to_do(tmp_path: Path) -> None:

    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [*COMMAND, "run"], stdin=theirs, capture_output=True, env=Home(tmp_path).variables, timeout=SECONDS
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 2
    assert b"the output is no terminal; give the prompt with -p TEXT or on standard input" in done.stderr


def test_nothing_of_it_is_loaded_by_an_agent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AGENT_MODULES], capture_output=True, text=True, check=True, cwd=ROOT, timeout=SECONDS
    )
    assert done.stdout == "[]\n"


def test_a_prompt_in_place_of_a_session_is_told_where_it_goes(tmp_path: Path) -> None:
    done = Home(tmp_path).run("run", "2 + 2")
    assert done.returncode == 2
    assert "rewindow run -p '2 + 2'" in done.stderr


@pytest.mark.slow
def test_closed_streams_and_a_directory_that_is_gone_are_no_tracebacks(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gone = tmp_path / "gone"
    command = shlex.join([*COMMAND, "run"])
    in_gone = f"mkdir {gone}; cd {gone}; rmdir {gone}"
    for script, code, sentence in (
        (f"{command} <&-", 2, "the prompt is empty"),
        (f"{command} -p '1' >&-", 0, ""),
        (f"{command} -p '1/0' 2>&-", 1, ""),
        (f"{command} -p '1' >/dev/full", 1, "rewindow: No space left on device\n"),
        (f"{in_gone}; {command} -p 1", 1, "rewindow: this directory cannot be worked in: "),
        (f"{in_gone}; {shlex.join(COMMAND)} doctor", 1, "rewindow: this directory cannot be worked in: "),
    ):
        done = subprocess.run(
            ["sh", "-c", script], capture_output=True, text=True, env=home.variables, cwd=tmp_path, timeout=SECONDS
        )
        assert done.returncode == code, script
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr
