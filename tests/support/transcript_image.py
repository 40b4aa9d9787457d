"""Draws what a person sees of a session (`seen`) as pictures, so that a person can look at it without an editor."""

from __future__ import annotations

import io
import textwrap
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from tests.support.seen import Entry, Message, diff_rows

WIDTH: Final = 900
FRAME_HEIGHT: Final = 1_400
_MARGIN: Final = 16
_LINE: Final = 19
_MOST_LINES: Final = 30
"""Lines of a block that are drawn; the rest is counted, as an editor folds it."""
_FOLDER: Final = Path("/usr/share/fonts/truetype/dejavu")
_COLUMNS: Final = 98
_INKS: Final = {"+": "#1a7f37", "-": "#b3261e", " ": "#57606a"}
_STATUS: Final = {"completed": "#1a7f37", "failed": "#b3261e", "in_progress": "#9a6700", "pending": "#6e7781"}
_BACKS: Final = {"prompt": "#ddeeff", "card": "#f3f4f6", "plan": "#fff8e0", "thought": "#ffffff", "notice": "#ffeef0"}


class _Row:
    """A line of text or a picture, ready to be drawn."""

    def __init__(self, text: str, ink: str = "#1f2328", *, mono: bool = False, image: Image.Image | None = None):
        self.text, self.ink, self.mono, self.image = text, ink, mono, image

    @property
    def height(self) -> int:
        return _LINE if self.image is None else self.image.height + 6


def _font(*, mono: bool) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    path = _FOLDER / ("DejaVuSansMono.ttf" if mono else "DejaVuSans.ttf")
    return ImageFont.truetype(str(path), 13) if path.exists() else ImageFont.load_default(13)


def _rows(entry: Entry) -> list[_Row]:
    if entry.kind == "stop":
        return [_Row(f"--- {entry.blocks[0]['text']} ---", "#6e7781")]
    rows = _card_rows(entry) if entry.kind == "card" else []
    for block in entry.blocks:
        rows += _block_rows(block, "#6e7781" if entry.kind == "thought" else "#1f2328")
    return rows


def _card_rows(entry: Entry) -> list[_Row]:
    card: Message = entry.card
    status: str = card.get("status", "pending")
    locations: list[Message] = card.get("locations") or []
    places = ", ".join(f"{each['path'].rpartition('/')[2]}:{each.get('line') or ''}" for each in locations)
    rows = [
        _Row(f"[{card.get('kind', 'other')}] {card['title']}"),
        _Row(f"{status}   {places}", _STATUS[status]),
    ]
    content: list[Message] = card.get("content") or []
    for block in content:
        rows += _content_rows(entry, block)
    return rows


def _content_rows(entry: Entry, block: Message) -> list[_Row]:
    match block["type"]:
        case "diff":
            rows = [_Row(f"{sign} {text}", _INKS[sign], mono=True) for sign, text in diff_rows(block)]
            return [_Row(f"diff {block['path'].rpartition('/')[2]}", "#0550ae"), *_folded(rows)]
        case "terminal":
            output = entry.terminals.get(block["terminalId"], "")
            return _folded([_Row(f"$ {line}", "#3b2e58", mono=True) for line in output.splitlines() or ["(terminal)"]])
        case _:
            return _block_rows(block["content"], "#1f2328")


def _block_rows(block: Message, ink: str) -> list[_Row]:
    match block["type"]:
        case "image":
            picture = Image.open(io.BytesIO(b64decode(block["data"]))).convert("RGB")
            picture.thumbnail((420, 240))
            return [_Row("", image=picture)]
        case "text":
            return _folded(_markdown(block["text"], ink))
        case "resource_link":
            return [_Row(f"@{block['name']}", "#0550ae")]
        case _:
            return [_Row(f"<{block['type']}>", "#0550ae")]


def _markdown(text: str, ink: str) -> list[_Row]:
    rows: list[_Row] = []
    is_code = False
    for line in text.splitlines():
        if line.startswith("```"):
            is_code = not is_code
            continue
        parts = textwrap.wrap(line, _COLUMNS, replace_whitespace=False, drop_whitespace=False) or [""]
        rows += [_Row(part, ink, mono=is_code or part.startswith("|")) for part in parts]
    return rows


def _folded(rows: list[_Row]) -> list[_Row]:
    left_out = len(rows) - _MOST_LINES
    return rows if left_out <= 0 else [*rows[:_MOST_LINES], _Row(f"... {left_out} more lines", "#6e7781")]


def draw(seen: Sequence[Entry]) -> list[Image.Image]:
    """The screen as pictures of about the same height, cut between entries."""
    frames: list[list[tuple[Entry, list[_Row]]]] = [[]]
    height = 0
    for entry in seen:
        rows = _rows(entry)
        tall = sum(row.height for row in rows) + 16
        if height and height + tall > FRAME_HEIGHT:
            frames.append([])
            height = 0
        frames[-1].append((entry, rows))
        height += tall
    return [_frame(frame) for frame in frames]


def _frame(frame: Sequence[tuple[Entry, list[_Row]]]) -> Image.Image:
    height = sum(sum(row.height for row in rows) + 16 for _, rows in frame) + _MARGIN
    picture = Image.new("RGB", (WIDTH, height), "white")
    canvas = ImageDraw.Draw(picture)
    fonts = {mono: _font(mono=mono) for mono in (False, True)}
    top = _MARGIN // 2
    for entry, rows in frame:
        tall = sum(row.height for row in rows) + 8
        if back := _BACKS.get(entry.kind):
            outline = "#d0d7de" if entry.kind == "card" else None
            canvas.rectangle((_MARGIN // 2, top, WIDTH - _MARGIN // 2, top + tall), fill=back, outline=outline)
        line = top + 4
        for row in rows:
            if row.image is not None:
                picture.paste(row.image, (_MARGIN, line))
            canvas.text((_MARGIN, line), row.text, fill=row.ink, font=fonts[row.mono])
            line += row.height
        top += tall + 8
    return picture


def save(seen: Sequence[Entry], folder: Path, name: str) -> list[Path]:
    """Write the pictures as `name-1.png`, `name-2.png`, ..., and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for number, picture in enumerate(draw(seen), start=1):
        paths.append(folder / f"{name}-{number}.png")
        picture.save(paths[-1])
    return paths
