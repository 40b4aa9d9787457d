"""`rewindow-mcp`: reads the command line and serves MCP, on standard input and output or over HTTP.

The order matters, because a client waits: the parent of worker processes starts up beside our imports, and the engine
is loaded when the client has its first answer. A little over 300 lines, because every way to end before that is here.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import select
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NoReturn, cast

if TYPE_CHECKING:
    from engine import Host, Redactor, Settings, Zygote
    from mcp_tools.access import Access

DESCRIPTION = """\
Views of your files for any MCP client: windows, groups and changes, each within a budget of tokens.
An MCP client starts it and talks to it on standard input and output; with --http it serves clients over HTTP.
"""
EXAMPLES = """\
examples:
  rewindow-mcp                            the directories that the client names, else the current one
  rewindow-mcp --root ~/project           this directory, and nothing outside of it
  rewindow-mcp --session work             the session `work`, which is kept for next time
  rewindow-mcp --http 8765                http://127.0.0.1:8765/mcp/NAME, where each name is a session
  rewindow-mcp --print-config codex       the configuration that makes Codex start it
  rewindow-mcp --allow-run                clients may run Python, which can write only below these directories
  rewindow-mcp --allow-run=unsandboxed    clients may run Python, with your own rights

Settings are read from the environment and a config file: `rewindow help configuration`.
"""
_UNSANDBOXED: Final = "unsandboxed"
_NOT_STDIO: Final = ("--http", "--print-config")
"""Options with which nobody speaks MCP on standard input."""
_NO_SANDBOX: Final = (
    "--allow-run needs a sandbox, and {reason}. --allow-run=unsandboxed lets clients run Python with your own rights:"
    " it reaches every file and program that you reach, whatever --root says."
)
_ON_TERMINAL: Final = (
    "rewindow-mcp: waiting for an MCP client's messages; --print-config CLIENT prints how to have yours start it\n"
)
_FIRST_SECONDS: Final = 5.0
_FIRST_BYTES: Final = 1 << 20
_CANNOT_SERVE: Final = -32000
"""Of the range that JSON-RPC leaves to servers."""
_UNHELD: Final = "rewindow-mcp: clients run Python with your rights; --root does not limit that\n"
_HELD: Final = (
    "rewindow-mcp: clients run Python in a sandbox: it can write only in the session's directories and a scratch"
    " directory, {network}; what it reads is not limited, whatever --root says\n"
)


def main(arguments: Sequence[str]) -> int:
    """Serves until the client leaves; returns the exit code: 0, or 2 for what cannot be used."""
    # Because looking for pydantic's plugins reads the metadata of every package there is, and none is wanted here.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    parser = _parser()
    try:
        chosen = parser.parse_args(arguments)
    except _UsageError as error:
        parser.print_usage(sys.stderr)
        is_client = not any(argument.startswith(_NOT_STDIO) for argument in arguments)
        return _refused(error, is_client=is_client)
    is_client = chosen.http is None and chosen.print_config is None
    if chosen.allow_run == "":
        from engine import cannot_hold

        if reason := cannot_hold():
            return _refused(_NO_SANDBOX.format(reason=reason), is_client=is_client)
    from engine import Zygote, load_settings
    from engine.core.errors import InvalidRequestError
    from mcp_tools.access import AccessError
    from mcp_tools.roots import RootsError

    try:
        settings = load_settings(os.environ, {"state_dir": chosen.state_dir})
        settings = _held(settings, chosen.allow_run)
        access = _access(chosen, settings)
        if chosen.session is not None:
            from engine import session_named

            session_named(chosen.session)
        if chosen.print_config is not None:
            return _print_config(chosen, access)
    except (InvalidRequestError, AccessError, RootsError) as error:
        return _refused(error, is_client=is_client)
    zygote = Zygote.spawn()
    try:
        return _serve(chosen, settings, access, zygote)
    except (RootsError, AccessError) as error:
        return _refused(error, is_client=is_client)
    except KeyboardInterrupt:
        return 130
    finally:
        zygote.close()


def _serve(chosen: argparse.Namespace, settings: Settings, access: Access | None, zygote: Zygote) -> int:
    """Serves until the client leaves. Raises RootsError, and AccessError for an address that is taken."""
    import anyio  # while the zygote starts up beside us

    from mcp_tools.roots import of_command_line
    from mcp_tools.serving import Service, serve_stdio

    listening = None if access is None else access.address.listen()
    environ: Mapping[str, str] = os.environ
    if access is not None and access.token is not None:
        from mcp_tools.access import VARIABLE

        environ = {**environ, VARIABLE: access.token.value}  # so that it is a secret, wherever it was read
    service = Service(
        redactor=functools.cache(lambda: _redactor(settings, environ)),
        roots=of_command_line(chosen.root),
        session=chosen.session,
        runs=chosen.allow_run is not None,
        held=chosen.allow_run == "",
        network=chosen.network,
        structured=chosen.structured,
    )
    if service.runs:
        network = "with TCP" if service.network else "without a network"
        sys.stderr.write(_HELD.format(network=network) if service.held else _UNHELD)
    if access is not None and listening is not None:
        from mcp_tools.http import serve_until_signal

        return anyio.run(serve_until_signal, lambda: _host(settings, zygote, environ), service, access, listening)
    if os.isatty(0):
        sys.stderr.write(_ON_TERMINAL)
    anyio.run(serve_stdio, lambda: _host(settings, zygote, environ), service)
    return 0


def _held(settings: Settings, allow_run: str | None) -> Settings:
    """With the sandbox that the word after --allow-run asks for. The command line counts more than a setting.

    Who says `unsandboxed` there knows what a session would say first.
    """
    from msgspec.structs import replace

    return settings if allow_run is None else replace(settings, sandbox=None if allow_run else "required")


def _host(settings: Settings, zygote: Zygote, environ: Mapping[str, str]) -> Host:
    zygote.warm_up()  # which takes longer than all that is loaded here
    from engine import Host, without_secrets

    host = Host(settings, environ, zygote=zygote, must_have_model=False)
    sys.stderr = without_secrets(sys.stderr, host.redactor)
    return host


def _redactor(settings: Settings, environ: Mapping[str, str]) -> Redactor:
    from engine import redactor_of  # of no stage, because nothing is started

    return redactor_of(environ, settings.hidden_names)


def _access(chosen: argparse.Namespace, settings: Settings) -> Access | None:
    """Who may reach the server over HTTP, None where it is not to serve it. Raises AccessError."""
    from mcp_tools.access import VARIABLE, Access, AccessError, address_of, token_of

    if chosen.network and chosen.allow_run != "":
        raise AccessError("--network goes with --allow-run, in the sandbox")
    if chosen.http is None:
        if chosen.token_file is not None or chosen.no_token or chosen.allow_host:
            raise AccessError("--token-file, --no-token and --allow-host go with --http")
        return None
    if chosen.session is not None:
        raise AccessError("--session does not go with --http, where the path names the session: /mcp/NAME")
    address = address_of(chosen.http)
    if not chosen.no_token:
        token = token_of(chosen.token_file, os.environ.get(VARIABLE), settings.state_dir)
        return Access(address=address, token=token, hosts=tuple(chosen.allow_host))
    if chosen.token_file is not None:
        raise AccessError("either --token-file or --no-token")
    if chosen.allow_run is not None:
        raise AccessError("--no-token does not go with --allow-run: everybody who reaches the port could run Python")
    if not address.is_loopback:
        raise AccessError(f"--no-token is for a loopback address, and other machines reach {address.host}")
    return Access(address=address, token=None, hosts=tuple(chosen.allow_host))


def _print_config(chosen: argparse.Namespace, access: Access | None) -> int:
    """Writes what a client is to be told, and where, to standard output and stderr. Raises AccessError, RootsError."""
    from mcp_tools.access import VARIABLE, AccessError
    from mcp_tools.configs import FORMATS, Launch
    from mcp_tools.roots import of_command_line

    roots = of_command_line(chosen.root)
    arguments = [part for root in (roots.directories if roots else ()) for part in ("--root", root)]
    arguments += [] if chosen.session is None else ["--session", chosen.session]
    arguments += [] if chosen.state_dir is None else ["--state-dir", os.path.abspath(chosen.state_dir)]
    arguments += ["--structured"] if chosen.structured else []
    arguments += [] if chosen.allow_run is None else ["=".join(filter(None, ("--allow-run", chosen.allow_run)))]
    arguments += ["--network"] if chosen.network else []
    token, url = None, None
    if access is not None:
        if not access.address.port:
            raise AccessError("--print-config needs the port of the server, not 0")
        token, url = access.token, access.address.url
    form = FORMATS[chosen.print_config]
    text = form.text(Launch(command=_command(), arguments=arguments, url=url, has_token=token is not None))
    try:
        sys.stdout.buffer.write(text.encode())
    except UnicodeEncodeError:
        raise AccessError("a path that is no UTF-8 cannot stand in a client's configuration") from None
    sys.stderr.write(f"rewindow-mcp: put this into {form.place}\n")
    if token is not None:
        sys.stderr.write(f"rewindow-mcp: give the client {VARIABLE}; the token is in {token.where}\n")
    return 0


def _command() -> str:
    """This command, as another program can start it."""
    beside = os.path.join(os.path.dirname(sys.executable), "rewindow-mcp")
    return beside if os.path.exists(beside) else "rewindow-mcp"


class _UsageError(Exception):
    """Raised for a command line that cannot be used."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise the error, where argparse would end the program: a client has to be answered first."""
        raise _UsageError(message)


