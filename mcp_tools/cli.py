"""`rewindow-mcp`: reads the command line and serves MCP, on standard input and output.

The order matters, because a client waits: the parent of worker processes starts up beside our imports, and the engine
is loaded when the client has its first answer.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from engine import Host, Settings, Zygote

DESCRIPTION = """\
Budgeted views of your files for any MCP client: windows, groups and changes, each within a number of tokens.
An MCP client starts it and talks to it on standard input and output.
"""
EXAMPLES = """\
examples:
  rewindow-mcp                            the directories that the client names, else the current one
  rewindow-mcp --root ~/project           this directory, and nothing outside of it
  rewindow-mcp --session work             a session that is there again next time
  rewindow-mcp --allow-run=unsandboxed    clients may run Python, with your own rights

Settings are read from the environment and a config file: docs/configuration.md.
"""
_UNSANDBOXED: Final = "unsandboxed"
_NO_SANDBOX: Final = """\
rewindow-mcp: --allow-run needs a sandbox, and there is none yet. --allow-run=unsandboxed lets clients run Python with
your own rights: it reaches every file and program that you reach, whatever --root says.
"""


def main(arguments: Sequence[str]) -> int:
    """Serves until the client leaves; returns the exit code: 0, or 2 for what cannot be used."""
    # Because looking for pydantic's plugins reads the metadata of every package there is, and none is wanted here.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    chosen = _parser().parse_args(arguments)
    if chosen.allow_run == "":
        sys.stderr.write(_NO_SANDBOX)
        return 2
    from engine import Zygote, load_settings
    from engine.errors import InvalidRequestError

    try:
        settings = load_settings(os.environ, {"state_dir": chosen.state_dir})
        if chosen.session is not None:
            from engine import session_named

            session_named(chosen.session)
    except InvalidRequestError as error:
        return _refused(error)
    zygote = Zygote.spawn()
    import anyio  # from here on the zygote starts up beside us

    from mcp_tools.roots import RootsError, of_command_line
    from mcp_tools.serving import Service, serve_stdio

    try:
        service = Service(
            roots=of_command_line(chosen.root), session=chosen.session, runs=chosen.allow_run == _UNSANDBOXED
        )
    except RootsError as error:
        zygote.close()
        return _refused(error)
    if service.runs:
        sys.stderr.write("rewindow-mcp: clients run Python with your rights; --root does not limit that\n")
    try:
        anyio.run(serve_stdio, lambda: _host(settings, zygote, os.environ), service)
    except KeyboardInterrupt:
        return 130
    finally:
        zygote.close()
    return 0


def _host(settings: Settings, zygote: Zygote, environ: Mapping[str, str]) -> Host:
    from engine import Host

    return Host(settings, environ, zygote=zygote, must_have_model=False)


def _refused(error: Exception) -> int:
    from engine import redactor_of  # of no stage, because nothing is started

    sys.stderr.write(f"rewindow-mcp: {redactor_of(os.environ).redact(str(error))}\n")
    return 2


def _parser() -> argparse.ArgumentParser:
    from engine import __version__

    parser = argparse.ArgumentParser(
        "rewindow-mcp",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"rewindow-mcp {__version__}")
    parser.add_argument(
        "--root", action="append", default=[], metavar="DIR", help="open nothing outside of it; may be repeated"
    )
    parser.add_argument("--session", metavar="NAME", help="a session that lasts, made where there is none")
    parser.add_argument("--state-dir", metavar="DIR", help="where sessions are kept (REWINDOW_STATE_DIR)")
    parser.add_argument(
        "--allow-run",
        nargs="?",
        const="",
        choices=("", _UNSANDBOXED),
        metavar=_UNSANDBOXED,
        help="clients may run Python with your rights",
    )
    return parser
