"""Pictures in terminals that draw them: which do, and what they get."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Final

import pytest

from engine.cli.terminal.drawn_pictures import MOST_BYTES, Protocol, drawing, protocol_of
from engine.core.pictures import JPEG, PNG, Picture, PictureContent, StoredKind

KITTY: Final = re.compile(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\")
ITERM: Final = re.compile(r"\x1b\]1337;File=([^:]*):([^\a]*)\a\n")


def picture(width: int = 80, height: int = 60, media_type: StoredKind = PNG) -> Picture:
    return Picture(name="plot", media_type=media_type, width=width, height=height)


@pytest.mark.parametrize(
    ("environ", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm", "NO_COLOR": "1"}, "iterm"),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, None),
        ({"TERM": "dumb"}, None),
        ({}, None),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "screen", "TERM_PROGRAM": "iTerm.app"}, None),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux-1000/default,1,0"}, None),
    ],
)
def test_a_terminal_says_that_it_draws(environ: Mapping[str, str], protocol: Protocol | None) -> None:
    assert protocol_of(environ) == protocol


@pytest.mark.parametrize("size", [1, 3_000, 50_000])
def test_kitty_gets_the_content_in_pieces_and_does_not_answer(size: int) -> None:
    content = PictureContent(bytes(range(256)) * (size // 256) + b"x")
    sequence = drawing("kitty", picture(), content, 80, 40)
    pieces = KITTY.findall(sequence)
    assert KITTY.sub("", sequence) == "\n"
    assert b64decode("".join(data for _, data in pieces)) == content
    assert all(len(data) <= 4096 for _, data in pieces)
    heads = [dict(each.split("=") for each in head.split(",")) for head, _ in pieces]
    assert heads[0] | {"m": ""} == {"a": "T", "f": "100", "q": "2", "c": "8", "m": ""}
    assert [head["m"] for head in heads] == ["1"] * (len(heads) - 1) + ["0"]
    assert {head["q"] for head in heads} == {"2"}


def test_iterm_gets_the_content_in_one_piece() -> None:
    content = PictureContent(b"\xff\xd8\xff" * 5_000)
    sequence = drawing("iterm", picture(media_type=JPEG), content, 80, 40)
    ((options, data),) = ITERM.findall(sequence)
    assert ITERM.sub("", sequence) == ""
    assert b64decode(data) == content
    assert options == f"inline=1;size={len(content)};width=8;preserveAspectRatio=1"


@pytest.mark.parametrize(
    ("width", "height", "columns", "lines", "cells"),
    [(80, 60, 80, 40, 8), (1, 1, 80, 40, 1), (1500, 100, 60, 40, 59), (1500, 100, 300, 40, 80), (100, 1500, 80, 32, 4)],
)
def test_a_picture_is_no_larger_than_the_screen(width: int, height: int, columns: int, lines: int, cells: int) -> None:
    sequence = drawing("iterm", picture(width, height), PictureContent(b"x"), columns, lines)
    assert f"width={cells};" in sequence


def test_what_cannot_be_drawn_is_left_out() -> None:
    content = PictureContent(b"x")
    assert drawing("kitty", picture(media_type=JPEG), content, 80, 40) == ""
    assert drawing("iterm", picture(), None, 80, 40) == ""
    assert drawing("iterm", picture(0, 0), content, 80, 40) == ""
    assert drawing("iterm", picture(), PictureContent(b"x" * (MOST_BYTES + 1)), 80, 40) == ""
