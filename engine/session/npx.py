"""Start an MCP server by `npx -y` such that it takes no package and no program from the session's directory.

npx puts `node_modules/.bin` of its working directory, and of those above it, before everything else in the PATH of the
package that it runs. So it works in /dev, where only root writes. It starts the package's program by the shell
`npx_shell.sh`, which goes to the session's directory first. The project's `.npmrc`, which is protected from statements,
counts as before: else a package of a company would come from the public registry. For the same reason nothing is
fetched instead of a package that the project has.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from ..core.programs import ServerRequest
from ..core.text import printable
from ..files.project import is_own, own_directories

_NOWHERE: Final = os.path.dirname(os.devnull)
"""Where npx works: only root writes there."""
_SHELL: Final = Path(__file__).with_name("npx_shell.sh")
_DIRECTORY: Final = "REWINDOW_SERVER_DIRECTORY"
"""Tells the shell where to go."""
_SETTINGS: Final = ".npmrc"
_PROJECT: Final = ("package.json", "node_modules")
"""npm takes the settings of the nearest directory that has one of them, or else of its working directory."""
_EXEC: Final = ("exec", "x")
"""The commands of npm that do what npx does."""
_YES: Final = re.compile(r"--y(e|es)?(=true)?|-[dnqs]*y[dnqsy]*")
"""npm takes the beginnings of an option's name, too."""
_PACKAGE: Final = ("-p", "--package")
_PLACE: Final = re.compile(r"(file:)?\.\.?(/|$)|file:[^/]")
"""A package that is named by its place in the session's directory."""
_VALUELESS: Final = re.compile(
    r"--no(-.*)?|--(dry-run|foreground-scripts|ignore-existing|ignore-scripts|include-workspace-root|install-links)"
    r"|--(legacy-peer-deps|offline|prefer-(offline|online)|quiet|silent|strict-ssl|verbose|workspaces)|-[dnqsy]+"
)
"""Options of npx without a value. The word behind any other one without `=` is its value."""


class _Asked(Struct):
    """What npx is asked for: whether it may fetch, and which packages, as they are spelled."""

    may_fetch: bool = False
    packages: list[str] = field(default_factory=list[str])


def away_from_project(request: ServerRequest, state: str) -> ServerRequest:
    """Return the request so that npx works elsewhere, if it may fetch a package; else the same one.

    Args:
        request: how the server would be started, in the session's directory.
        state: this program's own directory, which statements cannot write. It gets a link to the project's settings.

    Raises ValueError if the session's directory has a package of that name: npx would fetch another one.
    """
    command, *arguments = request.argv
    asked = _asked(arguments, is_npm=os.path.basename(command) == "npm")
    if os.path.basename(command) not in ("npm", "npx") or not asked.may_fetch or any(map(_PLACE.match, asked.packages)):
        return request
    project = Path(request.cwd)
    for package in asked.packages:
        if found := _installed(package, project):
            raise ValueError(
                f"npx -y would fetch {printable(package)} although {printable(str(found))} is there, which statements"
                " can change; start the server without -y, or by the path of its program"
            )
    options = (f"--prefix={_prefix(project, Path(state))}", f"--script-shell={_SHELL}")
    return replace(
        request,
        argv=(command, *options, *arguments),
        cwd=_NOWHERE,
        variables={**request.variables, _DIRECTORY: request.cwd},
    )


def _asked(arguments: Sequence[str], *, is_npm: bool) -> _Asked:
    """Read the options of npx, or of `npm exec`; those behind the package are the server's."""
    found, option = _Asked(), ""
    for argument in arguments:
        if option:
            found.packages += [argument] if option in _PACKAGE else []
            option = ""
        elif is_npm and not argument.startswith("-"):
            if argument not in _EXEC:
                return _Asked()
            is_npm = False
        elif argument == "--" or not argument.startswith("-"):
            if not found.packages:
                left = arguments[arguments.index("--") + 1 :] if argument == "--" else [argument]
                found.packages += left[:1]
            break
        elif argument.startswith("--package="):
            found.packages.append(argument.partition("=")[2])
        else:
            found.may_fetch = found.may_fetch or bool(_YES.fullmatch(argument))
            option = "" if "=" in argument or _YES.fullmatch(argument) or _VALUELESS.fullmatch(argument) else argument
    return found


def _installed(package: str, project: Path) -> Path | None:
    """Return where npx would find the package before it fetched it."""
    name = re.match(r"(@[^/@]+/)?[^/@]+", package)
    places = [Path(each) / "node_modules" / name[0] for each in own_directories(str(project))] if name else []
    return next((place for place in places if os.path.lexists(place)), None)


def _prefix(directory: Path, state: Path) -> Path:
    """Return a directory with nothing but the project's settings, if there are some."""
    home = Path("~").expanduser()
    for place in map(Path, own_directories(str(directory))):
        is_project = place == directory or any((place / name).exists() for name in _PROJECT)
        if is_project and place != home and is_own(str(place / _SETTINGS), str(directory)):
            prefix = state.resolve() / "npx" / sha256(os.fsencode(place)).hexdigest()[:16]
            prefix.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                (prefix / _SETTINGS).symlink_to(place / _SETTINGS)
            return prefix
    return Path(_NOWHERE)
