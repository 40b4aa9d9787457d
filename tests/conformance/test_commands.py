"""The commands: exit statuses, output, and files that one command writes and another reads."""

from __future__ import annotations

import html
import json
import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from conformance.cli import COMMANDS, main
from tests.conformance.suite_runs import PEERS, SUBJECTS, defect, suite, transcript_of
from tests.support.quick import first_is_quick

AGENT = [sys.executable, str(PEERS / "run_acp_agent.py")]
PROMPTS = ["--prompt", "hello", "--slow-prompt", "count", "--tool-prompt", "tool"]


def test_help_lists_commands_examples_and_statuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    assert "examples:" in text
    assert "3 not judged" in text


def test_version_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rewindow-conformance {version('rewindow')}\n"


ECHO = """
import os, sys
print(os.environ["API_KEY"], *sys.argv[1:], file=sys.stderr, flush=True)
print(os.environ["OTHER_TOKEN"], flush=True)
"""


KEYS = {"environment": "token&of-mine-9", "command": "word-of-mine-9"}
STARTS = {
    "rewindow-conformance": [str(Path(sys.executable).parent / "rewindow-conformance")],
    "python -m": [sys.executable, "-m", "conformance"],
}


def run_with_keys(start: list[str], folder: Path, options: list[str], program: list[str]) -> list[str]:
    """Return all output of a command whose program repeats its keys: both streams and every report."""
    reports = [folder / name for name in ("r.json", "r.xml", "r.html", "r.md")]
    kinds = ("json", "junit", "html", "markdown")
    options = [*options, *(f"--{kind}={path}" for kind, path in zip(kinds, reports, strict=True))]
    command = [*start, "acp", "-k", "INIT-001", "--timeout", "2", *options, "--", *program]
    environ = {**os.environ, "OTHER_TOKEN": KEYS["environment"], "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environ, timeout=60, check=False)
    assert done.returncode == 3, done.stderr
    assert "***" in done.stdout
    return [done.stdout, done.stderr, *(path.read_text() for path in reports)]


@pytest.mark.parametrize("start", STARTS)
def test_no_report_contains_a_given_key(tmp_path: Path, start: str) -> None:
    key = "key-of-mine/9"
    program = [sys.executable, "-c", ECHO, "--password", KEYS["command"]]
    texts = run_with_keys(STARTS[start], tmp_path, ["--env", f"API_KEY={key}"], program)
    for text in texts:
        assert not any(spelled in text for one in (key, *KEYS.values()) for spelled in (one, html.escape(one)))


@pytest.mark.parametrize(
    "words",
    first_is_quick(
        [
            ["env", "API_KEY={key}", "{program}"],
            ["env", "-u", "NOTHING", "AUTH=Bearer {key}", "{program}"],
            ["{program}", "--header", "Authorization: Bearer {key}"],
            ["{program}", "--header=Authorization: Bearer {key}"],
            ["{program}", "-H", "X-Api-Key: {key}"],
            ["{program}", "--url", "https://me:{key}@host/mcp"],
            ["{program}", "--url=https://host/mcp?access_token={key}"],
            ["{program}", '--config={{"servers": [{{"api_key": "{key}"}}]}}'],
            ["sh", "-c", "API_KEY={key} exec {program} --token {key}"],
        ]
    ),
    ids=" ".join,
)
def test_key_on_program_command_line_is_hidden(tmp_path: Path, words: list[str]) -> None:
    """However the command line passes the key."""
    key = "keyofmineinwords"  # an ordinary word, secret only by its name
    echo = tmp_path / "echo"
    echo.write_text(f"#!{sys.executable}\nimport os\nos.environ.setdefault('API_KEY', '')\n{ECHO}")
    echo.chmod(0o755)
    program = [word.format(key=key, program=echo) for word in words]
    texts = run_with_keys(STARTS["rewindow-conformance"], tmp_path, [], program)
    assert not [text for text in texts if key in text]


@pytest.mark.parametrize("command", ["acp", "acp-client", "mcp", "fuzz", "replay", "trace"])
def test_help_says_that_transcripts_are_raw(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    main([command, "--help"])
    assert "raw and contain" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"\n\n{COMMANDS[command].help[0].upper()}{COMMANDS[command].help[1:]}.\n" in text
    assert "examples:" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "required: COMMAND"),
        (["nonsense"], "invalid choice"),
        (["acp"], "name the program after `--`: rewindow-conformance acp -- PROGRAM"),
        (["acp", "agent.py", "x"], "name the program after `--`: rewindow-conformance acp -- agent.py x"),
        (["acp", "--fast", "--", "x"], "acp has no option --fast"),
        (["acp", "--jobs", "0", "--", "x"], "from 1 to 64"),
        (["acp", "--timeout", "never", "--", "x"], "--timeout"),
        (["acp", "--env", "NAME", "--", "x"], "NAME=VALUE"),
        (["acp", "--cwd", "/no/such/directory", "--", "x"], "/no/such/directory"),
        (["acp", "-k", "no such requirement", "--", "x"], "no such requirement"),
        (["explain", "ACP1-A-NONE-001"], "see `rewindow-conformance list`"),
        (["explain", "c-cancel-001"], "ACP1-C-CANCEL-001"),
        (["judge", "/no/such/file"], "cannot be read"),
        (["replay", "/no/such/file", "--", "x"], "cannot be read"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_explain_shows_quote_and_violation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "acp1-a-cancel-001"]) == 0
    text = capsys.readouterr().out
    row = next(row for row in suite().requirements if row.id == "ACP1-A-CANCEL-001")
    assert row.violation in text
    assert "https://agentclientprotocol.com/protocol/v1/prompt-turn" in text
    assert "cancelling.py, line" in text


