"""The command line of `rewindow-mcp`: reads options, then serves MCP on standard input and output or over HTTP.

Every way to fail before serving starts is here. The order of steps matters, because a client is waiting: the parent of
worker processes (the zygote) starts first, so that it loads in parallel with our imports. The engine is loaded after
the client has its first response. Called by the start-up module.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import select
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NoReturn, cast

if TYPE_CHECKING:
    from engine import Host, Settings, Zygote
    from engine.log.redaction import Redactor
    from mcp_tools.access import Access

DESCRIPTION = """\
Token-budgeted views of your files for any MCP client: windows, groups and changes.
An MCP client starts this program and talks to it on standard input and output. --http serves clients over HTTP.
"""
EXAMPLES = """\
examples:
  rewindow-mcp                            serve the client's directories, or else the current one
  rewindow-mcp --root ~/project           serve this directory, and nothing outside it
  rewindow-mcp --session work             serve the session `work`, which is kept for next time
  rewindow-mcp --http 8765                serve http://127.0.0.1:8765/mcp/NAME, one session for each name
  rewindow-mcp --print-config codex       print the configuration that makes Codex start this server
  rewindow-mcp --allow-run                let clients run Python, which can write only in these directories
  rewindow-mcp --allow-run=unsandboxed    let clients run Python with your own permissions

