"""`rewindow run` on a real terminal: what a person types, what they see, and what ends it."""

from __future__ import annotations

import json
import re
import shlex
import signal
import stat
from pathlib import Path

import psutil
import pytest

from tests.support.commands import COMMAND, Home
from tests.support.scripts import Gate, assert_gone, scripted
from tests.support.terminal import (
    CTRL_C,
    CTRL_D,
    CTRL_Z,
    ENTER,
    ESCAPE,
    META_ENTER,
    SHIFT_TAB,
    TAB,
    UP,
    Terminal,
    pasted,
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


@pytest.mark.parametrize("word", ["quit", pytest.param("exit()", marks=pytest.mark.slow)])
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
    assert "1> for i in range(2):\n       print('line', i)\n    line 0\n    line 1" in timeline(home)


@pytest.mark.slow
def test_paste_stays_whole_and_long_text_becomes_a_label(tmp_path: Path) -> None:
    with on_terminal(Home(tmp_path)) as terminal:
        terminal.until("\n1>")
        terminal.type(pasted("def twice(x):\r\n    return 2 * x\r\n\r\nprint(twice(4))\r\n"))
        terminal.until("print(twice(4))")
        assert "\n8" not in terminal.text
        terminal.type(ENTER)
        terminal.until("\n8\n2>")
        terminal.type(pasted("\n".join(f"n{i} = {i}" for i in range(20_000))))
        terminal.until("2> [pasted text 1: 20,000 lines]")
        terminal.type(ENTER)
        terminal.until("\n3>")
        terminal.type("n19999 + n1" + ENTER)
        terminal.until("\n20000\n4>")


@pytest.mark.slow
def test_command_answers_fit_the_terminal_and_name_typable_things(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "configuration.py").write_text("".join(f"def f{n}():\n    pass\n" for n in range(90)))
    model = scripted(tmp_path, {"statement": "config = view('configuration.py', tokens=400).Run()"}, {"text": "Seen."})
    with on_terminal(home, "--model", model, "--mode", "auto", columns=60) as terminal:
        terminal.until("Ctrl-D\nleaves: /help")
        terminal.type("look" + ENTER)
        terminal.until("Seen.")
        terminal.type("/help" + ENTER)
        terminal.until("- /run STATEMENT: ", "- /exit: Leave")
        terminal.type("/context" + ENTER)
        seen = terminal.until("/context 2 shows the prompt of model call 2, the last one.")
        command = re.search(r"\n +(/run config\.SetTokens\(\d+\))\n", seen)
        assert command, seen
        assert "```" not in seen
        assert "\x1b[36m/compact\x1b[0m" in terminal.raw.decode()
        terminal.resize(60, 100)
        terminal.type(command[1] + ENTER)
        terminal.until(f"2> {command[1].removeprefix('/run ')}", "<view configuration.py running tokens=")
        terminal.type("/context" + ENTER)
        terminal.until("what it is           what changes it")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    plain = home.run("run", "-c", "-p", "/views")
    assert plain.stdout.startswith("handle  shows ")
    assert "```" not in plain.stdout
    assert "\x1b" not in plain.stdout


@pytest.mark.slow
def test_completion_and_history_of_an_earlier_run_work(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "first.txt").write_text("hello")
    with on_terminal(home, SOME_TOKEN="a-secret-value-9") as terminal:
        terminal.until("\n1>")
        terminal.type("longish_name = 'a-secret-value-9'" + ENTER)
        terminal.until("\n2>")
        terminal.type("longi" + TAB + " == 'x'" + ENTER)
        terminal.until("2> longish_name == 'x'\nFalse")
        terminal.type("read('no" + TAB + "fi" + TAB + "')" + ENTER)
        terminal.until("3> read('notes/first.txt')\n'hello'")
        terminal.type("/tim" + TAB + " 2" + ENTER)
        terminal.until("> /timeline 2\n2. longish_name == 'x' (ok")
        terminal.type("isi" + TAB + "(1, int), iss" + TAB + ENTER)
        terminal.until("4> isinstance(1, int), issubclass\n(True, ")
        terminal.type("is" + TAB)
        terminal.until("5> is\n", "isinstance\n", "issubclass\n")
        terminal.type(CTRL_C)
        terminal.type(CTRL_D)
        assert terminal.ended() == 0
    kept = home.state / "typed.jsonl"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert "a-secret-value-9" not in kept.read_text()
    with on_terminal(home) as terminal:
        terminal.until("\n1>")
        terminal.type(UP * 3)
        terminal.until("1> read('notes/first.txt')")
        terminal.type(CTRL_C)
        terminal.until_it(lambda seen: "read(" not in seen, "an empty line")
        terminal.type(UP * 5)
        terminal.until("1> longish_name = '***'")


@pytest.mark.slow
def test_with_a_model_enter_sends_and_mentions_attach_files(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "plan.md").write_text("Be brief.\n")
    model = scripted(tmp_path, {"text": "I have read it."})
    with on_terminal(home, "--model", model) as terminal:
        terminal.until("\n>")
        terminal.type("do this:" + META_ENTER + "read @pl" + TAB + ", please" + ENTER)
        terminal.until(
            "> do this:\n  read @plan.md, please", "1> plan_md = view(", "Be brief.", "\n\nI have read it.\n>"
        )


@pytest.mark.slow
def test_shift_tab_changes_the_mode_and_so_does_a_command(tmp_path: Path) -> None:
    with on_terminal(Home(tmp_path), "--mode", "plan") as terminal:
        terminal.until("plan (Shift-Tab)")
        terminal.type(SHIFT_TAB)
        terminal.until("ask (Shift-Tab)")
        terminal.type("/mo" + TAB + " au" + TAB + ENTER)
        terminal.until("/mode auto\nAuto: Statements run without asking, and may change", "auto (Shift-Tab)")
        terminal.type("/mode never" + ENTER)
        terminal.until("rewindow: there is no mode 'never'; the modes are ask, auto, plan")
        terminal.type("/exit" + ENTER)
        assert terminal.ended() == 0


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
        seen = terminal.until("Run this statement? It has 101 lines, all shown above.", "  Esc  give the turn up")
        assert all(f"a{i} = {i}\n" in seen for i in range(100))
        terminal.type("xY?n")
        terminal.until("x is no answer.", "Y is no answer.", "  n    Refuses this.", "Why not? (Enter: no reason)")
        terminal.type("not noww\x7f" + ENTER)
        terminal.until("  n: no, not now", "[The user rejected this statement: not now.]", "Pity.\n>")
        assert "Why not?" not in terminal.text
        for key in (ESCAPE, CTRL_C):
            before = terminal.text.count("[cancelled]")
            terminal.type("two" + ENTER)
            terminal.until_it(lambda seen: seen.rstrip().endswith("give the turn up"), "the question")
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
        terminal.until("give the turn up")
        terminal.type("y")
        gate.reached()
        terminal.type("yyy")
        assert terminal.brackets_pastes
        gate.release()
        terminal.until_it(lambda seen: seen.count("give the turn up") == 2, "the second question")
        assert "yyy" not in terminal.text
        terminal.type("N")
        terminal.until("N: never allow ", "Well.\n> yyy")
        terminal.type(ENTER)
        terminal.until("Never.\n>")
        assert terminal.text.count("Run this statement?") == 2
    assert not touched.exists()


@pytest.mark.slow
def test_acts_are_asked_about_with_their_diff_and_their_command(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "notes.txt").write_text("one\ntwo\n")
    source = "edit('notes.txt', 'two', '2')\nbash('echo hi; echo there; exit 3')"
    model = scripted(tmp_path, {"statement": source}, {"text": "Done."}, {"statement": source}, {"text": "Pity."})
    with on_terminal(home, "--model", model, REWINDOW_SANDBOX="off") as terminal:
        terminal.until("\n>")
        terminal.type("/option ask_about acts" + ENTER)
        terminal.until("- ask_about is acts: ")
        terminal.type("go" + ENTER)
        seen = terminal.until("Write this file? The change is shown above, whole.", "give the turn up")
        assert f"{tmp_path}/notes.txt  +1 -1\n1   one\n2 - two\n2 + 2\n" in seen
        assert (tmp_path / "notes.txt").read_text() == "one\ntwo\n"
        terminal.type("y")
        seen = terminal.until(f"Run this command in {tmp_path}? It has 1 line, all shown above.")
        assert "    $ echo hi; echo there; exit 3\n\nRun this" in seen
        assert seen.count("$ echo hi; echo there; exit 3\n") == 1
        assert "  a    always allow exactly this command: echo hi; echo there; exit 3" in seen
        terminal.until_it(lambda seen: seen.count("give the turn up") == 2, "the question")
        terminal.type("y")
        seen = terminal.until("    hi\n    there\n    [exit code 3]\n\nDone.\n>")
        assert seen.count("there\n") == 1
        assert (tmp_path / "notes.txt").read_text() == "one\n2\n"
        (tmp_path / "notes.txt").write_text("two\n")
        terminal.type("/mode auto" + ENTER + "again" + ENTER)
        terminal.until("Pity.\n>")
        assert terminal.text.count("give the turn up") == 2


# --- reading along ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_model_input_is_folded_and_opens_by_key_or_command(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 61)))
    model = scripted(tmp_path, {"statement": "text = view('long.txt', tokens=2000)"}, {"text": "## Done\n\n*Well.*"})
    with on_terminal(Home(tmp_path), "--model", model) as terminal:
        terminal.until("Model replies.jsonl: ", "\n>")
        terminal.type("go" + ENTER)
        seen = terminal.until("... 50 more lines: Ctrl-O or /open 1", "\n\nDone\n\nWell.\n>")
        assert "line 30" not in seen
        terminal.type("ne" + "\x0f")
        terminal.until("Statement 1:", "line 30", "\n> ne")
        terminal.type("ver" + CTRL_C + "/open 1" + ENTER)
        terminal.until_it(lambda seen: seen.count("line 30") == 2, "the whole result")


@pytest.mark.slow
def test_while_a_turn_waits_a_spinner_says_for_what(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    model = scripted(tmp_path, {"text": "I wait."}, {"text": "late", "pause": 1.5}, {"statement": gate.source})
    with on_terminal(Home(tmp_path), "--model", model) as terminal:
        terminal.until("\n>")
        terminal.type("one" + ENTER)
        terminal.until("I wait.\n>")
        terminal.type("two" + ENTER)
        terminal.until("waiting for replies.jsonl, ", "(Ctrl-C cancels)")
        terminal.until("late\n>")
        terminal.type("three" + ENTER)
        terminal.until("running statement 1, ")
        gate.pass_one()
        terminal.until_it(lambda seen: "Ctrl-C cancels)" not in seen and seen.count("\n>") >= 3, "the end")


@pytest.mark.slow
def test_missing_model_server_is_named_with_the_attempts(tmp_path: Path) -> None:
    server = {"OPENAI_API_KEY": "unused", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    with on_terminal(Home(tmp_path), "--model", "provider:openai:gpt", **server) as terminal:
        terminal.until("Model openai:gpt: ", "\n>")
        terminal.type("look" + ENTER)
        terminal.until("attempt 2 of 5: openai:gpt at http://127.0.0.1:9/v1 cannot be reached")
        terminal.until("[error: openai:gpt at http://127.0.0.1:9/v1 cannot be reached", "(tried 5 times)]")


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


@pytest.mark.slow
def test_a_session_whose_directory_is_gone_goes_on_in_another(tmp_path: Path) -> None:
    home = Home(tmp_path)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    assert home.run_as_process("run", "--cwd", str(first), "-p", "x = 1").returncode == 0
    first.rmdir()
    with on_terminal(home, "ses_") as terminal:
        terminal.until("\n2>")
        terminal.type("x" + ENTER)
        terminal.until(f"{first} is gone", "\n2>")
    with on_terminal(home, "ses_", "--cwd", "second") as terminal:
        terminal.until("\n2>")
        terminal.type("import os; x, os.getcwd()" + ENTER)
        terminal.until(f"(1, '{second}')")


@pytest.mark.slow
def test_missing_session_is_reported_in_one_sentence(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for arguments, sentence in (
        (["-c"], f"rewindow: no session of {tmp_path} can go on; `rewindow run` begins one"),
        (["ses_none"], "rewindow: no session ses_none; list the sessions there are with `rewindow sessions`"),
        (["--model", "gpt"], "rewindow: "),
    ):
        with on_terminal(home, *arguments, columns=200) as terminal:
            terminal.until(sentence)
            assert terminal.ended() == 1
            assert "Traceback" not in terminal.text


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
def test_without_colours_nothing_is_coloured(tmp_path: Path) -> None:
    coloured = {}
    for variables in ({}, {"NO_COLOR": "1"}):
        with on_terminal(Home(tmp_path), **variables) as terminal:
            terminal.until("\n1>")
            terminal.type("def f(): return 'x'" + ENTER + "1/0" + ENTER)
            terminal.until("ZeroDivisionError: division by zero\n3>")
            coloured[bool(variables)] = bool(re.search(rb"\x1b\[[0-9;]*3[0-9]", terminal.raw))
    assert coloured == {False: True, True: False}


@pytest.mark.slow
def test_the_window_may_change_its_size_and_be_tiny(tmp_path: Path) -> None:
    with on_terminal(Home(tmp_path), lines=20, columns=60) as terminal:
        terminal.until("\n1>")
        terminal.type("value = '" + "a" * 100)
        terminal.until("a" * 40)
        terminal.resize(8, 30)
        terminal.type("'" + ENTER)
        terminal.until("\n2>")
        terminal.resize(2, 6)
        terminal.type("len(value)" + ENTER)
        terminal.until("100")
        terminal.resize(20, 60)
        terminal.type("'wide' + ' again'" + ENTER)
        terminal.until("'wide again'")
        terminal.type(CTRL_D)
        assert terminal.ended() == 0


@pytest.mark.slow
def test_undecodable_and_unprintable_text_is_escaped_or_replaced(tmp_path: Path) -> None:
    with on_terminal(Home(tmp_path)) as terminal:
        terminal.until("\n1>")
        terminal.type("'caf\udce9'" + ENTER)
        terminal.until("\n'caf\N{REPLACEMENT CHARACTER}'\n2>")
    ascii_only = {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    with on_terminal(Home(tmp_path), **ascii_only) as terminal:
        terminal.until("\n1>")
        terminal.type("'caf\N{LATIN SMALL LETTER E WITH ACUTE}'" + ENTER)
        terminal.until("\n'caf\\xe9'\n2>")


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


@pytest.mark.slow
def test_unusable_state_directory_is_reported_and_the_session_works(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.state.write_text("no directory")
    with on_terminal(home) as terminal:
        terminal.until("\n1>")
        terminal.type("20 + 22" + ENTER)
        terminal.until("This session is not saved", "\n42\n2>")
        assert "is in memory only" not in terminal.text
