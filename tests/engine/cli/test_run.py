"""`rewindow run` with one prompt: streams, formats, exit codes."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.cli.commands import ExitCode
from engine.cli.terminal.one_prompt import REFUSED
from engine.cli.terminal.prompt_result import FORMATS, PromptResult
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
    assert REFUSED in refused.stderr
    assert "`--mode auto`" in refused.stderr
    assert not touched.exists()
    done = home.run_as_process("run", "--model", model, "--mode", "auto", "-p", "go", REWINDOW_SANDBOX="off")
    assert (done.returncode, done.stdout) == (0, "The end.\n")
    assert touched.exists()


@pytest.mark.slow
def test_a_prompt_may_call_a_command_of_a_file(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / ".claude/commands").mkdir(parents=True)
    (tmp_path / ".claude/commands/review.md").write_text("Review $1.")
    (tmp_path / "a.py").write_text("x = 1\n")
    model = scripted(tmp_path, {"text": "Reviewed."})
    done = home.run_as_process("run", "--model", model, "-p", "/review @a.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Reviewed.\n", "")
    shown = home.run("show", "--events", session_in(home)).stdout.splitlines()
    message = next(each for each in map(json.loads, shown) if each["kind"] == "user_message")
    assert message["text"].startswith("/review")
    assert [Path(each["uri"]).name for each in message["attachments"]] == ["a.py"]  # as in the prompt of a task


def session_in(home: Home) -> str:
    return json.loads(home.run("sessions", "--json").stdout)[0]["session_id"]


@pytest.mark.slow
def test_invalid_prompt_is_refused_with_a_sentence(tmp_path: Path) -> None:
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
    assert "use either --continue (the latest session) or SESSION" in both.stderr
    mode = home.run_as_process("run", "--mode", "fast", "-p", "1")
    assert (mode.returncode, mode.stdout) == (2, "")
    assert "--mode must be ask, auto or plan, not 'fast'" in mode.stderr


@pytest.mark.slow
def test_interrupt_cancels_the_prompt_and_sets_the_exit_code(tmp_path: Path) -> None:
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
    assert b"the output is not a terminal; give the prompt with -p TEXT or on standard input" in done.stderr


def test_nothing_of_it_is_loaded_by_an_agent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AGENT_MODULES], capture_output=True, text=True, check=True, cwd=ROOT, timeout=SECONDS
    )
    assert done.stdout == "[]\n"


def test_prompt_given_as_session_is_explained(tmp_path: Path) -> None:
    done = Home(tmp_path).run("run", "2 + 2")
    assert done.returncode == 2
    assert "rewindow run -p '2 + 2'" in done.stderr


@pytest.mark.slow
def test_closed_streams_and_removed_directory_give_no_traceback(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gone = tmp_path / "gone"
    command = shlex.join([*COMMAND, "run"])
    in_gone = f"mkdir {gone}; cd {gone}; rmdir {gone}"
    for script, code, sentence in (
        (f"{command} <&-", 2, "the prompt is empty"),
        (f"{command} -p '1' >&-", 0, ""),
        (f"{command} -p '1/0' 2>&-", 1, ""),
        (f"{command} -p '1' >/dev/full", 1, "rewindow: no space left on device\n"),
        (f"{in_gone}; {command} -p 1", 1, "rewindow: Rewindow cannot work in this directory: "),
        (f"{in_gone}; {shlex.join(COMMAND)} doctor", 1, "rewindow: Rewindow cannot work in this directory: "),
    ):
        done = subprocess.run(
            ["sh", "-c", script], capture_output=True, text=True, env=home.variables, cwd=tmp_path, timeout=SECONDS
        )
        assert done.returncode == code, script
        assert sentence in done.stderr
        assert "Traceback" not in done.stderr


WRITES = {"text": "I will write.", "statement": "write('a.txt', 'x'); bash('echo hi')"}
END = {"text": "The end."}


def document(home: Home, *arguments: str, **variables: str) -> dict[str, Any]:
    """The JSON of a prompt; its shape and its exit code are checked."""
    done = home.run("run", "--output-format", "json", *arguments, **variables)
    msgspec.json.decode(done.stdout, type=PromptResult)
    found = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode
    assert (found["error"] is None) == (done.returncode == 0)
    return found


# --- text -------------------------------------------------------------------------------------------------------------


def test_a_statement_prints_what_it_printed_and_its_value(empty: Home) -> None:
    done = empty.run("run", "-p", "import sys\nprint(1)\nprint('aside', file=sys.stderr)\n6 * 7")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n42\n", "aside\n")


@pytest.mark.slow
def test_a_failed_statement_has_its_traceback_on_standard_error(empty: Home) -> None:
    done = empty.run("run", "-p", "print('before')\n1/0")
    assert (done.returncode, done.stdout) == (ExitCode.FAILED, "before\n")
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("\nZeroDivisionError: division by zero\n")


@pytest.mark.slow
def test_model_prints_its_last_message_and_acts_on_standard_error(empty: Home, tmp_path: Path) -> None:
    done = empty.run("run", "--model", scripted(tmp_path, WRITES, END), "--mode", "auto", "-p", "go")
    assert (done.returncode, done.stdout) == (0, "The end.\n")
    assert done.stderr == "1> write('a.txt', 'x'); bash('echo hi')\n   ~ Write a.txt\n   $ echo hi\n"


@pytest.mark.slow
def test_verbose_has_the_whole_transcript_on_standard_error(empty: Home, tmp_path: Path) -> None:
    model = scripted(tmp_path, WRITES, END)
    done = empty.run("run", "--model", model, "--mode", "auto", "--verbose", "-p", "go")
    assert done.stdout == "The end.\n"
    for text in ("I will write.\n", "a.txt (new file)", "    hi\n", "The end.\n"):
        assert text in done.stderr


def test_a_command_prints_its_text(empty: Home) -> None:
    done = empty.run("run", "-p", "/branch")
    assert (done.returncode, done.stderr) == (0, "")
    assert "main" in done.stdout
    ran = empty.run("run", "-p", "/run 20 + 22")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "42\n", "")


@pytest.mark.slow
def test_value_after_an_unfinished_line_begins_a_line(empty: Home) -> None:
    assert empty.run("run", "-p", "print('a', end='')\n1").stdout == "a\n1\n"


# --- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_document_says_what_ran_and_what_changed(empty: Home, tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("1")
    (tmp_path / "same.txt").write_text("1")
    source = (
        "write('new.txt', 'x'); edit('old.txt', '1', '2')\n"
        "edit('same.txt', '1', '2'); edit('same.txt', '2', '1')\nprint('out'); 5"
    )
    model = scripted(tmp_path, {"text": "First.", "statement": source}, END)
    found = document(empty, "--model", model, "--mode", "auto", "-p", "go")
    (statement,) = found["statements"]
    assert statement["source"] == source
    assert [statement[name] for name in ("index", "kind", "status", "value", "stdout")] == [
        1,
        "python",
        "ok",
        "5",
        "out\n",
    ]
    assert found["files"] == [
        {"path": str(tmp_path / "new.txt"), "change": "created"},
        {"path": str(tmp_path / "old.txt"), "change": "changed"},
    ]
    assert (found["answer"], found["stop_reason"], found["model"]) == ("The end.", "end_turn", model)
    assert found["usage"]["model_calls"] == 2
    assert found["usage"]["sent_tokens"] > 0
    assert f'"session_id": "{found["session_id"]}"' in empty.run("sessions", "--json").stdout


@pytest.mark.slow
def test_the_last_line_of_a_stream_is_the_document(empty: Home) -> None:
    done = empty.run("run", "--output-format", "stream-json", "-p", "print('one')\n2")
    start_line, *between, last = map(json.loads, done.stdout.splitlines())
    assert (start_line["type"], last["type"]) == ("start", "result")
    assert start_line["version"] == last["version"]
    assert start_line["session_id"] == last["session_id"]
    assert last["answer"] == "one\n2"
    kinds = [each["event"]["kind"] for each in between if each["type"] == "event"]
    assert kinds[0] == "user_message"
    assert kinds[-1] == "run_stop"
    assert "".join(each["text"] for each in between if each["type"] == "output") == "one\n"


def test_a_session_that_cannot_be_opened_has_a_document_too(empty: Home) -> None:
    found = document(empty, "ses_none", "-p", "1")
    assert (found["session_id"], found["exit_code"], found["answer"]) == (None, ExitCode.FAILED, "")
    assert "no session ses_none" in found["error"]


def test_a_setting_that_is_none_has_a_document_too(empty: Home) -> None:
    found = document(empty, "-p", "1", REWINDOW_MAX_ROUNDS="many")
    assert found["exit_code"] == ExitCode.FAILED


def test_secrets_are_in_no_format(empty: Home) -> None:
    secret = "a-secret-value-9"
    for name in FORMATS:
        done = empty.run("run", "--output-format", name, "-p", f"print('{secret}'); '{secret}'", SOME_TOKEN=secret)
        assert done.returncode == 0
        assert secret not in done.stdout + done.stderr


# --- exit codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", ["tell me a story", "/tmp is full"])
def test_prose_without_a_model_fails_and_makes_no_session(empty: Home, prompt: str) -> None:
    done = empty.run("run", "-p", prompt)
    assert (done.returncode, done.stdout) == (ExitCode.NO_MODEL, "")
    assert "no language model is set" in done.stderr
    assert empty.run("sessions").stdout.startswith("No sessions yet")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["provider:anthropic:claude", "nonsense"])
def test_unusable_model_has_its_code_and_commands_work(empty: Home, model: str) -> None:
    assert document(empty, "--model", model, "-p", "hello")["exit_code"] == ExitCode.NO_MODEL
    assert empty.run("run", "--model", model, "-p", "/run 1 + 1").stdout == "2\n"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ({"error": "no luck"}, ExitCode.FAILED),
        ({"text": "cut", "cause": "length"}, ExitCode.STOPPED),
        ({"text": "no", "cause": "refusal"}, ExitCode.STOPPED),
    ],
)
def test_the_end_of_a_reply_is_the_exit_code(empty: Home, tmp_path: Path, reply: dict[str, str], code: int) -> None:
    assert document(empty, "--model", scripted(tmp_path, reply), "-p", "go")["exit_code"] == code


@pytest.mark.slow
def test_refused_acts_are_listed_beside_the_answer(empty: Home, tmp_path: Path) -> None:
    found = document(empty, "--model", scripted(tmp_path, {"statement": "bash('echo hi')"}, END), "-p", "go")
    assert (found["exit_code"], found["answer"]) == (ExitCode.STOPPED, "The end.")
    assert found["refused"] == ["run the command echo hi"]
    assert found["statements"][0]["status"] == "error"


@pytest.mark.slow
def test_limits_of_model_calls_and_of_time_are_code_4(empty: Home, tmp_path: Path) -> None:
    model = scripted(tmp_path, *[{"statement": "1"}] * 5)
    calls = document(empty, "--model", model, "--mode", "auto", "-p", "go", REWINDOW_MAX_ROUNDS="2")
    assert (calls["exit_code"], calls["stop_reason"]) == (ExitCode.STOPPED, "max_turn_requests")
    late = document(empty, "-p", "import time; time.sleep(60)", REWINDOW_STATEMENT_SECONDS="0.5")
    assert (late["exit_code"], late["statements"][0]["status"]) == (ExitCode.STOPPED, "timeout")


@pytest.mark.parametrize("prompt", ["/nosuch", "/rewind 7", "/rewind", "/help 1"])
def test_a_command_that_is_refused_is_an_error(empty: Home, prompt: str) -> None:
    done = empty.run("run", "-p", prompt)
    assert (done.returncode, done.stdout) == (ExitCode.FAILED, "")
    assert done.stderr.startswith("rewindow: ")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_cancelled_prompt_has_a_document(tmp_path: Path, number: signal.Signals, code: int) -> None:
    home, gate = Home(tmp_path), Gate(tmp_path / "gate")
    running = start(home, "--output-format", "json", "-p", f"print('begun'); {gate.source}")
    gate.reached()
    running.send_signal(number)
    out, errors = running.communicate(timeout=SECONDS)
    gate.release()
    found = json.loads(out)
    assert (running.returncode, errors) == (code, b"")
    assert [found[name] for name in ("exit_code", "error", "stop_reason")] == [code, "cancelled", "cancelled"]
    assert found["statements"][0]["status"] == "cancelled"


@pytest.mark.parametrize("option", [["--output-format", "xml", "-p", "1"], ["--output-format", "text", "-p", " "]])
def test_a_wrong_usage_is_code_2_and_prints_nothing(empty: Home, option: list[str]) -> None:
    done = empty.run("run", *option)
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, "")


def test_formats_are_for_one_prompt(empty: Home) -> None:
    code, seen = empty.run_on_a_terminal("run", "--output-format", "json")
    assert code == ExitCode.USAGE
    assert b"give one with -p TEXT" in seen
