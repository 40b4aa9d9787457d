"""What a rewind did to files, in words."""

from __future__ import annotations

import pytest

from engine.context.tail.feed import Feed
from engine.log.events.going_back import FileLeft, FileToRestore, Rewound
from engine.log.file_history import SHOWN_FILES, rewound_lines
from tests.support.timelines import timeline_of


def files(*paths: str) -> tuple[FileToRestore, ...]:
    return tuple(FileToRestore(path=path, present_digest="2", wanted_digest="1") for path in paths)


LEFT = FileLeft(path="/work/mine", reason="it has unsaved changes in the editor")
SAID: dict[str, tuple[Rewound, list[str]]] = {
    "nothing": (Rewound(statement=1), []),
    "one": (
        Rewound(statement=3, restored=files("/work/a")),
        ["Restored 1 file to what was there after statement 3: a."],
    ),
    "two": (
        Rewound(statement=0, restored=files("a", "b\n")),
        ["Restored 2 files to what was there at the beginning: a, b\\n."],
    ),
    "left": (Rewound(statement=3, left=(LEFT,)), ["mine is left as it is: it has unsaved changes in the editor."]),
    "given up": (
        Rewound(statement=3, cancelled=True),
        ["The rewind was given up, and the files are as they were before it."],
    ),
    "not all back": (
        Rewound(statement=3, restored=files("a"), cancelled=True),
        [
            "The rewind was given up, and the files are as they were before it."
            " 1 file could not be brought back to that: a."
        ],
    ),
}


@pytest.mark.parametrize("case", SAID)
def test_the_report_says_which_files_went_back_and_which_did_not(case: str) -> None:
    event, lines = SAID[case]
    assert list(rewound_lines(event, lambda path: path.removeprefix("/work/"))) == lines


def test_of_many_files_the_first_are_named() -> None:
    many = Rewound(statement=1, restored=files(*map(str, range(30))), left=(LEFT,) * 30)
    first, *left = rewound_lines(many, str)
    assert first.count(",") == SHOWN_FILES
    assert first.endswith(", 19, ….")
    assert len(left) == SHOWN_FILES + 1
    assert left[-1] == "... 10 more files that are left as they are"


def test_a_model_is_told_in_the_feed() -> None:
    feed = Feed(timeline_of())
    feed.apply(Rewound(statement=3, restored=files("/work/a"), left=(LEFT,)))
    assert [item.text for item in feed.news.items] == [
        "Restored 1 file to what was there after statement 3: /work/a.",
        "/work/mine is left as it is: it has unsaved changes in the editor.",
    ]
