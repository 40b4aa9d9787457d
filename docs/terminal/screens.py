"""Draws the pictures of `rewindow run`: real sessions on a pseudo-terminal, with scripted models.

`python -m docs.terminal.screens` writes one SVG for each scene beside this file. Run it from a checkout, whose code it
runs; `--into DIR` writes elsewhere, `--text` prints the screens, and names draw only these scenes. What differs from
run to run (paths, times, session ids) is replaced in the recorded bytes, before a terminal emulator draws them.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

import pyte
from pyte.screens import Char
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import DIMMED_MONOKAI, TerminalTheme
from rich.text import Text

from docs.terminal.scenes import COMMAND, SCENES, Scene
from engine.cli.terminal.screen import FRAMES
from tests.support.terminal import Terminal

HERE: Final = Path(__file__).parent
_SHOWN_HOME: Final = "/home/me/dev123"
_SETTLE_SECONDS: Final = 0.4
_PATIENCE: Final = float(os.environ.get("SCREENS_PATIENCE", "20"))
_REPLACED: Final = (
    (rb"ses_[0-9a-f]{24}", b"ses_0123456789abcdef01234567"),
    (rb"\d{4}-\d\d-\d\d \d\d:\d\d", b"2026-01-01 12:00"),
    (rb"after \d+\.\d s", b"after 1.0 s"),
    (b"|".join(frame.encode() for frame in FRAMES), FRAMES[0].encode()),
    (rb", \d+ s \(Ctrl-C", b", 1 s (Ctrl-C"),
    (rb"\x1b\[2(;\d+)?m", b"\x1b[90\\1m"),
)


def _rgb(colours: str) -> list[tuple[int, int, int]]:
    return [(int(each[:2], 16), int(each[2:4], 16), int(each[4:], 16)) for each in colours.split()]


_LIGHT: Final = TerminalTheme(
    (255, 255, 255),
    (36, 41, 47),
    _rgb("24292f cf222e 116329 9a6700 0969da 8250df 1b7c83 6e7781"),
    _rgb("57606a a40e26 1a7f37 633c01 218bff a475f9 3192aa 8c959f"),
)
_TOKENS: Final = re.compile(r"[\d,]+(?= of 128,000 tokens)")
_FRAME: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""
"""Rich's own frame, without its fonts, which come from the net."""


_HEAD: Final = """<!-- Written by `python -m docs.terminal.screens`. -->
# Twenty screens

[`rewindow run`](../terminal.md) at 80 and 120 columns, on dark and light terminals. Each picture is drawn from a real
session on a pseudo-terminal, with a scripted model. Paths, times and ids are replaced. To draw them again, run
`python -m docs.terminal.screens`. The left column shows the same session in an earlier version, without rendered
replies and folding.
"""


class Recording:
    """One scene as it was: the bytes of the terminal, and the home directory that stands in them."""

    def __init__(self, scene: Scene, code: Path) -> None:
        # As long as the home that is shown, so that lines break where they would there.
        self._root = Path(tempfile.mkdtemp(prefix="rw", dir="/tmp"))
        self.home = Path(str(self._root) + "_" * (len(_SHOWN_HOME) - len(str(self._root))))
        self._root.rename(self.home)
        self._scene = scene
        self._code = code

    def play(self) -> list[bytes]:
        """All that the program had written after each step of the last run. The session is ended afterwards."""
        scene, project = self._scene, self.home / "project"
        project.mkdir()
        for name, text in scene.files.items():
            (project / name).write_text(text)
        script = self.home / "replies.jsonl"
        script.write_text("\n".join(map(json.dumps, scene.replies)))
        try:
            for number, arguments in enumerate(scene.runs):
                recorded: list[bytes] = []
                with self._terminal(project, [each.replace("SCRIPT", str(script)) for each in arguments]) as terminal:
                    for step in scene.steps[number]:
                        self._perform(terminal, step)
                        recorded.append(bytes(terminal.raw))
            return recorded
        finally:
            shutil.rmtree(self.home, ignore_errors=True)

    def _terminal(self, project: Path, arguments: list[str]) -> Terminal:
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "PYTHONPATH": str(self._code),
            "REWINDOW_STATE_DIR": str(self.home / "state"),
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            **self._scene.variables,
        }
        return Terminal(
            [sys.executable, "-c", COMMAND, "run", *arguments],
            variables,
            str(project),
            lines=self._scene.lines,
            columns=self._scene.columns,
        )

    def _perform(self, terminal: Terminal, step: tuple[str, str]) -> None:
        kind, text = step
        if kind == "type":
            terminal.type(text)
        else:
            try:
                terminal.until_it(lambda seen: re.search(text, seen) is not None, text, _PATIENCE)
            except AssertionError as error:
                sys.stderr.write(f"{self._scene.name}: {error}\n")
        if kind != "until now":
            self._settle(terminal)

    @staticmethod
    def _settle(terminal: Terminal) -> None:
        deadline = time.monotonic() + _SETTLE_SECONDS
        last = deadline + 1.0
        while time.monotonic() < min(deadline, last):
            before = len(terminal.raw)
            _read(terminal)
            if len(terminal.raw) != before:
                deadline = time.monotonic() + _SETTLE_SECONDS


