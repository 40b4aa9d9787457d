"""`rewindow export SESSION`: a whole session as JSON Lines, for another machine or to keep."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from ....core.errors import InvalidRequestError
from ....core.text import visible
from ...output.opened import find, redactor, store
from ...output.printing import shown, visible_json
from ..jsonl_export import export_lines


def export_session(
    session: str = typer.Argument(metavar="SESSION", help="The session's id, or the start of it."),
    output: str = typer.Option("-", "--output", "-o", metavar="FILE", help="Where to write it; - is standard output."),
    force: bool = typer.Option(False, "--force", "-f", help="Replace a file that is there."),
) -> None:
    """Write a session as JSON lines, for `rewindow import`. Everything it refers to is included."""
    if not force and os.path.isfile(output) and not os.path.abspath(output).startswith("/dev/"):
        raise InvalidRequestError(f"{shown(output)} is there already; --force replaces it")
    with store() as opened:
        said: list[str] = []
        lines = export_lines(opened, find(opened, session).session_id, redactor(), said.append)
        if output == "-":
            on_screen = map(_visible, lines) if sys.stdout.isatty() else lines
            _write(sys.stdout.fileno(), on_screen, "standard output")
        else:
            _write_file(Path(os.path.abspath(output)), lines)
    for sentence in said:
        typer.echo(f"rewindow: {visible(sentence)}", err=True)


def _write_file(path: Path, lines: Iterable[bytes]) -> None:
    # Complete or not at all under its name; only a device or a pipe is written to as it is.
    name = shown(str(path))
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                _write(descriptor, lines, name)
            finally:
                os.close(descriptor)
            return
        path = Path(os.path.realpath(path))  # only now, because what /dev/stdout leads to is no path where it is a pipe
        partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _write(descriptor, lines, name)
            os.fsync(descriptor)
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise InvalidRequestError(f"cannot write {name}: {error.strerror}") from error


def _visible(line: bytes) -> bytes:
    return visible_json(line.decode()).encode()


def _write(descriptor: int, lines: Iterable[bytes], name: str) -> None:
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.writelines(lines)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidRequestError(f"cannot write {name}: {error.strerror}") from error
