"""The first code of every console script: makes sure that the packages about to be imported are ours, and hides keys.

`engine` is a common name. Under `python -m` or with PYTHONPATH a project's own `engine` may come first on the import
path; running against it would fail in ways nobody could understand. Imports nothing of ours before the check. Then,
before a statement can run anywhere, the process becomes one that statements cannot read. What a command
writes to its standard error holds no key from here on: usage errors, logs, the report of a crash.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TextIO, cast

if TYPE_CHECKING:
    from conformance.cli.streams import Output

_HOME: Final = Path(__file__).resolve().parent
_PACKAGES: Final = ("engine", "acp_adapter", "conformance", "mcp_tools", "session_page")
_INTERRUPTED: Final = 130
_DOCTOR: Final = "doctor"


def foreign_package() -> str | None:
    """One sentence about the first package that is not ours, or None."""
    for name in _PACKAGES:
        spec = PathFinder.find_spec(name)
        places = list(spec.submodule_search_locations or [spec.origin or "?"]) if spec else ["nowhere"]
        if Path(places[0]).resolve() != _HOME / name:
            return (
                f"rewindow: the package `{name}` is found at {places[0]}, not beside this program in {_HOME}; "
                "unset PYTHONPATH, or start the command from its own environment instead of with `python -m`"
            )
    return None


def _begin() -> None:
    _refuse_foreign_packages()
    from engine.core.import_path import own_import_path  # only after the check, like what follows

    sys.path[:] = own_import_path(sys.path, os.environ.get("PYTHONPATH", ""))
    _refuse_foreign_packages()  # a checkout stands behind the installed packages now
    _refuse_unknown_systems()
    sys.pycache_prefix = None  # statements may write there, and bytecode in it would run as this program's modules
    from engine.runtime.hardening import harden_process

    harden_process()
    sys.stderr = cast("TextIO", _Errors(sys.stderr))


def _refuse_unknown_systems() -> None:
    """Say what a system lacks on which nothing else of ours could even be imported; `rewindow doctor` reports it."""
    from engine.runtime.system.support import refusal

    if lines := refusal():
        stream = sys.stdout if sys.argv[1:2] == [_DOCTOR] else sys.stderr
        stream.write("".join(f"failed  {line}\n" for line in lines))
        raise SystemExit(1)


def _refuse_foreign_packages() -> None:
    problem = foreign_package()
    if problem is not None:
        sys.stderr.write(problem + "\n")
        raise SystemExit(2)


def _without_keys(stream: TextIO) -> TextIO:
    from engine.core.settings import hidden_names
    from engine.log.redaction import without_secrets
    from engine.log.secrets import redactor_of

    return without_secrets(stream, redactor_of(os.environ, hidden_names(os.environ)))


class _Errors(io.TextIOBase):
    """Standard error without keys. What knows them is loaded with the first text, because most starts write none."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._clean: TextIO | None = None

    def write(self, text: str, /) -> int:
        if self._clean is None:
            self._clean = _without_keys(self._stream)
        return self._clean.write(text)

    def flush(self) -> None:
        if not self._stream.closed:  # by the interpreter, before this one is closed as garbage
            self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def writable(self) -> bool:
        return True

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] -- an attribute in typeshed
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride] -- as above
        return self._stream.errors


def rewindow_conformance() -> NoReturn:
    """The command that judges other programs, which may say what keys they were given. It runs no statements."""
    output = _conformance_output()
    from conformance.cli import main  # only after the check

    raise SystemExit(main(sys.argv[1:], output))


def rewindow_conformance_once() -> NoReturn:
    """The same for callers that share one run, such as the plugin for pytest."""
    output = _conformance_output()
    from conformance.cli.once import main  # only after the check

    raise SystemExit(main(sys.argv[1:], output))


def _conformance_output() -> Output:
    """Where it writes: without the secrets of the environment, and of the command line that it is given."""
    problem = foreign_package()
    if problem is not None:
        sys.stderr.write(problem + "\n")
        raise SystemExit(2)
    _open_streams()
    from conformance.cli.streams import Output
    from engine.core.settings import hidden_names
    from engine.log.redaction import without_secrets
    from engine.log.secrets import command_line_secrets, redactor_of

    names = hidden_names(os.environ)
    redactor = redactor_of(os.environ, names).knowing(command_line_secrets(sys.argv[1:], os.environ, names))
    return Output(without_secrets(sys.stdout, redactor), without_secrets(sys.stderr, redactor), redactor.redact)


_ACP: Final = "acp"
_SETUP: Final = "--setup"
"""`acp_adapter.sign_in` offers it to editors."""


def rewindow_acp(*, skipped: int = 1) -> NoReturn:
    """The agent that editors start. With `--setup` it asks for a key instead, in a terminal.

    Its arguments follow the first `skipped` ones of the command line.
    """
    arguments = sys.argv[skipped:]
    if _SETUP in arguments:
        _run_for_people(("auth", "setup"))
    _begin()
    from acp_adapter.cli import main  # only after the check

    raise SystemExit(main(arguments))


def rewindow_mcp() -> NoReturn:
    """The server that MCP clients start."""
    _begin()
    from mcp_tools.cli import main  # only after the check

    raise SystemExit(main(sys.argv[1:]))


def _open_streams() -> None:
    """Has a standard stream that was closed be /dev/null, because the next file we open would take its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this
            stream = open(number, mode, closefd=False)  # noqa: SIM115 -- it stays open
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def rewindow() -> NoReturn:
    """The command for people. `rewindow acp` is `rewindow-acp`, for launchers that know one command of a package."""
    if sys.argv[1:2] == [_ACP]:
        rewindow_acp(skipped=2)
    _run_for_people(sys.argv[1:])


def _run_for_people(arguments: Sequence[str]) -> NoReturn:
    """Run the command for people. What killed agents left running ends with it."""
    try:
        code = _run_command(arguments)
    except KeyboardInterrupt:  # before the command can take it itself
        code = _INTERRUPTED
    raise SystemExit(code)


def _run_command(arguments: Sequence[str]) -> int:
    _open_streams()
    _begin()
    from engine.cli import main  # only after the check
    from engine.runtime.worker.processes.ending import end_left_behind

    code = main(arguments)
    with suppress(OSError):
        sys.stdout.flush()  # so that nobody waits for it
    end_left_behind()
    return code