Settings are read from the environment and a config file: `rewindow help configuration`.
"""
_UNSANDBOXED: Final = "unsandboxed"
_NOT_STDIO: Final = ("--http", "--print-config")
"""Options without an MCP client on standard input."""
NO_SANDBOX: Final = (
    "--allow-run needs a sandbox, but {reason}. With --allow-run=unsandboxed clients run Python with your own"
    " permissions: --root does not limit it."
)
_ON_TERMINAL: Final = (
    "rewindow-mcp: waiting for an MCP client on standard input;"
    " --print-config CLIENT prints the configuration for your client\n"
)
_UNSANDBOXED_NOTICE: Final = "rewindow-mcp: clients run Python with your permissions; --root does not limit it\n"
_SANDBOXED_NOTICE: Final = (
    "rewindow-mcp: clients run Python in a sandbox; Python can write only in the session's "
    "directories and a scratch directory, {network}. It can read all files that you can read, even "
    "outside --root\n"
)
_FIRST_SECONDS: Final = 5.0
_FIRST_BYTES: Final = 1 << 20
_CANNOT_SERVE: Final = -32000
"""In the range of error codes that JSON-RPC reserves for servers."""


def main(arguments: Sequence[str]) -> int:
    """Serve until the client leaves; return the exit code (2: invalid options)."""
    # Looking for pydantic's plugins would read the metadata of every installed package, and we use none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except _UsageError as error:
        parser.print_usage(sys.stderr)
        is_stdio = not any(argument.startswith(_NOT_STDIO) for argument in arguments)
        return _fail(error, is_stdio=is_stdio)
    is_stdio = options.http is None and options.print_config is None
    if options.allow_run == "":
        from engine import cannot_hold

        if reason := cannot_hold():
            return _fail(NO_SANDBOX.format(reason=reason), is_stdio=is_stdio)
    from engine import Zygote, load_settings
    from engine.core.errors import InvalidRequestError
    from mcp_tools.access import AccessError

    try:
        settings = load_settings(os.environ, {"state_dir": options.state_dir, "store": options.store})
        settings = _with_sandbox(settings, options.allow_run)
        access = _access(options, settings)
        if options.session is not None:
            from engine import session_named

            session_named(options.session)
        if options.print_config is not None:
            return _print_config(options, access)
    except (InvalidRequestError, AccessError) as error:
        return _fail(error, is_stdio=is_stdio)
    zygote = Zygote.spawn()
    try:
        return _serve(options, settings, access, zygote)
    except AccessError as error:
        return _fail(error, is_stdio=is_stdio)
    except KeyboardInterrupt:
        return 130
    finally:
        zygote.close()


def _serve(options: argparse.Namespace, settings: Settings, access: Access | None, zygote: Zygote) -> int:
    """Serve until the client leaves. Raises AccessError for unusable roots or an address in use."""
    import anyio  # while the zygote starts

    from mcp_tools.access import VARIABLE, command_line_roots
    from mcp_tools.server import Service, serve_stdio

    listening = None if access is None else access.address.listen()
    if access is not None and access.token is not None:
        os.environ[VARIABLE] = access.token.value  # so that it is redacted, even if read from a file
    service = Service(
        redactor=functools.cache(lambda: _redactor(settings)),
        roots=command_line_roots(options.root),
        session=options.session,
        allow_run=options.allow_run is not None,
        sandboxed=options.allow_run == "",
        network=options.network,
        structured=options.structured,
    )
    if service.allow_run:
        network = "with TCP" if service.network else "without a network"
        sys.stderr.write(_SANDBOXED_NOTICE.format(network=network) if service.sandboxed else _UNSANDBOXED_NOTICE)
    if access is not None and listening is not None:
        from mcp_tools.http import serve_until_signal

        return anyio.run(serve_until_signal, lambda: _host(settings, zygote), service, access, listening)
    if os.isatty(0):
        sys.stderr.write(_ON_TERMINAL)
    anyio.run(serve_stdio, lambda: _host(settings, zygote), service)
    return 0


def _with_sandbox(settings: Settings, allow_run: str | None) -> Settings:
    """Apply the value of --allow-run to the setting `sandbox`, which it overrides.

    `unsandboxed` unsets it, because the user knows already what a session would warn about.
    """
    from msgspec.structs import replace

    return settings if allow_run is None else replace(settings, sandbox=None if allow_run else "required")


def _host(settings: Settings, zygote: Zygote) -> Host:
    zygote.warm_up()  # takes longer than the imports below
    from engine import Host
    from engine.log.redaction import without_secrets

    host = Host(settings, os.environ, zygote=zygote, must_have_model=False)
    sys.stderr = without_secrets(sys.stderr, host.redactor)
    return host


def _redactor(settings: Settings) -> Redactor:
    from engine.log.secrets import redactor_of  # late, so that the first response does not wait for it

    return redactor_of(os.environ, settings.hidden_names)


def _access(options: argparse.Namespace, settings: Settings) -> Access | None:
    """Read who may connect over HTTP; None on stdio. Raises AccessError."""
    from mcp_tools.access import VARIABLE, Access, AccessError, address_of, token_of

    if options.network and options.allow_run != "":
        raise AccessError("--network needs --allow-run with the sandbox")
    if options.http is None:
        if options.token_file is not None or options.no_token or options.allow_host:
            raise AccessError("--token-file, --no-token and --allow-host need --http")
        return None
    if options.session is not None:
        raise AccessError("--session cannot be combined with --http: the path names the session (/mcp/NAME)")
    address = address_of(options.http)
    if not options.no_token:
        token = token_of(options.token_file, os.environ.get(VARIABLE), settings.state_dir)
        return Access(address=address, token=token, hosts=tuple(options.allow_host))
    if options.token_file is not None:
        raise AccessError("use either --token-file or --no-token")
    if options.allow_run is not None:
        raise AccessError(
            "--no-token cannot be combined with --allow-run: anyone who can reach the port could run Python"
        )
    if not address.is_loopback:
        raise AccessError(f"--no-token needs a loopback address, but other machines can reach {address.host}")
    return Access(address=address, token=None, hosts=tuple(options.allow_host))


def _print_config(options: argparse.Namespace, access: Access | None) -> int:
    """Print the client's configuration to stdout, and where it belongs to stderr. Raises AccessError."""
    from mcp_tools.access import VARIABLE, AccessError, command_line_roots
    from mcp_tools.client_configs import FORMATS, Launch

    roots = command_line_roots(options.root)
    arguments = [part for root in (roots.directories if roots else ()) for part in ("--root", root)]
    arguments += [] if options.session is None else ["--session", options.session]
    arguments += [] if options.state_dir is None else ["--state-dir", os.path.abspath(options.state_dir)]
    arguments += [] if options.store is None else ["--store", options.store]
    arguments += ["--structured"] if options.structured else []
    arguments += [] if options.allow_run is None else ["=".join(filter(None, ("--allow-run", options.allow_run)))]
    arguments += ["--network"] if options.network else []
    token, url = None, None
    if access is not None:
        if not access.address.port:
            raise AccessError("--print-config needs the port of the server, not 0")
        token, url = access.token, access.address.url
    form = FORMATS[options.print_config]
    text = form.text(Launch(command=_command(), arguments=arguments, url=url, has_token=token is not None))
    try:
        sys.stdout.buffer.write(text.encode())
    except UnicodeEncodeError:
        raise AccessError("a path is not valid UTF-8, so no client configuration can name it") from None
    sys.stderr.write(f"rewindow-mcp: put this into {form.place}\n")
    if token is not None:
        sys.stderr.write(f"rewindow-mcp: give the client {VARIABLE}; the token is in {token.where}\n")
    return 0