@pytest.mark.parametrize("of", SUBJECTS)
def test_every_requirement_can_be_explained(of: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *(row.id for row in suite(of).requirements)]) == 0
    assert capsys.readouterr().out.count("Violation:") == len(suite(of).requirements)


def test_requirements_are_listed_by_level_and_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json", "--level", "advisory", "-k", "LOAD"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == ["ACP1-A-LOAD-008", "ACP1-A-LOAD-009"]
    assert rows[0]["source"]["quote"]


def test_judge_command_on_saved_transcripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cancel.jsonl"
    transcript_of("cancel", defect("ACP1-A-CANCEL-001")).save(path)
    assert main(["judge", str(path)]) == 1
    assert "FAIL ACP1-A-CANCEL-001" in capsys.readouterr().out
    transcript_of("cancel").save(path)
    assert main(["judge", str(path), "--json", str(tmp_path / "report.json")]) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["format"], report["version"], report["verdict"]) == ("rewindow-conformance report", 2, "conformant")


def test_unwritable_report_changes_the_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "list.jsonl"
    transcript_of("list").save(path)
    assert main(["judge", str(path), "--json", str(tmp_path / "no" / "report.json")]) == 2
    captured = capsys.readouterr()
    assert "Conformant." in captured.out
    assert "cannot be written" in captured.err


def test_full_disk_for_report_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "list.jsonl"
    transcript_of("list").save(path)
    (tmp_path / "full.json.part").symlink_to("/dev/full")
    assert main(["judge", str(path), "--json", str(tmp_path / "full.json")]) == 2
    assert "No space left" in capsys.readouterr().err


@pytest.mark.slow
def test_printed_command_repeats_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = [*AGENT, "ACP1-A-INIT-003"]
    chosen = ["-k", "INIT-003", "--keep", str(tmp_path)]
    assert main(["acp", *PROMPTS, *chosen, "--", *program]) == 1
    printed = capsys.readouterr().out
    (again,) = [line.partition("again: ")[2] for line in printed.splitlines() if "again: " in line]
    assert main(shlex.split(again)[1:]) == 1
    assert "FAIL ACP1-A-INIT-003" in capsys.readouterr().out
    assert main([*shlex.split(again)[1:3], "--", *AGENT]) == 0
    assert main([*shlex.split(again)[1:3], "--", "/no/such/program"]) == 3


@pytest.mark.slow
def test_refused_authentication_lists_methods(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["acp", *PROMPTS, "--auth", "nonsense", "-k", "NEW-002", "--", *AGENT]) == 3
    out = capsys.readouterr().out
    assert "Not judged: " in out
    assert "'nonsense'" in out
    assert out.rstrip().endswith(": login.")


def test_invalid_transcript_file_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "notes.txt"
    assert main(["judge", str(path)]) == 2
    assert capsys.readouterr().err == f"rewindow-conformance: {path} cannot be read: No such file or directory\n"
    path.write_text("hello")
    assert main(["judge", str(path)]) == 2
    assert capsys.readouterr().err == f"rewindow-conformance: {path} is not a transcript: line 1 is not JSON\n"


@pytest.mark.slow
def test_agent_with_another_version_is_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    request = json.loads(line)\n"
        "    result = {'protocolVersion': 7, 'agentCapabilities': {}}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': result}), flush=True)\n"
    )
    assert main(["acp", "--timeout", "1", "--scenario-timeout", "3", "--", sys.executable, str(agent)]) == 3
    assert "speaks version 7" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "code", "said"),
    [
        ("{command} list | head -n 1; exit ${{PIPESTATUS[0]}}", 141, ""),
        ("{command} list --json >&-", 0, ""),
        ("{command} list > /dev/full", 2, "No space left on device"),
        ("{command} acp -k INIT-002 --json report.json -- {agent} | true; exit ${{PIPESTATUS[0]}}", 0, ""),
        ("{command} acp -k INIT-002 --json report.json -- {agent} >&- 2>&- <&-", 0, ""),
        ("{command} acp -k INIT-002 --json report.json -- {agent} > /dev/full", 2, "the report cannot be printed: No"),
        ("ulimit -f 0; {command} acp -k INIT-002 -- {agent}", 2, "No usable temporary directory found"),
        (
            "ulimit -f 0; {command} acp -k INIT-002 --cwd . --json full.json -- {agent}",
            2,
            "full.json cannot be written",
        ),
        ("ulimit -f 0; {command} acp-client --cwd . -- {client} {{agent}}", 3, ""),
        ("{command} acp -- /no/such/program", 3, ""),
        ("{command} fuzz acp -- /no/such/program", 3, ""),
        ("{command} trace -- /no/such/program", 2, "/no/such/program cannot be started: No such file or directory"),
    ],
)
def test_full_stream_or_disk_is_one_error_line(shell: str, code: int, said: str, tmp_path: Path) -> None:
    command = str(Path(sys.executable).parent / "rewindow-conformance")
    client = [sys.executable, str(PEERS / "run_acp_client.py")]
    script = shell.format(command=command, agent=shlex.join(AGENT), client=shlex.join(client))
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) <= 1
    if "report.json" in shell:
        assert json.loads((tmp_path / "report.json").read_text())["verdict"] == "conformant"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []
