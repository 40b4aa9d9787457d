"""The scenes of the pictures: what a model replies, what a person types, and what is waited for.

Data alone. A step is `("type", keys)` or `("until", a regular expression that the screen matches)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

COMMAND: Final = "from rewindow_startup import rewindow; rewindow()"
ENTER: Final = "\r"
SCRIPTED: Final = ("--model", "scripted:SCRIPT")
PROMPT: Final = r"\n>"
ASKED: Final = r"cancel the turn|\? explains"

Step = tuple[str, str]


@dataclass(frozen=True)
class Scene:
    """One picture. `runs` are the arguments of each run in turn, `steps` what is done in each."""

    name: str
    title: str
    columns: int = 80
    theme: str = "dark"
    replies: Sequence[Mapping[str, Any]] = ()
    steps: Sequence[Sequence[Step]] = ()
    runs: Sequence[Sequence[str]] = (SCRIPTED,)
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    replaced: Sequence[tuple[bytes, bytes]] = ()
    lines: int = 30


REPLY: Final = """## What the parser does

`lines()` splits a text **once** and returns the lines without their ends. It has one defect, which the tests do not \
show: a file without a final newline loses its last line.

1. `split("\\n")` gives an empty last part.
2. The loop drops the *last* part, empty or not.

| input | lines | expected |
| --- | ---: | --- |
| `one\\ntwo\\n` | 2 | `["one", "two"]` |
| `one\\ntwo` | 1 | `["one", "two"]` |

```python
def lines(text: str) -> list[str]:
    \"\"\"Split `text` into lines.\"\"\"
    return text.splitlines()  # keeps the last one
```

> The change is small, but callers see it.
"""
NOTES: Final = "# Notes\n\n" + "".join(
    f"{number}. The parser reads a file line by line, and keeps what it cannot read.\n" for number in range(1, 61)
)
LONG: Final = (
    "pairs = sorted(((path, len(read(path).splitlines())) for path in find('*.md') if not path.startswith('build')), "
    "key=lambda pair: -pair[1])\npairs[:5]"
)
EDIT: Final = "edit('parser.py', 'text.split(END)[:-1]', 'text.splitlines()')"
PARSER: Final = 'END = "\\n"\n\n\ndef lines(text):\n    """The lines of a text."""\n    return text.split(END)[:-1]\n'
FILES: Final = {"notes.md": NOTES, "parser.py": PARSER}


def asking(*steps: Step, **fields: Any) -> Scene:
    """A scene that begins with a prompt to a scripted model."""
    return Scene(steps=((("until", PROMPT), ("type", "Look at the parser." + ENTER), *steps),), files=FILES, **fields)


SCENES: Final = (
    Scene(
        "01-start-no-model",
        "rewindow run",
        runs=((),),
        steps=((("until", "1>"), ("type", "20 + 22" + ENTER), ("until", "2>")),),
    ),
    Scene("02-start-model", "rewindow run --model ...", 120, "light", steps=((("until", PROMPT),),)),
    asking(("until", "callers see it[^>]*>"), name="03-reply", title="a reply", replies=[{"text": REPLY, "chunk": 7}]),
    asking(
        ("until", "callers see it[^>]*>"),
        name="04-reply-wide",
        title="a reply, 120 columns, light",
        columns=120,
        theme="light",
        replies=[{"text": REPLY, "chunk": 7}],
    ),
    asking(
        ("until now", "defect"),
        name="05-streaming",
        title="a reply while it comes",
        theme="light",
        replies=[{"text": REPLY[:230], "chunk": 60, "pause": 0.5}, {}],
    ),
    asking(
        ("until", "I have[^>]*>"),
        name="06-view",
        title="a view that a model opens",
        replies=[{"statement": "notes = view('notes.md', tokens=2000)"}, {"text": "I have read the notes."}],
    ),
    asking(
        ("until", "longest[^>]*>"),
        name="07-long-statement",
        title="a long statement",
        theme="light",
        replies=[{"text": "I count the lines.", "statement": LONG}, {"text": "`notes.md` is the longest."}],
    ),
    asking(
        ("until", "That[^>]*>"),
        name="08-long-value",
        title="a long value",
        columns=120,
        replies=[{"statement": "[i for i in range(3000)]"}, {"text": "That is enough."}],
    ),
    asking(
        ("until", ASKED),
        name="09-command",
        title="a command asks",
        replies=[{"text": "I run the tests.", "statement": "bash('python -m pytest -q')"}],
    ),
    asking(
        ("until", ASKED),
        ("type", "y"),
        ("until", "well[^>]*>"),
        name="10-command-ran",
        title="a command ran",
        columns=120,
        theme="light",
        replies=[{"text": "I look.", "statement": "bash('seq 1 30')"}, {"text": "All went well."}],
    ),
    asking(
        ("until", ASKED),
        name="11-change",
        title="a change asks",
        theme="light",
        replies=[{"text": "The last line was lost.", "statement": EDIT}],
    ),
    asking(
        ("until", ASKED),
        ("type", "nkeep the old name" + ENTER),
        ("until", "once[^>]*>"),
        name="12-refused",
        title="a change is refused, with a reason",
        columns=120,
        replies=[{"statement": EDIT}, {"text": "I see. I leave it at once."}],
    ),
    asking(
        ("until", ASKED),
        ("type", "x"),
        ("type", "?"),
        name="13-keys",
        title="an unknown key, and ?",
        replies=[{"statement": "bash('python -m pytest -q')"}],
    ),
    asking(
        ("until now", "sleep"),
        ("type", "\x03"),
        ("until", "cancelled"),
        name="14-cancelled",
        title="Ctrl-C",
        theme="light",
        replies=[{"text": "I wait.", "statement": "import time\ntime.sleep(60)"}],
    ),
    asking(
        ("until now", "waiting for"),
        name="15-waiting",
        title="waiting for the model",
        replies=[{"text": "late", "pause": 30}],
    ),
    asking(
        ("until now", "running statement"),
        name="16-running",
        title="a statement runs",
        columns=120,
        theme="light",
        replies=[{"text": "I wait.", "statement": "import time\ntime.sleep(60)"}],
    ),
    Scene(
        "17-retrying",
        "a server that does not answer",
        runs=(("--model", "provider:openai:gpt-5"),),
        variables={"OPENAI_API_KEY": "unused", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        steps=((("until", PROMPT), ("type", "Look." + ENTER), ("until now", r"attempt [23] of 5|rror")),),
    ),
    Scene(
        "18-no-server",
        "no answer in the end",
        120,
        "light",
        runs=(("--model", "provider:openai:gpt-5"),),
        variables={"OPENAI_API_KEY": "unused", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
        steps=((("until", PROMPT), ("type", "Look." + ENTER), ("until", r"rror[^>]*>")),),
    ),
    Scene(
        "19-continued",
        "a session goes on",
        120,
        runs=((), ("-c",)),
        steps=(
            (("until", "1>"), ("type", "x = 41" + ENTER), ("until", "2>"), ("type", "\x04")),
            (("until", "2>"), ("type", "x + 1" + ENTER), ("until", "3>")),
        ),
    ),
    Scene(
        "20-files",
        "@ and Tab; /sandbox",
        theme="light",
        files=FILES,
        steps=((("until", PROMPT), ("type", "/sandbox" + ENTER), ("until", r"\n>"), ("type", "read @\t")),),
    ),
)
"""In the order of the page."""
