"""The program that shows an address in the browser of a desktop, if this process has a desktop.

It is looked for in the directories of the system alone, not in PATH, and gets these as its PATH: a statement may have
put a program into a directory of PATH, such as an activated environment of the project. Starts nothing. Used by
`session_page`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final

_PROGRAMS: Final = ("open",) if sys.platform == "darwin" else ("xdg-open", "wslview")
PLACES: Final = os.pathsep.join(
    ("/usr/bin", "/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin", "/snap/bin")
)
_DESKTOPS: Final = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
"""Variables of which a session on Linux with a desktop has one. macOS always has a desktop."""


def browser_program(environ: Mapping[str, str]) -> str | None:
    """Return the path of the program, which takes the address as its argument; None without a desktop."""
    if sys.platform != "darwin" and not any(environ.get(name) for name in _DESKTOPS):
        return None
    return next(filter(None, (shutil.which(name, path=PLACES) for name in _PROGRAMS)), None)