def _command() -> str:
    """The path of this program, for other programs to start it."""
    beside = os.path.join(os.path.dirname(sys.executable), "rewindow-mcp")
    return beside if os.path.exists(beside) else "rewindow-mcp"


def _fail(error: object, *, is_stdio: bool) -> int:
    """Print why serving is impossible, and return the exit code.

    A client on stdio also gets the reason in response to its first request; it would only report a closed connection.
    """
    from engine.log.secrets import redactor_of  # late, so that the first response does not wait for it

    reason = redactor_of(os.environ).redact(str(error))
    sys.stderr.write(f"rewindow-mcp: {reason}\n")
    if is_stdio and not os.isatty(0):
        _answer_first_request(reason)
    return 2


def _answer_first_request(reason: str) -> None:
    try:
        ready, _, _ = select.select([0], [], [], _FIRST_SECONDS)
        request = json.loads(sys.stdin.buffer.readline(_FIRST_BYTES)) if ready else None
    except (OSError, ValueError, RecursionError):  # no request, or one without an answer
        return
    if isinstance(request, dict) and "id" in request:
        request_id: object = cast("dict[str, object]", request)["id"]
        error = {"code": _CANNOT_SERVE, "message": f"rewindow-mcp: {reason}"}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}) + "\n")


class _UsageError(Exception):
    """Raised for an invalid command line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting, because a client needs a response first."""
        raise _UsageError(message)


def _parser() -> argparse.ArgumentParser:
    from engine import __version__

    parser = _Parser(
        "rewindow-mcp",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"rewindow-mcp {__version__}", help="print the version and exit"
    )
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="DIR",
        help="open files only below this directory; can be given more than once",
    )
    parser.add_argument("--session", metavar="NAME", help="use this saved session, and create it if it is missing")
    parser.add_argument("--state-dir", metavar="DIR", help="where sessions are kept (REWINDOW_STATE_DIR)")
    parser.add_argument(
        "--store",
        metavar="sqlite|ADDRESS",
        help="the database of sessions: in the state directory, or postgresql://USER@HOST/DATABASE (REWINDOW_STORE)",
    )
    parser.add_argument(
        "--structured",
        action="store_true",
        help="add structuredContent to replies, for programs; most clients then give their model this "
        "content instead of the text",
    )
    parser.add_argument(
        "--http", metavar="[HOST:]PORT", help="serve over HTTP at this address (default host: 127.0.0.1)"
    )
    parser.add_argument(
        "--print-config",
        choices=("claude", "codex", "goose", "cursor", "vscode", "gemini", "inspector"),
        help="print the configuration for this client, including the other options, and exit",
    )
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the token for HTTP clients (or REWINDOW_MCP_TOKEN; default: generate one)",
    )
    parser.add_argument(
        "--no-token", action="store_true", help="require no token; only on a loopback address, without --allow-run"
    )
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="additional host name that clients may use; can be given more than once",
    )
    parser.add_argument(
        "--allow-run",
        nargs="?",
        const="",
        choices=("", _UNSANDBOXED),
        metavar=_UNSANDBOXED,
        help="let clients run Python in a sandbox; with `unsandboxed`, without a sandbox and with your permissions",
    )
    parser.add_argument("--network", action="store_true", help="with --allow-run: allow TCP in the sandbox")
    return parser
