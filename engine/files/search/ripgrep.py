"""ripgrep: where it is, and its command line for a search that prints what `output` reads.

The command line leaves nothing to a configuration of the user's, and says the same to versions 13 to 15. Must not know
tools. `find_ripgrep` is called by whoever makes a workspace, the rest by `commands`.
"""

from __future__ import annotations

import os
import stat
import sys
from functools import cache
from typing import Final

from .globs import Glob, as_ignore_rule
from .output import LONGEST_LINE
from .place import VERSION_CONTROL, Place

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