def _refused(error: object, *, is_client: bool) -> int:
    """Says why nothing can be served; to a client on stdio also as the answer to what it asks first, because it would
    show nothing but that the connection was closed."""
    from engine import redactor_of  # of no stage, because nothing is started

    reason = redactor_of(os.environ).redact(str(error))
    sys.stderr.write(f"rewindow-mcp: {reason}\n")
    if is_client and not os.isatty(0):
        _answer_first(reason)
    return 2


def _answer_first(reason: str) -> None:
    try:
        ready, _, _ = select.select([0], [], [], _FIRST_SECONDS)
        asked = json.loads(sys.stdin.buffer.readline(_FIRST_BYTES)) if ready else None
    except (OSError, ValueError, RecursionError):  # nobody asks, or nothing that could be answered
        return
    if isinstance(asked, dict) and "id" in asked:
        given: object = cast("dict[str, object]", asked)["id"]
        error = {"code": _CANNOT_SERVE, "message": f"rewindow-mcp: {reason}"}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": given, "error": error}) + "\n")


def _parser() -> argparse.ArgumentParser:
    from engine import __version__

    parser = _Parser(
        "rewindow-mcp",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"rewindow-mcp {__version__}")
    parser.add_argument(
        "--root", action="append", default=[], metavar="DIR", help="open nothing outside it; may be repeated"
    )
    parser.add_argument("--session", metavar="NAME", help="a session that is kept, created if there is none yet")
    parser.add_argument("--state-dir", metavar="DIR", help="where sessions are kept (REWINDOW_STATE_DIR)")
    parser.add_argument(
        "--structured",
        action="store_true",
        help="also reply with structuredContent, for programs; most clients then show their model that instead of text",
    )
    parser.add_argument("--http", metavar="[HOST:]PORT", help="serve over HTTP there (default host: 127.0.0.1)")
    parser.add_argument(
        "--print-config",
        choices=("claude", "codex", "goose", "cursor", "vscode", "gemini", "inspector"),
        help="print the configuration for this client, with the other options given, and exit",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="the file with the token that HTTP clients present (or REWINDOW_MCP_TOKEN; default: one is generated)",
    )
    parser.add_argument(
        "--no-token", action="store_true", help="require no token; only on a loopback address, without --allow-run"
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="another host name by which clients reach it; may be repeated",
    )
    parser.add_argument(
        "--allow-run",
        nargs="?",
        const="",
        choices=("", _UNSANDBOXED),
        metavar=_UNSANDBOXED,
        help="let clients run Python, in a sandbox or, with `unsandboxed`, with your own rights",
    )
    parser.add_argument("--network", action="store_true", help="with --allow-run: let that Python use TCP")
    return parser
