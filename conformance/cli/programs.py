"""The commands that start a program and judge it: `acp`, `acp-client`, `mcp` and `vectors`.

Each adds its options and help text. `runs` does the work.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from conformance import official
from conformance.cli import Command, UsageError
from conformance.cli.runs import (
    add_prompt_options,
    add_run_options,
    add_tool_options,
    judge_program,
    run_suite,
    write_reports,
)
from conformance.runner import Run
from conformance.suites.registry import SUITES

_ACP_EPILOG: Final = """\
examples:
  rewindow-conformance acp -- my-agent --acp
  rewindow-conformance acp --env API_KEY=x --slow-prompt "Count to 500, a number on each line." -- my-agent
  rewindow-conformance acp --jobs 1 --timeout 30 --scenario-timeout 120 -- my-slow-agent
  rewindow-conformance acp -k LOAD -k RESUME -- my-agent
  rewindow-conformance acp --protocol-version 2 -- my-new-agent
  rewindow-conformance acp --url wss://agents.example/acp --token-file token --cwd /a/directory/there
  rewindow-conformance acp --url https://agents.example/acp --token-file token --transport

With --url, the agent runs already. An address with ws or wss uses a WebSocket, one with http or https event streams
over HTTP/2. --cwd must be a directory that the agent can use. --transport judges requests of HTTP by the proposal for
remote transports, instead of the protocol.

Each scenario starts the agent in its own process group, and ends it with everything it started. Sessions use an empty
temporary directory unless --cwd names one. Files and terminals that the client provides are fake. The agent's own
actions are real.
"""


_AGENT_SUITES: Final = {"1": "acp", "2": "acp-2"}
"""The suite for each version of the protocol."""
_TRANSPORT: Final = "remote"
_SCHEMES: Final = ("ws", "wss", "http", "https")
_LIBRARIES: Final = ("h2", "wsproto")
"""What the carrier imports beside our dependencies."""


def configure_acp(parser: argparse.ArgumentParser) -> None:
    """Add the options of `acp`."""
    parser.usage = (
        "rewindow-conformance acp [OPTIONS] -- AGENT [ARGS ...]\n       rewindow-conformance acp --url URL [OPTIONS]"
    )
    parser.epilog = _ACP_EPILOG
    parser.add_argument(
        "--protocol-version",
        choices=sorted(_AGENT_SUITES),
        default="1",
        help="the version to ask for and judge by; 2 is a draft (default: 1)",
    )
    remote = parser.add_argument_group("an agent that listens")
    remote.add_argument("--url", metavar="URL", help="the address of the agent: ws, wss, http or https")
    remote.add_argument("--token-file", type=Path, metavar="FILE", help="the file with the bearer token")
    remote.add_argument("--transport", action="store_true", help="judge the transport instead of the protocol")
    add_run_options(parser, add_prompt_options)


def run_acp(arguments: argparse.Namespace) -> int:
    """Judge an agent. Return the exit status."""
    suite = _AGENT_SUITES[arguments.protocol_version]
    if arguments.url is None:
        if arguments.token_file is not None or arguments.transport:
            raise UsageError("--token-file and --transport need --url")
        return judge_program(suite, arguments)
    if arguments.program:
        raise UsageError("--url starts no program: leave out what follows `--`")
    arguments.program = _carrier(arguments.url, arguments.token_file)
    return judge_program(_TRANSPORT if arguments.transport else suite, arguments)


def _readable(file: Path) -> str:
    """Return the absolute path of a text. Raises UsageError if it cannot be read."""
    try:
        file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a token"
        raise UsageError(f"--token-file: {file} cannot be read: {reason}") from None
    return str(file.absolute())


def _carrier(url: str, token_file: Path | None) -> list[str]:
    """Return the command of a program that is the remote agent on standard streams. Raises UsageError."""
    if urlsplit(url).scheme not in _SCHEMES:
        raise UsageError(f"--url takes an address with {', '.join(_SCHEMES)}, not {url!r}")
    if missing := [name for name in _LIBRARIES if find_spec(name) is None]:
        raise UsageError(f"--url needs {', '.join(missing)}: install rewindow[server]")
    token = [] if token_file is None else ["--token-file", _readable(token_file)]
    return [sys.executable, "-P", "-m", "conformance.peers.remote", url, *token]


# --- acp-client -------------------------------------------------------------------------------------------------------


_ACP_CLIENT_EPILOG: Final = """\
examples:
  rewindow-conformance acp-client -- acpx --agent {agent} --cwd {cwd} --approve-all exec "Hello."
  rewindow-conformance acp-client -- sh -c 'echo Hello. | my-client "$0"' {agent}
  rewindow-conformance acp-client --editor
  rewindow-conformance acp-client -k TERM -- my-client --agent {agent}

Each scenario starts the client in its own process group, and ends it with everything it started. In the command,
{agent} becomes an executable without arguments, which plays the agent of the scenario, and {cwd} an empty directory.
The client must connect, open a session in any directory, and send one prompt without user input. Requested files are in
a temporary directory below the session's directory. If the client has a setting for permissions, allow everything:
refused actions count as not done. To cancel a turn, the client is interrupted (SIGINT), as by Ctrl-C.

