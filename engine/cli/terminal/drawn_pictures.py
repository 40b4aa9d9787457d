"""Pictures in terminals that draw them, by the protocols of kitty and of iTerm2: which one speaks, and its sequences.

A terminal says by its environment that it draws; nothing is asked, because an answer would be typed text to a terminal
that does not know the question. The content is base64, so it cannot control the terminal. Pure. Used by `program`;
`picture_files` has the line for all terminals.

https://sw.kovidgoyal.net/kitty/graphics-protocol and https://iterm2.com/documentation-images.html
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

from ...core.pictures import PNG, Picture, PictureContent

Protocol = Literal["kitty", "iterm"]
MOST_BYTES: Final = 2_000_000
"""A larger picture is only a file, because a slow connection would block the session."""
_KITTY: Final = ("xterm-kitty", "xterm-ghostty")
"""Values of TERM."""
_ITERM: Final = ("iTerm.app", "WezTerm", "mintty")
"""Values of TERM_PROGRAM."""
_CHUNK: Final = 4_096
_CELL: Final = (10, 20)
"""Pixels of a cell: its usual width, and its height."""
_MOST_COLUMNS: Final = 80


def protocol_of(environ: Mapping[str, str]) -> Protocol | None:
    """Return the protocol of a terminal; None if it is not known to draw, or another program draws its screen."""
    term = environ.get("TERM", "")
    if environ.get("TMUX") or term.startswith(("screen", "tmux")):
        return None
    if term in _KITTY or environ.get("KITTY_WINDOW_ID"):
        return "kitty"
    return "iterm" if environ.get("TERM_PROGRAM") in _ITERM else None


def drawing(protocol: Protocol, picture: Picture, content: PictureContent | None, columns: int, lines: int) -> str:
    """Return what draws a picture, within a screen of that size; "" if the terminal cannot draw this one."""
    if content is None or len(content) > MOST_BYTES or not (picture.width and picture.height):
        return ""
    width = _columns(picture, columns, lines)
    if protocol == "iterm":
        options = f"inline=1;size={len(content)};width={width};preserveAspectRatio=1"
        return f"\x1b]1337;File={options}:{b64encode(content).decode('ascii')}\a\n"
    if picture.media_type != PNG:
        return ""
    return "".join(_kitty(content, width)) + "\n"


def _columns(picture: Picture, columns: int, lines: int) -> int:
    """Return how many cells wide it is: its own size, unless it is wider or higher than the screen."""
    across, down = _CELL
    own = -(-picture.width // across)
    highest = max(lines - 2, 1) * down * picture.width // (picture.height * across)
    return max(min(own, highest, columns - 1, _MOST_COLUMNS), 1)


def _kitty(content: PictureContent, width: int) -> Iterator[str]:
    data = b64encode(content).decode("ascii")
    for start in range(0, len(data), _CHUNK):
        more = int(start + _CHUNK < len(data))
        # q=2: the terminal must not answer, because its answer would be read as typed.
        head = f"a=T,f=100,q=2,c={width},m={more}" if start == 0 else f"q=2,m={more}"
        yield f"\x1b_G{head};{data[start : start + _CHUNK]}\x1b\\"


Draw = Callable[[Picture], str]
"""Returns what draws a picture; "" if it is not drawn."""


def draw_nothing(_picture: Picture) -> str:
    """Draw no picture."""
    return ""