def _read(terminal: Terminal) -> None:
    try:
        terminal.until_it(lambda _: False, "", 0.05)
    except AssertionError:
        return


def emulated(recorded: bytes, home: Path, scene: Scene) -> pyte.Screen:
    """The screen at the end, with what differs from run to run replaced."""
    recorded = recorded.replace(str(home).encode(), _SHOWN_HOME.encode())
    for pattern, instead in (*_REPLACED, *scene.replaced):
        recorded = re.sub(pattern, instead, recorded)
    screen = pyte.Screen(scene.columns, scene.lines)
    pyte.ByteStream(screen).feed(recorded)
    return screen


def lines_of(screen: pyte.Screen) -> list[Text]:
    """The lines of a screen."""
    lines = [Text.assemble(*_cells(screen, row), no_wrap=True, end="") for row in range(screen.lines)]
    for line in lines:
        # Here, because a number may have been drawn in parts, and without a change of width.
        line.plain = _TOKENS.sub(lambda used: re.sub(r"\d", "8", used[0]), line.plain)
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return lines


def _cells(screen: pyte.Screen, row: int) -> Iterator[tuple[str, Style]]:
    """The runs of a row that look alike."""
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    while cells and cells[-1].data == " " and not cells[-1].reverse:
        cells.pop()
    for style, run in groupby(cells, _style):
        yield "".join(cell.data for cell in run), style


def _style(cell: Char) -> Style:
    return Style(
        color=_colour(cell.fg),
        bgcolor=_colour(cell.bg),
        bold=cell.bold,
        italic=cell.italics,
        underline=cell.underscore,
        reverse=cell.reverse,
    )


def _colour(name: str) -> Color | None:
    if name == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", name):
        return Color.parse(f"#{name}")
    plain = name.removeprefix("bright")
    plain = {"brown": "yellow"}.get(plain, plain)
    return Color.parse(plain if name in (plain, "brown") else f"bright_{plain}")


def picture(lines: list[Text], scene: Scene) -> str:
    """The screen as an SVG."""
    console = Console(record=True, width=scene.columns, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(line, overflow="ignore", crop=True, soft_wrap=False, end="\n", highlight=False)
    theme = DIMMED_MONOKAI if scene.theme == "dark" else _LIGHT
    return console.export_svg(title=scene.title, theme=theme, code_format=_FRAME, unique_id=f"s{scene.name}")


def draw(scene: Scene, code: Path) -> tuple[str, str]:
    """The picture of a scene as the code in `code` plays it, and its text."""
    recording = Recording(scene, code)
    lines = lines_of(emulated(recording.play()[-1], recording.home, scene))
    return picture(lines, scene), "\n".join(line.plain for line in lines)


def page() -> str:
    """The page that shows all pictures, each beside the earlier one."""
    parts = [_HEAD]
    for scene in SCENES:
        about = f"{scene.columns} columns, {scene.theme}"
        parts.append(
            f"## {scene.title[:1].upper()}{scene.title[1:]}\n\n{about}.\n\n| before | now |\n| --- | --- |\n"
            f"| ![before](before/{scene.name}.svg) | ![now]({scene.name}.svg) |\n"
        )
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="scenes; all of them without a name")
    parser.add_argument("--code", type=Path, default=HERE.parent.parent, help="the checkout whose code runs")
    parser.add_argument("--into", type=Path, default=HERE)
    parser.add_argument("--text", action="store_true", help="print the screens, too")
    wanted = parser.parse_args()
    wanted.into.mkdir(parents=True, exist_ok=True)
    if wanted.into == HERE:
        (HERE / "README.md").write_text(page(), encoding="utf-8")
    for scene in SCENES:
        if wanted.names and scene.name not in wanted.names:
            continue
        svg, text = draw(scene, wanted.code)
        (wanted.into / f"{scene.name}.svg").write_text(svg, encoding="utf-8")
        if wanted.text:
            sys.stdout.write(f"=== {scene.name} ({scene.columns})\n{text}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
