"""What a search printed, read: lines that matched, names of files, and what could not be read.

One form for ripgrep and our own walk. Names end with NUL, so that they may hold anything else:

    ./src/a.py NUL
    12-a line beside a match
    13:a line that matched
    --
    40:another
                                    an empty line ends a file
    ./b.py NUL ...

A line of text always follows its number, so it is never empty and never a name. Within a file any other line says that
a NUL was met further on, so that this is no text. Called by `commands`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from typing import Final

from msgspec import Struct

from ...core.programs import CommandOutcome, CommandRequest
from ...core.text import cut_line, cut_middle, more, plural
from .globs import Glob, as_ignore_rule
from .ignore_files import IGNORE_FILES, VERSION_CONTROL, Place

LONGEST_LINE: Final = 4_096
"""Bytes of a line that are printed; of a longer one as many characters, and some words about the rest."""
LINE_CHARS: Final = 400
"""Characters of a line that are kept: so few that a beginning holds them, and none of those words."""
ALL_LEFT_OUT: Final = "ignore files leave out all files of this place"
"""Stands on stderr where a search below the top found nothing for that reason, which a person would not guess."""
_ROW: Final = re.compile(rb"^(\d+)([:-])([^\n]*?)\r?\n", re.MULTILINE)
_MATCHING: Final = re.compile(rb"^\d+:", re.MULTILINE)
_NO_TEXT: Final = re.compile(rb"^(?!\d+[:-]|--\r?$|\Z)", re.MULTILINE)
"""A row that is none of those above."""
_UNREADABLE: Final = re.compile(r"(?:rg: )?(?P<place>.*): (?P<reason>[^:]+) \(os error \d+\)")
_ADVICE: Final = "\n\nConsider enabling"
"""Begins what ripgrep says about options that nobody here can give."""


class FileLines(Struct, frozen=True):
    """What was printed of one file: its lines by their numbers, and which of them match."""

    lines: dict[int, str]
    matches: tuple[int, ...]


class PrintedFile(Struct, frozen=True):
    """What was printed of one file, not read yet: its path as bytes, relative to the place, and its rows."""

    path: bytes
    rows: bytes

    def count(self) -> int:
        """How many lines match; none of a file that turned out to be no text. Takes much less time than `read`."""
        return 0 if _NO_TEXT.search(self.rows) else len(_MATCHING.findall(self.rows))

    def read(self) -> FileLines:
        """The lines; none of a file that turned out to be no text."""
        if _NO_TEXT.search(self.rows):
            return FileLines({}, ())
        found = [(int(number), mark, text) for number, mark, text in _ROW.findall(self.rows)]
        lines = {number: cut_line(text.decode("utf-8", "replace"), LINE_CHARS) for number, _, text in found}
        return FileLines(lines, tuple(number for number, mark, _ in found if mark == b":"))


class Complaints(Struct, frozen=True):
    """What stood on stderr: places that could not be read, each with the reason, and everything else."""

    unreadable: tuple[tuple[str, str], ...]
    other: str


def read_files(printed: bytes) -> Iterator[PrintedFile]:
    """The files. What is cut off at the end counts as far as it is complete."""
    at = 0
    while (end := printed.find(b"\0", at)) >= 0:
        path = printed[at:end]
        stop = printed.find(b"\n\n", end)
        rows = printed[end + 1 : stop + 1 if stop >= 0 else len(printed)]
        at = stop + 2 if stop >= 0 else len(printed)
        yield PrintedFile(path.removeprefix(b"./"), rows[: rows.rfind(b"\n") + 1])


def read_names(printed: bytes) -> list[str]:
    """The names, relative to the place, with surrogates for what is no UTF-8; one cut off at the end is left out."""
    text = printed[: printed.rfind(b"\0") + 1].decode("utf-8", "surrogateescape")
    return text.removeprefix("./").replace("\0./", "\0").split("\0")[:-1]


def read_complaints(said: bytes) -> Complaints:
    """What a program said on stderr."""
    unreadable: list[tuple[str, str]] = []
    other: list[str] = []
    for line in said.decode("utf-8", "replace").splitlines():
        found = _UNREADABLE.fullmatch(line)
        if found is None:
            other.append(line.removeprefix("rg: "))
        else:
            unreadable.append((found["place"].removeprefix("./"), found["reason"]))
    return Complaints(tuple(unreadable), "\n".join(other).partition(_ADVICE)[0].strip())


# ripgrep:
# ripgrep: where it is, and its command line for a search that prints what `output` reads.
#
# The command line leaves nothing to a configuration of the user's, and says the same to versions 13 to 15. Must not
# know tools. `find_ripgrep` is called by whoever makes a workspace, the rest by `commands`.

_OURS: Final = os.path.realpath(sys.prefix)
_COMMON: Final = (
    "--no-config",
    "--hidden",
    "--no-ignore-global",
    "--no-ignore-messages",
    "--color=never",
    "--null",
)


def find_ripgrep(path: str, roots: tuple[str, ...]) -> str | None:
    """The absolute place of the first `rg` on PATH that nobody else can change, links resolved; None without one.

    Args:
        path: the PATH variable that the host was started with.
        roots: absolute directories in which programs are the project's and not the user's.
    """
    inside = tuple(os.path.realpath(root).rstrip("/") + "/" for root in roots)
    return next((each for each in _on(path) if not each.startswith(inside)), None)


@cache
def _on(path: str) -> tuple[str, ...]:
    # Looked for once in the life of a host, before a first statement runs, which may put programs where PATH leads.
    places = (each for each in path.split(os.pathsep) if os.path.isabs(each) and not _is_of_project(each))
    return tuple(filter(_is_safe, (os.path.realpath(os.path.join(each, "rg")) for each in places)))


def _is_of_project(place: str) -> bool:
    """Whether some project's environment keeps its programs there, which statements of another session could write."""
    above = os.path.dirname(place.rstrip("/"))
    is_environment = os.path.exists(os.path.join(above, "pyvenv.cfg")) and os.path.realpath(above) != _OURS
    return is_environment or os.path.basename(above) == "node_modules"


