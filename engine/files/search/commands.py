"""The command requests of searches, and the reading of what comes back. Used by the tools `grep` and `find`.

Everything is bounded: the time, the output (a program that printed more is ended), and what is kept of it. What could
not be searched is said and ends nothing.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from ...core.cutting import cut_middle, more, plural
from ...core.programs import CommandOutcome, CommandRequest
from .globs import Glob
from .output import ALL_LEFT_OUT, LONGEST_LINE, Complaints, read_complaints
from .place import IGNORE_FILES, VERSION_CONTROL, Place
from .ripgrep import can_search, listing_arguments, rules, search_arguments

SECONDS: Final = 20.0
MAX_OUTPUT: Final = 16 << 20
"""Bytes of stdout after which a search is ended: some 150,000 lines or names."""
_NAMED: Final = 5
"""How many places that could not be read are named."""
_SAID_CHARS: Final = 500
_REASON: Final = "error: "
_IN_PLACE: Final = 'test "$(pwd -P; echo .)" = "$0" || exit 90; '
"""Starts a program where the kernel finds the place and nowhere else.

The place was looked up before, and whoever starts the program enters it by its path, into which a link may have been
swapped by then. Once a process is in a directory no link leads it elsewhere, and both programs search from there. The
dot keeps a newline at the end of a name, which the shell would take off.
"""
_INSTEAD: Final = 'exec "$@"'
_NOT_IN_PLACE: Final = 90
_NOTHING: Final = 1
_FAILED: Final = 2
_ENGINE: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OUR_PROGRAM: Final = os.path.join(_ENGINE, "files", "search", "walk", "program.py")


def search_command(place: Place, glob: Glob | None, ripgrep: str | None, pattern: str, context: int) -> CommandRequest:
    """Prints the lines that match, for `output.read_files`."""
    if ripgrep is not None and can_search(place):
        return _by_ripgrep(place, glob, ripgrep, search_arguments(place, glob, pattern, context))
    return _request(place, _our_command(), _job(place, glob, pattern, context))


def listing_command(place: Place, glob: Glob | None, ripgrep: str | None) -> CommandRequest:
    """Prints the names of files, for `output.read_names`."""
    if ripgrep is not None and can_search(place):
        return _by_ripgrep(place, glob, ripgrep, listing_arguments(place, glob))
    return _request(place, _our_command(), _job(place, glob, None, 0))


def _by_ripgrep(place: Place, glob: Glob | None, ripgrep: str, arguments: tuple[str, ...]) -> CommandRequest:
    run = _INSTEAD
    if place.above and place.name is None:
        any_file = shlex.join((ripgrep, "--quiet", *listing_arguments(place, None)))
        complaint = f"echo {shlex.quote(ALL_LEFT_OUT)} >&2"
        run = f'"$@"; code=$?; test $code != {_NOTHING} || {any_file} 2>/dev/null || {complaint}; exit $code'
    return _request(place, (ripgrep, *arguments), rules(glob), run)


def _request(place: Place, argv: tuple[str, ...], stdin: bytes, run: str = _INSTEAD) -> CommandRequest:
    return CommandRequest(
        argv=("/bin/sh", "-c", _IN_PLACE + run, f"{place.directory}\n.", *argv),
        cwd=place.directory,
        seconds=SECONDS,
        kept_bytes=MAX_OUTPUT,  # that is all there is
        merged=False,
        stop_at=MAX_OUTPUT,
        stdin=stdin,
    )


def _our_command() -> tuple[str, ...]:
    libraries = {os.path.dirname(_place_of(name)) for name in ("pathspec", "regex")}
    return (sys.executable, "-I", "-S", _OUR_PROGRAM, os.path.dirname(_ENGINE), *sorted(libraries))


def _place_of(library: str) -> str:
    # Found without importing it, which would take this process longer than all of a search.
    spec = find_spec(library)
    if spec is None or spec.origin is None:
        raise OSError(f"the package {library} of this program is missing; install it again, or install ripgrep")
    return os.path.dirname(spec.origin)


def _job(place: Place, glob: Glob | None, pattern: str | None, context: int) -> bytes:
    job = {
        "name": place.name,
        "above": place.above,
        "in_repository": place.in_repository,
        "expression": None if glob is None else glob.expression,
        "pattern": pattern,
        "context": context,
        "longest_line": LONGEST_LINE,
        "all_left_out": ALL_LEFT_OUT,
        "ignore_files": IGNORE_FILES,
        "skipped": (*VERSION_CONTROL, *(f"/{path}" for path in place.kept_out)),
    }
    return json.dumps(job).encode()


def printed(outcome: CommandOutcome, found: Callable[[bytes], str]) -> tuple[bytes, tuple[str, ...]]:
    """What a search printed, and notes on what it did not search.

    Args:
        found: says how much a search found that printed so much: "12 lines".

    Raises:
        TimeoutError: it did not end in time.
        ValueError: the program refused what it was to search for; the text is its own.
        OSError: it could not search.
    """
    output = outcome.stdout.head + outcome.stdout.tail
    if outcome.timed_out:
        raise TimeoutError(
            f"the search was ended after {SECONDS:g} s, with {found(output)} so far;"
            " name a narrower path, a glob or a simpler pattern"
        )
    if outcome.stopped:
        return output, (f"ended after {found(output)}; name a narrower path, a glob or a pattern for the others",)
    if outcome.code == _NOT_IN_PLACE:
        raise FileNotFoundError("the directory was moved while the search began; search again")
    if outcome.code is None or outcome.code > _FAILED:
        raise OSError(_how_it_ended(outcome))
    complaints = read_complaints(outcome.stderr.head + outcome.stderr.tail)
    if outcome.code == _FAILED and not output and not complaints.unreadable:
        raise ValueError(_refusal(complaints.other))
    if outcome.code == _NOTHING and ALL_LEFT_OUT in complaints.other:
        return output, (f"{ALL_LEFT_OUT}; name one of them, or use bash()",)
    return output, _unreadable(complaints)


def _refusal(said: str) -> str:
    """What is wrong with an expression, in the program's words, and then where."""
    lines = said.splitlines()
    reason = next((line for line in lines if line.startswith(_REASON)), None)
    if reason is None:
        return said
    where = [line for line in lines if line.startswith(" ")]
    return "\n".join((f"{reason.removeprefix(_REASON)}, in the regular expression", *where))


def _how_it_ended(outcome: CommandOutcome) -> str:
    how = f"by signal {outcome.signal}" if outcome.signal else f"with code {outcome.code}"
    said = cut_middle(outcome.stderr.head.decode("utf-8", "replace").strip(), _SAID_CHARS)
    return "; ".join(filter(None, (f"the search ended {how}", outcome.reason, said, "name a narrower path")))


def _unreadable(complaints: Complaints) -> tuple[str, ...]:
    places = complaints.unreadable
    if not places:
        return ()
    named = [f"{place or '.'} ({reason})" for place, reason in places[:_NAMED]]
    rest = [more(len(places) - _NAMED)] if len(places) > _NAMED else []
    return (f"could not read {len(places)} {plural(len(places), 'place')}: {', '.join((*named, *rest))}",)
