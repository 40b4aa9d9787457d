"""The recording of the README: a session on a pseudo-terminal, as an SVG that plays in a loop.

`record` plays the session, and `film` draws it. A film is a strip: all frames are below each other, and one CSS
animation moves the strip by a frame at a time. Lines that several frames share are drawn once. The frames between two
screens show how a line is typed: its cells appear from left to right. Where nothing moves (a reader who wants less
motion, a program without animations), the strip stays at its last frame. Nothing in the picture depends on time, so the
same program gives the same picture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from rich.color import Color
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from docs.terminal.scenes import ENTER, Scene
from docs.terminal.screens import Recording, emulated, lines_of

NAME: Final = "session.svg"
TITLE: Final = "rewindow run"
ORDERS: Final = "item,price\nlamp,40\nchair,85\ndesk,210\nshelf,65\n"
NEW_LINE: Final = "\x1b\r"
SHOWN: Final = (
    ('orders = view("orders.csv", tokens=30)', 1.5),
    ("rate = 0.19", 0.8),
    ('prices = [int(row.split(",")[1]) for row in read("orders.csv").split()[1:]]', 1.0),
    ("total = sum(prices) * (1 + rate); total", 2.0),
    ('bash("rm orders.csv").code', 2.0),
    ("/rewind 4", 3.0),
    (f"/edit 2{NEW_LINE}rate = 0.07", 4.5),
    ('total, read("orders.csv")[:18]', 6.0),
)
"""What is typed, and for how many seconds its result is shown."""
_READY: Final = r"\n\d+>\s*\n\s*ask \(Shift-Tab\)"
SCENE: Final = Scene(
    "session",
    TITLE,
    runs=((),),
    files={"orders.csv": ORDERS},
    steps=(
        (
            ("until", _READY),
            *(
                step
                for text, _ in SHOWN
                for step in (
                    ("type", text),
                    ("until", re.escape(text.split(NEW_LINE)[-1])),
                    ("type", ENTER),
                    ("until", _READY),
                )
            ),
        ),
    ),
    lines=26,
)
_TYPED_CELLS: Final = 3
_TYPED_SECONDS: Final = 0.11
_ENTER_SECONDS: Final = 0.5
_WIDTH, _HEIGHT, _MARGIN, _BAR = 8.4, 18, 14, 34
_FRAME_HEIGHT: Final = (SCENE.lines + 1) * _HEIGHT  # with a gap, so that no edge of another frame is seen
_TOKENS: Final = ("8,888 of", "1,300 of")
"""The number depends on the machine, so pictures of the terminal mask it. Here it is rounded."""
_THEME: Final = DIMMED_MONOKAI


@dataclass(frozen=True)
class Screen:
    """What a terminal shows."""

    lines: Sequence[Text]
    cursor: tuple[int, int]
    """Column and row."""


@dataclass(frozen=True)
class Frame:
    """A screen, and how long it is shown."""

    screen: Screen
    seconds: float


def record(code: Path) -> list[Screen]:
    """Play the session with the code in `code`: the first screen, then each line as typed and its result."""
    recording = Recording(SCENE, code)
    screens: list[Screen] = []
    for recorded in recording.play():
        screen = emulated(recorded, recording.home, SCENE)
        lines = lines_of(screen)
        for line in lines:
            line.plain = line.plain.replace(*_TOKENS)
        screens.append(Screen(lines, (screen.cursor.x, screen.cursor.y)))
    return screens[::2]  # without those of typing and of statements that run: what they show depends on time


def frames(screens: Sequence[Screen]) -> list[Frame]:
    """The frames of a film of the screens that `record` returns."""
    result = [Frame(screens[0], 1.0)]
    for number, (text, seconds) in enumerate(SHOWN):
        before, typed, after = screens[2 * number : 2 * number + 3]
        result += [Frame(screen, _TYPED_SECONDS) for screen in _typing(before, typed, text.count(NEW_LINE))]
        result += [Frame(typed, _ENTER_SECONDS), Frame(after, seconds)]
    return result


def _typing(before: Screen, typed: Screen, new_lines: int) -> Iterator[Screen]:
    """The screens between two, on which some cells of the typed lines are still empty."""
    bottom = typed.cursor[1]
    top = bottom - new_lines
    for row in range(top, bottom + 1):
        line = typed.lines[row]
        start = before.cursor[0] if row == top else len(line.plain) - len(line.plain.lstrip())
        for end in range(start, len(line.plain), _TYPED_CELLS):
            empty = [Text()] * (bottom - row)
            lines = [*typed.lines[:row], line[:end], *empty, *typed.lines[bottom + 1 :]]
            yield Screen(lines, (end, row))


# --- drawing ----------------------------------------------------------------------------------------------------------


@dataclass
class Strip:
    """The film so far: the markup of each different line, with its id, and the class of each style."""

    lines: dict[str, str] = field(default_factory=dict[str, str])
    styles: dict[str, str] = field(default_factory=dict[str, str])

    def line(self, line: Text) -> str | None:
        """The id of a line; None if it is empty."""
        drawn = "".join(self._segments(line))
        return self.lines.setdefault(drawn, f"l{len(self.lines)}") if drawn else None

    def _segments(self, line: Text) -> Iterator[str]:
        spans = sorted((span for span in line.spans if span.style), key=lambda span: span.start)
        end = 0
        for span in spans:
            yield from self._segment(line, end, span.start, Style())
            yield from self._segment(line, span.start, span.end, span.style)
            end = span.end
        yield from self._segment(line, end, len(line.plain), Style())

    def _segment(self, line: Text, start: int, end: int, style: Style | str) -> Iterator[str]:
        assert isinstance(style, Style)
        text = line.plain[start:end]
        x, width = _of(start * _WIDTH), _of(len(text) * _WIDTH)
        ink, paper = (_hex(style.color, True), style.bgcolor and _hex(style.bgcolor, False))
        if style.reverse:
            ink, paper = _hex(style.bgcolor, False), ink
        if paper and text:
            yield f'<rect x="{x}" width="{width}" height="{_HEIGHT}" fill="{paper}"/>'
        if text.strip():
            weight = ";font-weight:bold" * bool(style.bold) + ";font-style:italic" * bool(style.italic)
            name = self.styles.setdefault(f"fill:{ink}{weight}", f"s{len(self.styles)}")
            shown = escape(text.replace(" ", "\u00a0"))
            yield f'<text class="{name}" x="{x}" y="13" textLength="{width}">{shown}</text>'


def _of(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _hex(color: Color | None, is_ink: bool) -> str:
    shown = color or Color.default()
    return shown.get_truecolor(_THEME, foreground=is_ink).hex


def film(shown: Sequence[Frame]) -> str:
    """The SVG that shows the frames, one after the other."""
    strip = Strip()
    height = SCENE.lines * _HEIGHT
    drawn = [_frame(strip, frame.screen, number * _FRAME_HEIGHT) for number, frame in enumerate(shown)]
    total = sum(frame.seconds for frame in shown)
    width = SCENE.columns * _WIDTH
    paper, ink = _hex(None, False), _hex(None, True)
    outer = (_of(width + 2 * _MARGIN), _of(height + _BAR + _MARGIN))
    dots = "".join(
        f'<circle cx="{_MARGIN + 6 + 20 * place}" cy="17" r="6" fill="{colour}"/>'
        for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    styles = "\n".join(f".{name}{{{style}}}" for style, name in strip.styles.items())
    lines = "\n".join(f'<g id="{name}">{markup}</g>' for markup, name in strip.lines.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {outer[0]} {outer[1]}" role="img">
<title>{TITLE}</title>
<style>
text{{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:14px}}
{styles}
#film{{transform:translateY(-{(len(shown) - 1) * _FRAME_HEIGHT}px)}}
@media (prefers-reduced-motion:no-preference){{#film{{animation:film {_of(total)}s step-end infinite}}}}
@keyframes film{{{"".join(_keyframes(shown, total))}}}
</style>
<defs>
<clipPath id="window"><rect width="{_of(width)}" height="{height}"/></clipPath>
{lines}
</defs>
<rect width="{outer[0]}" height="{outer[1]}" rx="8" fill="{paper}"/>
{dots}
<text x="{_of(width / 2 + _MARGIN)}" y="22" text-anchor="middle" fill="{ink}">{TITLE}</text>
<g transform="translate({_MARGIN},{_BAR})" clip-path="url(#window)"><g id="film">
{"".join(drawn)}</g></g>
</svg>
"""


def _keyframes(shown: Iterable[Frame], total: float) -> Iterator[str]:
    time = 0.0
    for number, frame in enumerate(shown):
        yield f"{100 * time / total:.2f}%{{transform:translateY(-{number * _FRAME_HEIGHT}px)}}"
        time += frame.seconds


def _frame(strip: Strip, screen: Screen, top: int) -> str:
    column, row = screen.cursor
    cursor = f'<rect x="{_of(column * _WIDTH)}" y="{row * _HEIGHT}" width="8" height="{_HEIGHT}" fill="#888"/>'
    rows = "".join(
        f'<use href="#{name}" y="{number * _HEIGHT}"/>'
        for number, line in enumerate(screen.lines)
        if (name := strip.line(line)) is not None
    )
    return f'<g transform="translate(0,{top})">{cursor}{rows}</g>\n'


def draw(code: Path) -> str:
    """The recording as the code in `code` plays it."""
    return film(frames(record(code)))