def _is_safe(program: str) -> bool:
    try:
        mode, place = os.stat(program).st_mode, os.stat(os.path.dirname(program)).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and os.access(program, os.X_OK) and not (mode | place) & stat.S_IWOTH


def search_arguments(place: Place, glob: Glob | None, pattern: str, context: int) -> tuple[str, ...]:
    """The arguments, without the program, that print the lines in which `pattern` matches."""
    return (
        *_common(place, glob),
        "--heading",
        "--with-filename",
        "--line-number",
        "--crlf",
        f"--max-columns={LONGEST_LINE}",
        "--max-columns-preview",
        f"--context={context}",
        "-e",
        pattern,
        "--",
        "./",
    )


def listing_arguments(place: Place, glob: Glob | None) -> tuple[str, ...]:
    """The arguments, without the program, that print the names of files."""
    return (*_common(place, glob), "--files", "--", "./")


def _common(place: Place, glob: Glob | None) -> tuple[str, ...]:
    if place.name is not None:
        # Chosen by a glob, because in a file that it is given ripgrep searches binary data too, and waits for a pipe
        # that took the file's place. What else the glob matches is dropped where the output is read.
        return (*_COMMON, "--no-ignore", "--max-depth=1", f"--glob=/{as_ignore_rule(place.name)}")
    return (
        *_COMMON,
        *(f"--glob=!{name}" for name in VERSION_CONTROL),
        *(f"--glob=!/{'/'.join(map(as_ignore_rule, path.split('/')))}" for path in place.kept_out),
        *(() if place.above else ("--no-ignore-parent",)),
        # A `.gitignore` counts also where no repository was made yet. In one, ripgrep would not see where it ends.
        *(() if place.in_repository else ("--no-require-git",)),
        # Ignore rules of the lowest precedence, because --glob would bring back what the ignore files leave out.
        *(("--ignore-file=/dev/stdin",) if glob is not None and glob.ignore_lines else ()),
    )


def can_search(place: Place) -> bool:
    """Whether the ignore files that ripgrep respects at this place are those that count."""
    return not (place.above and place.strangers)


def rules(glob: Glob | None) -> bytes:
    """What the arguments expect on stdin."""
    return b"" if glob is None else "\n".join((*glob.ignore_lines, "")).encode()


# commands:
# The command requests of searches, and the reading of what comes back. Used by the tools `grep` and `find`.
#
# Everything is bounded: the time, the output (a program that printed more is ended), and what is kept of it. What
# could not be searched is said and ends nothing.

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
