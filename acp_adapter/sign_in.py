"""The ways to give the agent keys of providers, as `initialize` offers them.

A key never passes through the protocol: the user types it into a terminal, or the agent reads where it is stored. Must
not know keys or providers. Used by `methods`; `cli` has the option that begins the setup.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from acp_adapter.requests import Initialize, SetupCommand, SignIn

SETUP: Final = "--setup"
"""The option of `rewindow-acp` that asks for keys in a terminal instead of serving an editor."""
SIGN_IN: Final = "stored-keys"
IN_TERMINAL: Final = "terminal-setup"
_SUBCOMMAND: Final = "acp"
"""`rewindow acp` is `rewindow-acp`."""
_PASSED_ON: Final = ("XDG_CONFIG_HOME",)
"""Variables that say where keys are stored. A client's terminal may lack them."""


def ways_to_sign_in(client: Initialize, *, is_remote: bool = False) -> tuple[SignIn, ...]:
    """Return the ways that this client can offer, the preferred one first.

    A remote client would run the setup on its own machine, where our keys are not stored.
    """
    stored = SignIn(
        SIGN_IN,
        "Use a stored key",
        "Reads keys again from the keyring, Rewindow's key file and the environment. `rewindow auth "
        "add PROVIDER` stores a key.",
    )
    if is_remote or not (client.runs_setup or client.runs_commands):
        return (stored,)
    terminal = SignIn(
        IN_TERMINAL,
        "Add a key",
        "Asks for a provider and its key in a terminal.",
        setup_command(sys.argv, sys.executable, os.environ),
        is_terminal=client.runs_setup,
        shows_command=client.runs_commands,
    )
    return (terminal, stored)


def setup_command(argv: Sequence[str], python: str, environ: Mapping[str, str]) -> SetupCommand:
    """Return the command that starts this program's setup.

    Args:
        argv: of this process. Its options are not repeated, because the setup uses none.
        python: the interpreter, for a program that was not started by its own script.
        environ: of this process.
    """
    script = os.path.abspath(argv[0])
    is_script = os.access(script, os.X_OK) and os.path.isfile(script)
    launched = argv[1:2] if argv[1:2] == [_SUBCOMMAND] else ()
    # With -P, because a project's own package of this name would be found first in the working directory.
    program = (script, *launched) if is_script else (python, "-P", "-m", __package__ or "")
    variables = {name: environ[name] for name in _PASSED_ON if environ.get(name)}
    return SetupCommand((*program, SETUP), (SETUP,), variables)
