"""A whole task by one editor over the real agent, and its frames: `python -m tests.support.whole_task FOLDER`.

The model is a script. The user mentions a file, pastes a picture, allows and rejects, chooses, cancels, and comes back
in a new process.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.support.agents import Agent
from tests.support.pictures import image_block, png
from tests.support.scripts import load, reason, scripted
from tests.support.seen import Entry, Message, entries
from tests.support.tour_clients import CAPABILITIES
from tests.support.transcript_image import save
from tests.support.transcripts import asks_permission, selected

ELICIT: Final = "elicitation/create"
PLAIN: Final[Message] = {"elicitation": {"form": {}}, "session": {"notices": {}}}
"""An editor without terminals, with forms and notices."""
EDITORS: Final[dict[str, Message]] = {"zed": CAPABILITIES, "plain": PLAIN}
REJECTED_FILE: Final = "LICENSE"
CHOICE: Final = "Fahrenheit"

FILES: Final = {
    "units.py": '"""Temperatures."""\n\n\ndef celsius(fahrenheit: float) -> float:\n    return fahrenheit - 32\n',
    "report.py": 'from units import celsius\n\nUNIT = "F"\n\n\ndef line(value: float) -> str:\n'
    '    return f"{value} {UNIT}"\n',
    "README.md": "# Weather\n\nReports are in degrees.\n",
    "test_units.py": "import unittest\n\nfrom units import celsius\n\n\nclass Units(unittest.TestCase):\n"
    "    def test_freezing(self) -> None:\n        self.assertEqual(celsius(212), 100)\n",
    "old_notes.txt": "Numbers look wrong since May.\n",
    "draft.md": "# Draft\n\nNothing here so far.\n",
}
_FIRST_PLAN = (
    'plan([{"content": "Find the wrong conversion", "status": "in_progress"},'
    ' {"content": "Fix it and its texts"}, {"content": "Run the tests"}])'
)
_LAST_PLAN = _FIRST_PLAN.replace('"in_progress"', '"completed"').replace(
    '"Fix it and its texts"}', '"Fix it and its texts", "status": "completed"}'
)
_EDITS = (
    'edit("units.py", "fahrenheit - 32", "(fahrenheit - 32) / 1.8")\n'
    'edit("report.py", \'UNIT = "F"\', \'UNIT = "C"\')\n'
    'edit("README.md", "Reports are in degrees.", "Reports are in degrees Celsius, from readings in Fahrenheit.")'
)
_FIGURE = """# Plot the temperatures.
import temperatures
temperatures.Figure()"""
_MODULE = """from base64 import b64decode
class Figure:
    def __repr__(self):
        return "<Figure of all the temperatures>"
    def _repr_png_(self):
        return b64decode({picture!r})
"""
REPLIES: Final[tuple[Message, ...]] = (
    {
        "reasoning": "The picture shows Fahrenheit where the report says Celsius.",
        "text": "I'll find the conversion first.",
        "statement": _FIRST_PLAN,
    },
    {"statement": 'print(read("units.py"))'},
    {"statement": 'grep("celsius")'},
    {"text": "`celsius` subtracts 32 and never divides. I'll fix it, and the two texts that name a unit.",
     "statement": _EDITS},
    {"statement": 'tests = bash("python3 -m unittest -q")'},
    {"text": "The old notes are obsolete now, and the draft is the place for new ones.",
     "statement": 'import os\nos.remove("old_notes.txt")\nos.rename("draft.md", "notes.md")'},
    {"statement": f'write("{REJECTED_FILE}", "All rights reserved by nobody.\\n")'},
    {"statement": f'unit = ask("Which unit should reports have by default?", ["Celsius", "{CHOICE}"])'},
    {"statement": _FIGURE},
    {"statement": _LAST_PLAN, "text": "Fixed."},
    {"text": "The conversion is right, and its test passes. I left the license alone, as you wanted."},
    {"text": "I'll run the slow check.", "statement": 'bash("echo $((40 + 2)) readings of the archive; sleep 60")'},
    {"text": "You are welcome, whenever you need more."},
)  # fmt: skip


@dataclass
class Played:
    """What was seen live, by a load, and after it, and the questions that were asked."""

    live: list[Entry]
    loaded: list[Entry]
    asked: list[Message]
    later: list[Entry]


class _Editor(Agent):
    """Keeps the messages of both sides in their order."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.both: list[Message] = []
        super().__init__(*arguments, permission=None, **options)

    def __enter__(self) -> Self:
        return self

    def line(self, method: str, params: Any, request_id: int | str | None = None) -> bytes:
        self.both.append({"method": method, "params": params, "id": request_id})
        return super().line(method, params, request_id)

    def take(self, line: bytes) -> Message:
        message = super().take(line)
        self.both.append(message)
        return message

    def next(self, seconds: float = 20.0) -> Message | None:
        message = super().next(seconds)
        if message is not None and asks_permission(message):
            self.answer(message, selected(_chosen(message)))
        elif message is not None and message.get("method") == ELICIT:
            self.answer(message, {"action": "accept", "content": {"answer": CHOICE}})
        return message


def _chosen(question: Message) -> str:
    """The option that this user takes."""
    options = question["params"]["options"]
    if named := [option["optionId"] for option in options if option["name"] == CHOICE]:
        return named[0]
    return "reject_once" if REJECTED_FILE in str(question["params"]["toolCall"]["title"]) else "allow_once"


def take_whole_task(folder: Path, capabilities: Message) -> Played:
    """Do the task in an empty folder."""
    project = folder / "weather"
    project.mkdir(parents=True)
    for name, text in FILES.items():
        (project / name).write_text(text)
    picture = image_block(png(320, 120, (30, 120, 200)))["data"]
    (project / "temperatures.py").write_text(_MODULE.format(picture=picture))
    model = scripted(folder, *REPLIES)
    with _Editor(folder / "state", "--model", model) as editor:
        editor.initialize(**capabilities)
        session = editor.new_session(project)
        link = {"type": "resource_link", "uri": (project / "report.py").as_uri(), "name": "report.py"}
        task = [{"type": "text", "text": "Readings are in Fahrenheit, but "}, link,
                {"type": "text", "text": " prints this:"}, image_block(png(200, 80, (200, 60, 30)))]  # fmt: skip
        editor.call("session/prompt", {"sessionId": session, "prompt": task})
        running = editor.begin_prompt(session, "Run the slow check, please")
        editor.until(lambda message: "42 readings" in str(message.get("params")))
        editor.notify("session/cancel", {"sessionId": session})
        assert reason(editor.response(running)) == "cancelled"
        live = entries(editor.both)
        asked = [message for message in editor.received if asks_permission(message)]
    model = scripted(folder, *REPLIES[-1:])
    with _Editor(folder / "state", "--model", model) as editor:
        editor.initialize(**capabilities)
        load(editor, session, project)
        loaded = entries(editor.both)
        count = len(editor.both)
        editor.prompt(session, "Thanks a lot, that is all")
        later = entries(editor.both[count:])
    return Played(live, loaded, asked, later)


def main() -> None:
    """Draw live and loaded session of each editor."""
    folder = Path(sys.argv[1])
    for name, capabilities in EDITORS.items():
        with tempfile.TemporaryDirectory() as place:
            played = take_whole_task(Path(place), capabilities)
        for what, seen in (("live", [*played.live, *played.later]), ("loaded", played.loaded)):
            print(*save(seen, folder, f"{name}-{what}"), sep="\n")


if __name__ == "__main__":
    main()
