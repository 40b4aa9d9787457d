"""The pictures of the page of a session: a session with a scripted model, and `rewindow page` in a browser.

`shots` writes every view, dark and light, at two sizes, into a folder. `CHOSEN` are those that the documentation shows.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from PIL import Image

from docs.terminal.scenes import COMMAND
from tests.support.browser import Browser, browser

FILES: Final = {
    "orders.csv": "item,price\nlamp,40\nchair,85\ndesk,210\nshelf,65\n",
    "notes.md": "# Orders\n\nThe report adds up orders.csv, with tax.\nThe rate is 19 %.\n",
}
LOOK: Final = 'orders = view("orders.csv", tokens=200)\nnotes = view("notes.md", tokens=200).Run(freq="Sync")'
PRICES: Final = 'prices = [int(row.split(",")[1]) for row in read("orders.csv").split()[1:]]\nrate = 0.19'
TOTAL: Final = 'total = sum(prices) * (1 + rate)\nprint(f"{len(prices)} orders")\ntotal'
REPORT: Final = 'write("report.md", f"# Report\\n\\nTotal with tax: {total:.2f}\\n")'
CHECK: Final = 'assert "490" in read("report.md"), "the report has another total"'
SECOND: Final = 'code = group("*.md", tokens=300)\nbash("wc -l *.md")'


@dataclass(frozen=True)
class Run:
    """One prompt, and the replies of the model to it."""

    prompt: str
    replies: Sequence[Mapping[str, Any]] = ()


STORY: Final = (
    Run(
        "Add up the orders, with tax, in report.md.",
        (
            {"text": "I look at the orders and the notes first.", "statement": LOOK},
            {"text": "The prices are in the second column.", "statement": PRICES},
            {"statement": TOTAL},
            {"text": "The total is right, so I write the report.", "statement": REPORT},
            {"text": "The total with tax is **476.00**. It is in `report.md`."},
        ),
    ),
    Run(
        "Tidy up, please.",
        (
            {"text": "The report has everything, so the orders can go.", "statement": 'bash("rm orders.csv")'},
            {"text": "I removed `orders.csv`."},
        ),
    ),
    Run("/rewind 4"),
    Run("/edit 2 --live\n" + PRICES.replace("0.19", "0.07")),
    Run(
        "Check the report.",
        (
            {"text": "I compare it with the notes.", "statement": CHECK},
            {"text": "The total changed with the rate. I look at both files.", "statement": SECOND},
            {"text": "With the rate of 7 %, the total is **428.00**."},
        ),
    ),
)
VIEWS: Final = ("Timeline", "Files", "Context", "Views", "Requests", "Compare")
CHOSEN_ROWS: Final = {
    "Timeline": "#timeline-list .row-statement:has-text('total = sum') >> nth=1",
    "Files": "#files-list .row:has-text('report.md')",
    "Context": "#calls-list .row >> nth=7",
    "Views": "#views-list .row >> nth=1",
    "Requests": "#requests-list .row",
}
"""The row whose details a second shot of a view shows."""
SIZES: Final = ((1440, 900), (400, 800))
CHOSEN: Final = {
    "page.png": "timeline-chosen-1440-light",
    "page-context.png": "context-chosen-1440-dark",
    "page-compare.png": "compare-1440-light",
}
"""The pictures of the documentation, and the shots that they are."""
_SECONDS: Final = 60
_COLOURS: Final = 128


class Story:
    """A home directory with the session in it."""

    def __init__(self, home: Path, code: Path) -> None:
        self._project = home / "orders"
        self._project.mkdir()
        self._script = home / "replies.jsonl"
        self._variables = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "PYTHONPATH": str(code),
            "REWINDOW_STATE_DIR": str(home / "state"),
            "LANG": "C.UTF-8",
        }
        for name, text in FILES.items():
            (self._project / name).write_text(text, encoding="utf-8")

    def play(self) -> None:
        """Run the session. Raises CalledProcessError if a run fails."""
        for number, run in enumerate(STORY):
            self._script.write_text("\n".join(map(json.dumps, run.replies)), encoding="utf-8")
            arguments = ["run", "--mode", "auto", "--model", "scripted:../replies.jsonl", *["-c"] * bool(number)]
            self._process([*arguments, "-p", run.prompt])

    def _process(self, arguments: Sequence[str]) -> None:
        subprocess.run(
            [sys.executable, "-c", COMMAND, *arguments],
            check=True,
            cwd=self._project,
            env=self._variables,
            stdout=subprocess.DEVNULL,
            timeout=_SECONDS,
        )

    @contextmanager
    def served(self) -> Iterator[str]:
        """Serve the page; its address."""
        with subprocess.Popen(
            [sys.executable, "-c", COMMAND, "page", "--no-browser", "ses_"],
            cwd=self._project,
            env=self._variables,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stderr is not None
                found = re.search(r"http://\S+", process.stderr.readline())
                assert found is not None
                yield found[0]
            finally:
                process.terminate()
                process.wait(_SECONDS)


def shots(into: Path, code: Path) -> None:
    """Play the session with the code in `code`, and write all shots into a folder."""
    into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rw") as home, browser() as tab:
        story = Story(Path(home), code)
        story.play()
        for width, height in SIZES:
            for theme in ("light", "dark"):
                with story.served() as address:
                    tab.command("open", url=address, width=width, height=height, dark=theme == "dark")
                    for number, view in enumerate(VIEWS, 1):
                        _show(tab, number, view)
                        tab.command("shot", path=str(into / f"{view.lower()}-{width}-{theme}.png"))
                        if view in CHOSEN_ROWS:
                            tab.command("click", target=CHOSEN_ROWS[view])
                            _settle(tab, "#detail h2")
                            tab.command("shot", path=str(into / f"{view.lower()}-chosen-{width}-{theme}.png"))
                            tab.command("press", key="Escape")


def _show(tab: Browser, number: int, view: str) -> None:
    tab.command("wait", target="#timeline-list .row" if number == 1 else ".tabs")
    tab.command("press", key=str(number))
    _settle(tab, f".tabs a[aria-current]:has-text('{view}')")


def _settle(tab: Browser, target: str) -> None:
    """Wait for an element, and until the page has drawn it."""
    tab.command("wait", target=target)
    tab.command("evaluate", expression="new Promise((drawn) => setTimeout(drawn, 300))")


def shrink(shot: Path, into: Path) -> None:
    """Write a shot as a PNG with few colours."""
    with Image.open(shot) as picture:
        picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(into, optimize=True)
