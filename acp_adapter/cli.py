"""`rewindow-acp`: reads the command line, takes the protocol's streams, starts the zygote, serves.

The order matters and start-up time counts: nothing heavy is imported before the zygote runs, because it starts up in
parallel on another core.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

from acp_adapter.rpc.stdio import divert

DESCRIPTION = """\
A coding agent for editors that speak the Agent Client Protocol (ACP). An editor starts it and talks to it on standard
input and output. In a terminal, use `rewindow run` instead.
"""
EXAMPLES = """\
examples:
  Zed, settings.json:   { "agent_servers": { "Rewindow": { "type": "custom", "command": "rewindow-acp" } } }
  a terminal client:    acpx --agent rewindow-acp exec "view('README.md')"
  scripted replies:     rewindow-acp --model scripted:replies.jsonl

Every option can also be set by the variable in parentheses, or in a config file: `rewindow help configuration`.
`rewindow sessions` lists the sessions.
"""


def main(arguments: Sequence[str]) -> int:
    """Runs the agent until its client leaves; returns the exit code: 0, or 2 for what cannot be used."""
    overrides = _parse(arguments) if arguments else {}
    gc.disable()  # because imports make much that lives on and no garbage; see `_collect_garbage`
    # Because looking for pydantic's plugins reads the metadata of every package there is, and none is wanted here.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    read_fd, write_fd = divert()
    from engine import Zygote, load_settings  # only now, because `divert` comes before everything that could print
    from engine.core.errors import InvalidRequestError

    try:
        settings = load_settings(os.environ, overrides)
    except InvalidRequestError as error:
        return _refused(error)
    zygote = Zygote.spawn()
    import logging  # from here on the zygote starts up beside us

    import anyio

    from acp_adapter.serving import serve_descriptors
    from engine import Host, without_secrets

    try:
        # Without a model too, because an editor shows what a prompt is answered, and not what we wrote as we ended.
        host = Host(settings, os.environ, zygote=zygote, must_have_model=False)
    except InvalidRequestError as error:
        zygote.close()
        return _refused(error)
    sys.stderr = without_secrets(sys.stderr, host.redactor)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="rewindow-acp: %(message)s")
    if os.isatty(read_fd):
        sys.stderr.write("rewindow-acp: waiting for an editor's messages; `rewindow run` is a session in a terminal\n")
    if host.model_setup is not None and not host.model_setup.is_done:
        sys.stderr.write(f"rewindow-acp: {host.model_setup.sentence}\n")
    try:
        anyio.run(serve_descriptors, read_fd, write_fd, host, _collect_garbage)
    except KeyboardInterrupt:
        return 130
    return 0


def _collect_garbage() -> None:
    """Once everything is loaded: what is there now lives on, and is not looked at again."""
    gc.freeze()
    gc.enable()


def _refused(error: Exception) -> int:
    from engine import redactor_of  # of no stage, because nothing is started

    sys.stderr.write(f"rewindow-acp: {redactor_of(os.environ).redact(str(error))}\n")
    return 2


def _parse(arguments: Sequence[str]) -> dict[str, str | None]:
    import argparse  # editors usually give no arguments

    from engine import SETTINGS, __version__

    parser = argparse.ArgumentParser(
        "rewindow-acp",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"rewindow-acp {__version__}")
    for option in SETTINGS:
        name = f"--{option.name.replace('_', '-')}"
        parser.add_argument(name, metavar=option.value, help=f"{option.help} ({option.variable})")
    return vars(parser.parse_args(arguments))
