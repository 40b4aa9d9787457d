"""`rewindow run` on a real terminal: what a person types, what they see, and what ends it."""

from __future__ import annotations

import json
import re
import shlex
import signal
from base64 import b64decode
from pathlib import Path

import psutil
import pytest

from tests.support.commands import COMMAND, Home
from tests.support.pictures import opened
from tests.support.scripts import Gate, assert_gone, scripted
from tests.support.terminal import (
    CTRL_C,
    CTRL_D,
    CTRL_Z,
    ENTER,
    ESCAPE,
    Terminal,
)

TITLE = "\x1b]0;owned\x07"


def on_terminal(home: Home, *arguments: str, lines: int = 60, columns: int = 170, **variables: str) -> Terminal:
    """`rewindow run` on a terminal of its own."""
    environ = {name: value for name, value in home.variables.items() if name != "COLUMNS"}
    environ |= {"TERM": "xterm-256color", **variables}
    return Terminal([*COMMAND, "run", *arguments], environ, str(home.path), lines=lines, columns=columns)


def processes_of(terminal: Terminal) -> list[psutil.Process]:
    process = psutil.Process(terminal.process.pid)
    return [process, *process.children(recursive=True)]


def only_session(home: Home) -> str:
    (row,) = home.run("sessions", "--jsonl").stdout.splitlines()
    return json.loads(row)["session_id"]


def timeline(home: Home) -> str:
    return home.run("show", "ses_").stdout


# --- typing -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("word", ["quit", "exit()"])
def test_bare_command_starts_a_session_and_exit_words_end_it(tmp_path: Path, word: str) -> None:
    home = Home(tmp_path)
    environ = {name: value for name, value in home.variables.items() if name != "COLUMNS"} | {"TERM": "xterm-256color"}
    with Terminal(COMMAND, environ, str(home.path), lines=60, columns=170) as terminal:
        terminal.until("\n1>")
        terminal.type(word + ENTER)
        assert terminal.ended() == 0


