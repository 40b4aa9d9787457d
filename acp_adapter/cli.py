"""The command `rewindow-acp`: reads the command line, takes the protocol's streams, starts the zygote, serves.

The order matters, because an editor waits for the start: nothing heavy is imported before the zygote runs, which starts
up in parallel on another core.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO, cast

from acp_adapter.jsonrpc.stdio import divert

if TYPE_CHECKING:
    import argparse

DESCRIPTION = """\
A coding agent for editors that speak the Agent Client Protocol (ACP). An editor starts it and talks to it on standard
input and output. In a terminal, use `rewindow run` instead.
"""
EXAMPLES = """\
examples:
  Zed, settings.json:   { "agent_servers": { "Rewindow": { "type": "custom", "command": "rewindow-acp" } } }
  a terminal client:    acpx --agent rewindow-acp exec "view('README.md')"
  scripted replies:     rewindow-acp --model scripted:replies.jsonl
  a provider's key:     rewindow-acp --setup
  other machines:       rewindow-acp tokens add ann; rewindow-acp --listen 0.0.0.0:8765 --tls-cert C --tls-key K

Every option can also be set by the variable in parentheses, or in a config file: `rewindow help configuration`.
`rewindow sessions` lists the sessions.
"""


def main(arguments: Sequence[str]) -> int:
    """Run the agent until its client leaves; return the exit code: 0, or 2 for invalid arguments or settings."""
    if arguments[:1] == ["tokens"]:
        from acp_adapter.listening.command import change_tokens  # not for editors

        return change_tokens(arguments[1:])
    options, overrides = _parse(arguments) if arguments else (None, {})
    if options is not None and options.listen is not None:
        from acp_adapter.listening.command import serve  # not for editors

        return serve(options, overrides)
    control: int | None = None if options is None else options.connections
    idle_minutes: float | None = None if options is None else options.idle
    gc.disable()  # because imports make objects that stay, and no garbage; see `_collect_garbage`
    # Because pydantic reads the metadata of every installed package to find plugins, and we use none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    read_fd, write_fd = divert()
    from engine import Zygote, load_settings  # after `divert`, because imports may print
    from engine.core.errors import InvalidRequestError

    try:
        settings = load_settings(os.environ, overrides)
    except InvalidRequestError as error:
        return _refused(error)
    zygote = Zygote.spawn()
    import logging  # from here on the zygote starts up in parallel

    import anyio

    from engine import Host
    from engine.log.redaction import RedactedStream

    try:
        # Start even without a model: editors show the answer to a prompt, but not the stderr of an agent that exited.
        host = Host(settings, os.environ, zygote=zygote, must_have_model=False)
    except InvalidRequestError as error:
        zygote.close()
        return _refused(error)
    sys.stderr = cast("TextIO", RedactedStream(sys.stderr, host.redactor))  # it may learn keys later
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="rewindow-acp: %(message)s")
    if control is None and os.isatty(read_fd):
        sys.stderr.write("rewindow-acp: waiting for an editor's messages; to work in a terminal, use `rewindow run`\n")
    if host.model_setup is not None and not host.model_setup.is_done:
        sys.stderr.write(f"rewindow-acp: {host.model_setup.sentence}\n")
    try:
        if control is None:
            from acp_adapter.server import serve_descriptors  # for an editor

            anyio.run(serve_descriptors, read_fd, write_fd, host, _collect_garbage)
        else:
            from acp_adapter.hosting import serve_connections  # for a server

            anyio.run(serve_connections, control, host, _collect_garbage, idle_minutes)
    except KeyboardInterrupt:
        return 130
    return 0


def _collect_garbage() -> None:
    """Turn garbage collection on when everything is loaded, without scanning the objects that exist now."""
    gc.freeze()
    gc.enable()


def _refused(error: Exception) -> int:
    from engine.log.secrets import redactor_of  # only needed here

    sys.stderr.write(f"rewindow-acp: {redactor_of(os.environ).redact(str(error))}\n")
    return 2


def _parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, dict[str, str | None]]:
    """Return the options, and the settings among them."""
    import argparse  # editors usually give no arguments

    from acp_adapter.sign_in import SETUP
    from engine import __version__
    from engine.core.settings import SETTINGS

    parser = argparse.ArgumentParser(
        "rewindow-acp",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"rewindow-acp {__version__}", help="print the version and exit"
    )
    parser.add_argument(SETUP, action="store_true", help="ask for the key of a provider in this terminal, and exit")
    for option in SETTINGS:
        name = f"--{option.name.replace('_', '-')}"
        parser.add_argument(name, metavar=option.value, help=f"{option.help} ({option.variable})")
    _add_server_options(parser)
    parsed = parser.parse_args(arguments)
    given = {name for name in SERVER_OPTIONS if getattr(parsed, name.replace("-", "_"))}
    if parsed.listen is None and parsed.connections is None and given:
        parser.error(f"{', '.join(f'--{name}' for name in sorted(given))}: only with --listen")
    if parsed.cluster is None and any(name.startswith("cluster-") for name in given):
        parser.error("--cluster-cpus, --cluster-memory and --cluster-label need --cluster")
    return parsed, {option.name: getattr(parsed, option.name) for option in SETTINGS}


SERVER_OPTIONS: Final = (
    "token-file", "allow-host", "tls-cert", "tls-key", "idle",
    "cluster", "cluster-cpus", "cluster-memory", "cluster-label",
)  # fmt: skip


def _add_server_options(parser: argparse.ArgumentParser) -> None:
    import argparse  # as above

    server = parser.add_argument_group("serving other machines", "see `rewindow help remote`")
    server.add_argument(
        "--listen", metavar="[HOST:]PORT", help="serve over WebSocket and HTTP at this address (default: 127.0.0.1)"
    )
    server.add_argument(
        "--token-file",
        metavar="FILE",
        help="file with the tokens of users (default: acp-tokens in the state directory)",
    )
    server.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="additional host name that clients may use; can be given more than once",
    )
    server.add_argument("--tls-cert", metavar="FILE", help="certificate for TLS, with its chain")
    server.add_argument("--tls-key", metavar="FILE", help="key of the certificate")
    server.add_argument(
        "--idle",
        type=_minutes,
        metavar="MINUTES",
        help="close a session that no client has had for this time (default: 10); an agent without sessions ends",
    )
    server.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="run the agents of users on a Ray cluster: HOST:PORT of its head, `auto`, or `local` for this machine",
    )
    server.add_argument(
        "--cluster-cpus",
        type=float,
        metavar="N",
        help="processors that each user's agent takes of its node (default: 0)",
    )
    server.add_argument(
        "--cluster-memory", type=int, metavar="MIB", help="memory that each user's agent takes of its node (default: 0)"
    )
    server.add_argument(
        "--cluster-label",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="label of the nodes for agents; {user} stands for the user's name; can be given more than once",
    )
    server.add_argument("--connections", type=int, help=argparse.SUPPRESS)


def _minutes(text: str) -> float:
    """Return a number of minutes that can pass. Raises ArgumentTypeError."""
    import argparse  # only for a server

    with suppress(ValueError):
        minutes = float(text)
        if 0 < minutes < float("inf"):
            return minutes
    raise argparse.ArgumentTypeError(f"{text} is not a number of minutes above 0")
