"""A whole task as an editor shows it: one card for each act, no text twice, and the same again after a load."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.seen import Entry, lines, reduced, repeated_lines
from tests.support.transcript_image import draw
from tests.support.whole_task import EDITORS, FILES, take_whole_task

CARDS = [
    ("read", "Read units.py", "completed"),
    ("search", 'Search "celsius"', "completed"),
    ("edit", "Edit units.py (+1 -1)", "completed"),
    ("edit", "Edit report.py (+1 -1)", "completed"),
    ("edit", "Edit README.md (+1 -1)", "completed"),
    ("execute", "Run python3 -m unittest -q", "completed"),
    ("delete", "Remove old_notes.txt", "completed"),
    ("move", "Rename draft.md to notes.md", "completed"),
    ("edit", "Write LICENSE", "failed"),
    ("other", "Which unit should reports have by default?", "completed"),
    ("execute", "temperatures.Figure() … +2 lines", "completed"),
    ("execute", "Run echo $((40 + 2)) readings of the archive; sleep 60", "failed"),
]
"""The acts of the task: kind, title and status at the end."""
LONGEST_TITLE = 60


def cards(seen: list[Entry]) -> list[Entry]:
    return [entry for entry in seen if entry.kind == "card"]


@pytest.mark.parametrize("editor", EDITORS)
def test_whole_task(tmp_path: Path, editor: str) -> None:
    played = take_whole_task(tmp_path, EDITORS[editor])
    for seen in (played.live, played.loaded):
        shown = [(entry.card["kind"], entry.card["title"], entry.card["status"]) for entry in cards(seen)]
        assert shown == CARDS
        assert max(len(entry.card["title"]) for entry in cards(seen)) <= LONGEST_TITLE
        assert repeated_lines(seen, FILES.values()) == []
        assert [entry.blocks[0]["text"] for entry in seen if entry.kind == "plan"] == [
            "[completed] Find the wrong conversion\n[completed] Fix it and its texts\n[pending] Run the tests"
        ]
        *_, figure, stopped = cards(seen)
        assert [block["content"]["type"] for block in figure.card["content"]] == ["text", "image"]
        assert "42 readings of the archive" in lines(stopped)
    assert reduced(played.loaded) == reduced(played.live)
    # Each question is about a card, and none is a card of its own.
    shown_cards = {entry.card["toolCallId"]: entry.card for entry in cards(played.live)}
    asked = [message["params"]["toolCall"] for message in played.asked]
    assert {question["toolCallId"] for question in asked} <= shown_cards.keys()
    assert all(question["kind"] == shown_cards[question["toolCallId"]]["kind"] for question in asked)
    assert [entry.kind for entry in played.later] == ["prompt", "message", "stop"]  # a rebuild is no act
    assert played.later[1].blocks == [{"type": "text", "text": "You are welcome, whenever you need more."}]


def test_repeated_line_is_found() -> None:
    text = [{"type": "text", "text": "It is the same line\nand another"}]
    card = {"title": "Read a", "content": [{"type": "content", "content": text[0]}]}
    seen = [Entry("prompt", text), Entry("message", text)]
    assert repeated_lines(seen) == ["It is the same line"]
    assert repeated_lines([Entry("message", text), Entry("card", card=card)]) == ["It is the same line"]
    assert repeated_lines(seen[:1] * 2) == []


def test_drawing_is_split_into_frames() -> None:
    seen = [Entry("message", [{"type": "text", "text": "line\n" * 25}])] * 5
    assert [picture.height // 400 for picture in draw(seen)] == [2, 2, 1]