def test_what_is_typed_runs_and_leaving_closes_everything(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with on_terminal(home) as terminal:
        terminal.until("\n1>", "no tokens used yet")
        terminal.type("for i in range(2):" + ENTER)
        terminal.type("print('line', i)" + ENTER + ENTER)
        terminal.until("line 0\nline 1\n2>")
        processes = processes_of(terminal)
        assert len(processes) > 2
        terminal.type("20 + 22" + ENTER)
        terminal.until("2> 20 + 22\n42\n3>")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
        assert terminal.is_cooked
    assert_gone(processes)
    assert "1> for i in range(2):\n            print('line', i)\n    line 0\n    line 1" in timeline(home)


# --- interrupting, leaving --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_only_cancels_statements_and_clears_lines(tmp_path: Path) -> None:
    with on_terminal(Home(tmp_path)) as terminal:
        terminal.until("\n1>")
        terminal.type("kept = 1" + ENTER)
        terminal.until("\n2>")
        terminal.type("import time; kept = 2; print('beg' + 'un'); time.sleep(600)" + ENTER)
        terminal.until("begun")
        terminal.type(CTRL_C + CTRL_C + CTRL_C)
        seen = terminal.until("begun\n[cancelled after ", "\n3>")
        assert seen.count("[cancelled") == 1
        assert "KeyboardInterrupt" not in seen
        terminal.type("kept" + CTRL_C + "kept + 1" + ENTER)
        terminal.until("3> kept + 1\n3\n4>")


@pytest.mark.slow
def test_leaving_in_the_middle_of_a_turn_cancels_it_first(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gate = Gate(tmp_path / "gate")
    with on_terminal(home) as terminal:
        terminal.until("\n1>")
        terminal.type(gate.source + ENTER)
        gate.reached()
        processes = processes_of(terminal)
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    assert_gone(processes)
    assert timeline(home).rstrip().endswith("[cancelled]")


@pytest.mark.slow
@pytest.mark.parametrize("running", [False, True], ids=["at the prompt", "in a turn"])
@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP", "gone"])
def test_signal_or_lost_terminal_closes_the_session_cleanly(tmp_path: Path, how: str, running: bool) -> None:
    home = Home(tmp_path)
    gate = Gate(tmp_path / "gate")
    with on_terminal(home) as terminal:
        terminal.until("\n1>")
        terminal.type("x = 1" + ENTER)
        terminal.until("\n2>")
        if running:
            terminal.type(gate.source + ENTER)
            gate.reached()
        processes = processes_of(terminal)
        if how == "gone":
            terminal.hang_up()
        else:
            terminal.process.send_signal(signal.Signals[how])
        code = terminal.ended()
        assert code == 128 + (signal.SIGTERM if how == "SIGTERM" else signal.SIGHUP)
    assert_gone(processes)
    shown = timeline(home)
    assert "1> x = 1" in shown
    assert shown.rstrip().endswith("[cancelled]") == running


# --- questions --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_question_shows_the_whole_statement_and_accepts_each_key(tmp_path: Path) -> None:
    home = Home(tmp_path)
    touched = tmp_path / "touched"
    source = "\n".join([*(f"a{i} = {i}" for i in range(100)), f"open({str(touched)!r}, 'a').write('+')"])
    asks = {"statement": source}
    model = scripted(
        tmp_path, asks, {"text": "Pity."}, asks, asks, asks, {"text": "Did it."}, asks, {"text": "Again."}, asks
    )
    with on_terminal(home, "--model", model, REWINDOW_SANDBOX="off") as terminal:
        terminal.until("\n>")
        terminal.type("one" + ENTER)
        seen = terminal.until("Run this statement? It has 101 lines, all shown above.", "  Esc  cancel the turn")
        assert all(f"a{i} = {i}\n" in seen for i in range(100))
        terminal.type("xY?n")
        terminal.until(
            "x is not an answer.", "Y is not an answer.", "  n    Refuses this.", "Why not? (Enter: no reason)"
        )
        terminal.type("not noww\x7f" + ENTER)
        terminal.until("  n: no, not now", "[The user rejected this statement: not now.]", "Pity.\n>")
        assert "Why not?" not in terminal.text
        for key in (ESCAPE, CTRL_C):
            before = terminal.text.count("[cancelled]")
            terminal.type("two" + ENTER)
            terminal.until_it(lambda seen: seen.rstrip().endswith("cancel the turn"), "the question")
            terminal.type(key)
            terminal.until_it(lambda seen, before=before: seen.count("[cancelled]") > before, "the end of the turn")
            terminal.until_it(lambda seen: "\n>" in seen[-400:], "the next line")
        assert not touched.exists()
        terminal.type("three" + ENTER)
        terminal.until_it(lambda seen: seen.count("Run this statement?") == 4, "the question")
        terminal.type("y")
        terminal.until("y: yes, this once", "Did it.\n>")
        assert touched.read_text() == "+"
        terminal.type("four" + ENTER)
        terminal.until_it(lambda seen: seen.count("Run this statement?") == 5, "the question")
        terminal.type("a")
        terminal.until("a: always allow ", "Again.\n>")
        terminal.type("five" + ENTER)
        terminal.until_it(lambda _: touched.read_text() == "+++", "the statement")
        assert terminal.text.count("Run this statement?") == 5


@pytest.mark.slow
def test_never_is_remembered_and_earlier_typing_answers_no_question(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gate = Gate(tmp_path / "gate")
    touched = tmp_path / "touched"
    asks = {"statement": f"open({str(touched)!r}, 'a').close()"}
    first = {"statement": gate.source}
    model = scripted(tmp_path, first, asks, {"text": "Well."}, asks, {"text": "Never."})
    with on_terminal(home, "--model", model, REWINDOW_SANDBOX="off") as terminal:
        terminal.until("\n>")
        terminal.type("go" + ENTER)
        terminal.until("cancel the turn")
        terminal.type("y")
        gate.reached()
        terminal.type("yyy")
        assert terminal.brackets_pastes
        gate.release()
        terminal.until_it(lambda seen: seen.count("cancel the turn") == 2, "the second question")
        assert "yyy" not in terminal.text
        terminal.type("N")
        terminal.until("N: never allow ", "Well.\n> yyy")
        terminal.type(ENTER)
        terminal.until("Never.\n>")
        assert terminal.text.count("Run this statement?") == 2
    assert not touched.exists()


# --- coming back ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_continued_session_shows_its_last_exchanges(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with on_terminal(home) as terminal:
        for number in range(1, 6):
            terminal.until(f"\n{number}>")
            terminal.type(f"x = {number}; print('now', x)" + ENTER)
        terminal.until("now 5\n6>")
        session = only_session(home)
        with on_terminal(home, session[:8], columns=200) as second:
            second.until(
                f"rewindow: session {session} is in use by process {terminal.process.pid}; close it there first"
            )
            assert second.ended() == 1
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    title = f"Session {session} \"x = 1; print('now', x)\" in {tmp_path}"
    with on_terminal(home, "-c") as terminal:
        seen = terminal.until(f"{title}, 5 statements\n... 2 earlier messages", "\n6>")
        assert "now 2" not in seen
        assert "> x = 3; print('now', x)\nnow 3\n\n> x = 4; print('now', x)\nnow 4\n" in seen
        terminal.type("x + 1" + ENTER)
        terminal.until("5 statements ran again in a new worker]\n6\n7>")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    with on_terminal(home, session[:10]) as terminal:
        terminal.until(f"{title}, 6 statements\n", "> x + 1\n", "\n6\n\n", "\n7>")


# --- the terminal -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_that_is_printed_read_or_said_controls_the_terminal(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "evil.txt").write_text(f"{TITLE}\x1b[2Jtext\u202e")
    source = (
        f"print({TITLE!r}, chr(27) + '[31mred', 'over\\n1234\\rabc')\nview('evil.txt')\nraise ValueError({TITLE!r})"
    )
    model = scripted(tmp_path, {"text": f"say {TITLE}\x1b[8m", "statement": source + f"  # {TITLE}"}, {"text": "end"})
    with on_terminal(home, "--model", model, "--mode", "auto") as terminal:
        terminal.until("\n>")
        terminal.type("go" + ENTER)
        terminal.until("\n\nend\n>", r"say \x1b]0;owned\x07\x1b[8m", " red over\n    abc4\n", r"text\u202e")
    for sequence in (b"\x1b]", b"\x1b[2J", b"\x1b[8m", b"\x07", "\u202e".encode()):
        assert sequence not in terminal.raw


@pytest.mark.slow
def test_ctrl_z_suspends_to_the_shell_and_resumes(tmp_path: Path) -> None:
    home = Home(tmp_path)
    gate = Gate(tmp_path / "gate")
    command = shlex.join([*COMMAND, "run"])
    variables = {**home.variables, "TERM": "xterm-256color", "PS1": "shell$ "}
    with Terminal(["sh", "-i"], variables, str(tmp_path), columns=170) as terminal:
        terminal.until("shell$")
        terminal.type(f"{command}\n")
        terminal.until("\n1>")
        terminal.type("20" + CTRL_Z)
        terminal.until("Stopped")
        terminal.type("echo sh''ell\n")
        terminal.until("\nshell\n")
        terminal.type("fg\n")
        terminal.until("1> 20")
        terminal.type(" + 22" + ENTER)
        terminal.until("\n42\n2>")
        terminal.type(f"{gate.source}; print('on')" + ENTER)
        gate.reached()
        terminal.type(CTRL_Z)
        terminal.until_it(lambda seen: seen.count("Stopped") == 2, "the shell")
        terminal.type("fg\n")
        terminal.until_it(lambda seen: seen.count("$ fg\n") == 2, "the command")
        gate.release()
        terminal.until("\non\n3>")
        terminal.type(CTRL_D)
        terminal.until_it(lambda seen: seen.rstrip().endswith("shell$"), "the shell")


# --- pictures ---------------------------------------------------------------------------------------------------------

RED = "from PIL import Image; Image.new('RGB', (40, 20), (255, 0, 0))"
DRAWN = re.compile(rb"\x1b_Ga=T,f=100,q=2,c=4,m=0;([A-Za-z0-9+/=]+)\x1b\\")


def test_a_terminal_that_draws_gets_the_picture_below_its_path(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with on_terminal(home, TERM="xterm-kitty", NO_COLOR="1") as terminal:
        terminal.until("\n1>")
        terminal.type(RED + ENTER)
        terminal.until("[picture statement-1, 40x20, ", ".png", "\n2>")
        (found,) = DRAWN.finditer(bytes(terminal.raw))
        assert opened(b64decode(found[1])).getpixel((0, 0)) == (255, 0, 0)
        assert terminal.raw.index(b"[picture statement-1, 40x20, ") < found.start()
        terminal.type("'typed'" + ENTER)
        terminal.until("'typed'\n3>")


def test_no_other_output_gets_a_picture(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with on_terminal(home) as terminal:
        terminal.until("\n1>")
        terminal.type(RED + ENTER)
        terminal.until("[picture statement-1, 40x20, ", "\n2>")
        assert b"\x1b_G" not in terminal.raw
    piped = home.run_as_process("run", stdin=f"{RED}\n".encode(), TERM="xterm-kitty")
    assert "[picture statement-1, 40x20, " in piped.stdout
    assert "\x1b" not in piped.stdout
