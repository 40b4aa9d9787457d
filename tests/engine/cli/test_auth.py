"""`rewindow auth`: keys are stored, listed, tested and removed, and never shown."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from engine.cli.auth import NO_KEY, NO_TERMINAL, ON_THE_COMMAND_LINE, SHORT
from engine.cli.commands import ExitCode
from engine.context.models.providers import NO_ADDRESS, provider_of
from engine.core.key_file import FILE, key_path
from engine.session.keys import EMPTY, NOT_PRINTABLE
from tests.support.commands import COMMAND, Home
from tests.support.keyrings import configure_keyring
from tests.support.llm_server import Answer, llm_server
from tests.support.terminal import CTRL_C, ENTER, Terminal

KEY = "sk-typed-by-a-person-0123"
SECONDS = 40.0
LIST = json.dumps({"data": [{"id": "claude-a"}, {"id": "claude-b"}]}).encode()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def file_of(home: Home) -> Path:
    return key_path(home.variables)


def listed(home: Home, **variables: str) -> dict[str, str]:
    done = home.run("auth", "list", **variables)
    assert (done.returncode, KEY in done.stdout + done.stderr) == (0, False)
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines())


def test_key_from_a_pipe_is_in_the_keyring_until_it_is_removed(home: Home) -> None:
    kept = configure_keyring(home.path)
    done = home.run("auth", "add", "anthropic", stdin=f"  {KEY}\r\n".encode())
    assert (done.returncode, done.stdout) == (0, "Stored the key of anthropic in the keyring.\n")
    assert json.loads(kept.read_text()) == {"rewindow/anthropic": KEY}
    assert KEY not in file_of(home).read_text()
    assert listed(home)["anthropic"] == "keyring"
    assert listed(home, ANTHROPIC_API_KEY="of-the-environment")["anthropic"] == "environment (ANTHROPIC_API_KEY)"
    assert home.run("auth", "remove", "anthropic").stdout == "Removed the stored key of anthropic.\n"
    assert json.loads(kept.read_text()) == {}
    assert listed(home)["anthropic"] == "no key"
    assert home.run("auth", "remove", "anthropic").stdout == "No key of anthropic is stored.\n"


def test_without_a_keyring_the_key_is_in_a_file_of_its_owner(home: Home) -> None:
    done = home.run("auth", "add", "gemini", stdin=KEY.encode(), PYTHON_KEYRING_BACKEND="keyring.backends.fail.Keyring")
    assert done.returncode == 0
    assert "the keyring cannot be used: this system has no keyring" in done.stderr
    assert f"in {file_of(home)}, which only you can read" in done.stdout
    assert json.loads(file_of(home).read_text())["keys"] == {"google": KEY}
    assert stat.S_IMODE(file_of(home).stat().st_mode) == 0o600
    assert listed(home)["google"] == f"file {file_of(home)}"


def test_file_is_chosen_by_an_option(home: Home) -> None:
    kept = configure_keyring(home.path)
    assert home.run("auth", "add", "openai", "--file", stdin=KEY.encode()).returncode == 0
    assert not kept.exists()
    assert json.loads(file_of(home).read_text())["keys"] == {"openai": KEY}


def test_file_that_others_may_read_is_reported(home: Home) -> None:
    home.run("auth", "add", "openai", "--file", stdin=KEY.encode())
    file_of(home).chmod(0o644)
    assert f"run: chmod 600 {file_of(home)}" in home.run("auth", "list").stderr


def test_removal_reports_a_file_that_others_may_read(home: Home) -> None:
    home.run("auth", "add", "openai", "--file", stdin=KEY.encode())
    file_of(home).chmod(0o644)
    assert f"run: chmod 600 {file_of(home)}" in home.run("auth", "remove", "groq").stderr


def test_removal_without_a_name_asks_for_one(home: Home) -> None:
    assert "name the provider: " in home.run("auth", "remove").stderr


def test_setup_stores_keys_in_the_file_on_request(home: Home) -> None:
    kept = configure_keyring(home.path)
    with llm_server() as server:
        server.lists["/v1/models"] = Answer(pieces=(LIST,))
        variables = {**home.variables, "TERM": "xterm", "ANTHROPIC_BASE_URL": server.url}
        with Terminal([*COMMAND, "auth", "--file"], variables, str(home.path), columns=160) as terminal:
            terminal.until("Enter to finish", seconds=SECONDS)
            terminal.type(f"anthropic{ENTER}")
            terminal.until("Key of anthropic (not shown)", seconds=SECONDS)
            terminal.type(f"{KEY}{ENTER}")
            terminal.until("accepts the key, and offers 2 models", seconds=SECONDS)
            terminal.type(ENTER)
            assert terminal.process.wait(SECONDS) == 0
    assert not kept.exists()
    assert json.loads(file_of(home).read_text())["keys"] == {"anthropic": KEY}


def test_invalid_file_is_reported_and_kept(home: Home) -> None:
    file_of(home).parent.mkdir(parents=True)
    file_of(home).write_text(f"{KEY} no json")
    for arguments, code in ((("list",), 0), (("add", "openai", "--file"), 1)):
        done = home.run("auth", *arguments, stdin=KEY.encode())
        assert (done.returncode, FILE in done.stderr, KEY in done.stderr) == (code, True, False)
    assert file_of(home).read_text() == f"{KEY} no json"


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (("add", "openai"), "", EMPTY),
        (("add", "openai"), " \n", EMPTY),
        (("add", "openai"), f"{KEY}\n{KEY}", NOT_PRINTABLE),
        (("add", "openai", KEY), KEY, ON_THE_COMMAND_LINE),
        (("add", "nosuch"), KEY, "use one of anthropic"),
        (("add",), KEY, "name the provider"),
        (("test",), "", NO_KEY),
        (("setup",), "", NO_TERMINAL),
    ],
)
def test_refused_input_stores_nothing_and_is_not_shown(
    home: Home, arguments: tuple[str, ...], stdin: str, said: str
) -> None:
    done = home.run("auth", *arguments, stdin=stdin.encode())
    assert (done.returncode, done.stdout) == (ExitCode.FAILED, "")
    assert said in done.stderr
    assert KEY not in done.stderr
    assert not file_of(home).exists()


def test_short_key_is_stored_with_a_warning(home: Home) -> None:
    assert SHORT in home.run("auth", "add", "openai", "--file", stdin=b"abc").stderr


@pytest.mark.slow
def test_test_asks_the_provider_with_the_stored_key(home: Home) -> None:
    home.run("auth", "add", "anthropic", "--file", stdin=KEY.encode())
    with llm_server() as server:
        server.lists["/v1/models"] = Answer(pieces=(LIST,))
        done = home.run("auth", "test", ANTHROPIC_BASE_URL=server.url)
        assert (done.returncode, "accepts the key, and offers 2 models" in done.stdout) == (0, True)
        assert server.listed[0].headers["x-api-key"] == KEY
        server.lists["/v1/models"] = Answer(401, (f'{{"error": "{KEY}"}}'.encode(),))
        done = home.run("auth", "test", "anthropic", ANTHROPIC_BASE_URL=server.url)
        assert (done.returncode, "refuses the key" in done.stdout) == (1, True)
        server.lists["/v1/models"] = Answer(500)
        done = home.run("auth", "test", "anthropic", ANTHROPIC_BASE_URL=server.url)
        assert (done.returncode, "HTTP 500" in done.stdout) == (1, True)
    done = home.run("auth", "test", "anthropic", ANTHROPIC_BASE_URL="http://127.0.0.1:1")
    assert (done.returncode, KEY in done.stdout + done.stderr) == (1, False)


NO_ADDRESSES = (
    "http://a\nb",
    "http://a/\x1b[31m",
    "http://[::1",
    "http://a:port",
    "localhost:80",
    "ftp://a",
    "http://a b",
)


@pytest.mark.parametrize("provider", ["anthropic", "google", "groq", "openai"])
def test_what_is_no_address_is_refused_in_a_sentence(home: Home, provider: str) -> None:
    listing = provider_of(provider, {}).listing
    assert listing is not None
    home.run("auth", "add", provider, "--file", stdin=KEY.encode())
    for url in NO_ADDRESSES:
        done = home.run("auth", "test", provider, **{listing.variable: url})
        sentence = NO_ADDRESS.format(variable=listing.variable, example=listing.base)
        assert (done.returncode, done.stdout, done.stderr) == (1, f"{provider}: {sentence}\n", ""), url


@pytest.mark.slow
def test_address_of_invalid_bytes_leads_to_no_traceback(home: Home) -> None:
    home.run("auth", "add", "openai", "--file", stdin=KEY.encode())
    done = home.run_as_process("auth", "test", OPENAI_BASE_URL=os.fsdecode(b"http://\xff"))
    assert (done.returncode, done.stderr) == (1, "")
    assert "OPENAI_BASE_URL must be a web address" in done.stdout


@pytest.mark.slow
def test_setup_in_a_terminal_shows_no_key(home: Home) -> None:
    with llm_server() as server:
        server.lists["/v1/models"] = Answer(pieces=(LIST,))
        variables = {**home.variables, "TERM": "xterm", "ANTHROPIC_BASE_URL": server.url}
        with Terminal([*COMMAND, "auth"], variables, str(home.path), columns=160) as terminal:
            terminal.until("Enter to finish", seconds=SECONDS)
            terminal.type(f"nosuch{ENTER}")
            terminal.until("no such provider", seconds=SECONDS)
            terminal.type(f"anthropic{ENTER}")
            terminal.until("Key of anthropic (not shown)", seconds=SECONDS)
            terminal.type(f" {ENTER}")
            terminal.until(EMPTY, seconds=SECONDS)
            terminal.type(f"{KEY}{ENTER}")
            terminal.until("accepts the key, and offers 2 models", seconds=SECONDS)
            terminal.type(ENTER)
            assert terminal.process.wait(SECONDS) == 0
            assert KEY.encode() not in bytes(terminal.raw)
    assert json.loads(file_of(home).read_text())["keys"] == {"anthropic": KEY}


def test_setup_that_is_interrupted_stores_nothing(home: Home) -> None:
    variables = {**home.variables, "TERM": "xterm"}
    with Terminal([*COMMAND, "auth", "add", "openai"], variables, str(home.path)) as terminal:
        terminal.until("Key of openai", seconds=SECONDS)
        terminal.type(CTRL_C)
        assert terminal.process.wait(SECONDS) == ExitCode.INTERRUPTED
    assert not file_of(home).exists()