With --editor, nothing is started. The printed path is an agent: enter it as an agent command in the editor, open a
chat, and type `all` or the id of a requirement. Ctrl-C ends the agent and prints a report of everything that ran.
"""


def configure_acp_client(parser: argparse.ArgumentParser) -> None:
    """Add the options of `acp-client`."""
    parser.usage = "rewindow-conformance acp-client [OPTIONS] -- CLIENT [ARGS ...] {agent}"
    parser.epilog = _ACP_CLIENT_EPILOG
    parser.add_argument(
        "--editor", action="store_true", help="print the path of an agent to enter in an editor, and serve it"
    )
    add_run_options(parser)


def run_acp_client(arguments: argparse.Namespace) -> int:
    """Judge a client. Return the exit status."""
    if not arguments.editor:
        return judge_program("acp-client", arguments)
    from conformance.cli import editor  # imports every requirement, which `--help` does not need

    if arguments.program:
        raise UsageError("--editor starts no client: enter the printed path in the editor")
    transcripts = editor.serve(_print_path)
    return write_reports(editor.chat_run(transcripts), arguments)


def _print_path(path: str) -> None:
    sys.stdout.write(f"{path}\n")
    sys.stdout.flush()
    sys.stderr.write("Enter this path in the editor as an agent command. Ctrl-C ends it.\n")


# --- mcp --------------------------------------------------------------------------------------------------------------


_MCP_EPILOG: Final = """\
examples:
  rewindow-conformance mcp -- my-server --its-arguments
  rewindow-conformance mcp --tool search --arguments '{"query": "x"}' -- my-server
  rewindow-conformance mcp --slow-tool build --slow-arguments '{"seconds": 5}' -k CANCEL -k PROG -- my-server
  rewindow-conformance mcp --cwd ~/project -- my-file-server ~/project
  rewindow-conformance mcp --url http://127.0.0.1:8000/mcp

Versions 2025-11-25 and 2026-07-28 are judged. Requirements for a version or a capability that the server does not
support are skipped.

Only tools with the annotation readOnlyHint are called, unless --tool or --slow-tool names another one, or
--allow-destructive allows all. Arguments are made from the schema: defaults and examples first, else the smallest
value, and --cwd for properties named like a path. Without a callable tool, or without a slow one, requirements about
calls are skipped or not tested.

Servers over HTTP are judged by the official suite: --url runs both of its required sets. Install it with
`npm install @modelcontextprotocol/conformance@0.2.0-alpha.12`; it needs Node 22 or later. Most of its scenarios call
fixtures that only special servers have. These are reported and do not decide. With a server after `--` as well, both
are judged, in one report.
"""


def configure_mcp(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mcp`."""
    parser.usage = "rewindow-conformance mcp [OPTIONS] [--url URL] [-- SERVER [ARGS ...]]"
    parser.epilog = _MCP_EPILOG
    http = parser.add_argument_group("a server over HTTP")
    http.add_argument("--url", help="judge the server at this URL with the official suite")
    http.add_argument(
        "--official", type=Path, metavar="DIR", help=("where npm installed the official suite (default: here or above)")
    )
    add_run_options(parser, add_tool_options)


def run_mcp(arguments: argparse.Namespace) -> int:
    """Judge a server over stdio, over HTTP, or both. Return the exit status."""
    if arguments.url is None:
        return judge_program("mcp", arguments)
    try:
        command = official.find(arguments.official)
        ours = run_suite("mcp", arguments) if arguments.program else None
        theirs = _official(arguments.url, command, arguments.budget, arguments.k)
    except official.OfficialSuiteError as error:
        raise UsageError(str(error)) from None
    return write_reports(theirs if ours is None else _merged(ours, theirs), arguments)


def _official(url: str, command: list[str], seconds: float, words: list[str]) -> Run:
    began = time.monotonic()
    suite = replace(SUITES["mcp"](), name="mcp-official", title=f"Model Context Protocol, official suite on {url}")
    obstacle = official.obstacle(url)
    results = [] if obstacle else official.judge(url, command, seconds)
    chosen = [one for one in results if not words or any(w.lower() in one.requirement.id.lower() for w in words)]
    return Run(suite, chosen, [], obstacle, time.monotonic() - began)


def _merged(ours: Run, theirs: Run) -> Run:
    """Combine both runs into one report; not judged if either was not."""
    suite = replace(ours.suite, title=f"{ours.suite.title}, and the official suite")
    obstacle = ours.obstacle or theirs.obstacle
    results = [] if obstacle else [*ours.results, *theirs.results]
    return Run(suite, results, ours.transcripts, obstacle, ours.seconds + theirs.seconds)


# --- vectors ----------------------------------------------------------------------------------------------------------


_VECTORS_EPILOG: Final = """\
examples:
  rewindow-conformance vectors -- my-adapter
  rewindow-conformance vectors -k CYCLES -- my-adapter
  rewindow-conformance vectors -- rewindow vectors-adapter      Rewindow's own engine

An adapter is a short program around the implementation. It reads questions from standard input and writes answers to
standard output; `rewindow help conformance-formats` describes both. `explain ID` shows the place of a vector and its
expected result.
"""


def configure_vectors(parser: argparse.ArgumentParser) -> None:
    """Add the options of `vectors`."""
    parser.usage = "rewindow-conformance vectors [OPTIONS] -- ADAPTER [ARGS ...]"
    parser.epilog = _VECTORS_EPILOG
    add_run_options(parser)


def run_vectors(arguments: argparse.Namespace) -> int:
    """Judge an implementation. Return the exit status."""
    return judge_program("vectors", arguments)


COMMANDS: Final = {
    "acp": Command(configure_acp, run_acp),
    "acp-client": Command(configure_acp_client, run_acp_client),
    "mcp": Command(configure_mcp, run_mcp),
    "vectors": Command(configure_vectors, run_vectors),
}
