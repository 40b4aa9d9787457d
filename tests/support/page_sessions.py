"""Sessions for tests of the page and of its JSON: real ones of a scripted model, and one whose every text is hostile.

`python -m tests.support.page_sessions` records them in `tests/data/page/`, for tests of the front end.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, cast, get_args, get_origin

import anyio
import msgspec

from engine import PermissionAnswer, PermissionQuestion, Session
from engine.context.model import ModelSignal, Prompt, StatementAsked, TextDelta
from engine.core.clock import SystemClock
from engine.core.ids import BlobDigest, SessionId
from engine.core.text import Named
from engine.log.events import Event
from engine.log.redaction import NO_SECRETS
from engine.log.store.memory import MemoryStore
from engine.session.session_json import session_json
from tests.support.models import AnsweringModel
from tests.support.rich_log import events_of, rich_items
from tests.support.sessions import session_in

DATA: Final = Path(__file__).parents[1] / "data" / "page"

HOSTILE: Final = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<!--<script>",
    "javascript:alert(1)",
    "{{constructor.constructor('alert(1)')()}}",
    "\x1b]0;title\x07\x1b[2J\u202eevil\u2066",
    "&lt;b&gt;&#x3c;script&#x3e;",
    "`${alert(1)}`",
)
"""Texts that would run, move or hide something where they are not escaped."""


class Always:
    """Allows everything."""

    async def ask(self, question: PermissionQuestion) -> PermissionAnswer:
        del question
        return PermissionAnswer(outcome="allowed")


def _steps(*steps: tuple[str, str]) -> Callable[[Prompt], Sequence[ModelSignal]]:
    left = list(steps)

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        words, source = left.pop(0)
        signals: list[ModelSignal] = [TextDelta(words)]
        return [*signals, StatementAsked(source)] if source else signals

    return answer


async def small(session: Session) -> None:
    """A model works on two files with tools, fails once, and says that it is done."""
    await session.accept("Add a function that doubles a number, with a test.").end()
    await session.accept("Thanks. Which files are there?").end()


SMALL: Final = (
    ("I look at the project first.", "readme = view('README.md')\nshow(readme)\nprint(ls('.'))"),
    (
        "Now I write the function and its test.",
        "write('double.py', 'def double(n):\\n    return n + n\\n')\n"
        "write('test_double.py', 'from double import double\\n\\ndef test_double():\\n    assert double(2) == 5\\n')",
    ),
    ("I run the test.", "import subprocess, sys\nassert bash(f'{sys.executable} test_double.py').code == 0\n1 / 0"),
    (
        "The test was wrong, so I correct it.",
        "edit('test_double.py', '== 5', '== 4')\nedit('README.md', 'empty', 'small')",
    ),
    ("The function `double` is in `double.py`, and its test in `test_double.py`.", ""),
    ("", "names = ls('.')\nfor name in names: print(name)\nnames"),
    ("There are three files.", ""),
)


async def branched(session: Session) -> None:
    """Statements on several branches: a rewind with files, an edit that makes later ones differ, replays, a switch."""
    await session.cell("import random")
    await session.cell("write('data.txt', '3 1 2')")
    await session.cell("data = sorted(int(word) for word in open('data.txt').read().split())\nprint(data)")
    await session.cell("luck = random.random()\nluck")
    await session.cell("write('out.txt', f'{data} {luck}')")
    await session.rewind(3)
    await session.cell("data.append(9)\nwrite('data.txt', str(data))")
    await session.switch("main")
    await session.edit(2, "write('data.txt', '7 8')", mode="live")
    await session.switch("main")
    await session.replay(3, 5)
    await session.replay(1, 3, mode="dry")
    await session.cell("undefined")


def hostile_events() -> list[Event]:
    """A log of every kind of event, each text of which is hostile."""
    return [hostile(event, number) for number, event in enumerate(events_of(rich_items()))]


def hostile(event: Event, number: int = 0) -> Event:
    """Return the event with hostile texts in every field that is text."""
    return cast("Event", _hostile(event, type(event), number, is_stamp=True))


def _hostile(value: Any, kind: Any, number: int, *, is_stamp: bool = False) -> Any:
    if isinstance(value, msgspec.Struct):
        kept = Event.__struct_fields__ if is_stamp else ()
        fields = msgspec.structs.fields(type(value))
        changed = {
            field.name: _hostile(getattr(value, field.name), field.type, number)
            for field in fields
            if field.name not in kept
        }
        return msgspec.structs.replace(value, **changed)
    if isinstance(value, str):
        return HOSTILE[number % len(HOSTILE)] + value if _is_text(kind) else value
    inner = next((each for each in (kind, *get_args(kind)) if get_origin(each) in (tuple, dict)), None)
    arguments = get_args(inner) if inner is not None else (object,)
    if isinstance(value, tuple):
        return tuple(_hostile(item, arguments[0], number) for item in cast("tuple[Any, ...]", value))
    if isinstance(value, dict):
        given = cast("dict[Any, Any]", value)
        return {
            _hostile(key, arguments[0], number): _hostile(item, arguments[-1], number) for key, item in given.items()
        }
    return value


def _is_text(kind: Any) -> bool:
    """Whether a field of this type is text or a name from outside, and not a word or an id of ours."""
    return str in (kind, *get_args(kind)) or kind is object if get_origin(kind) is not Annotated else kind == Named


def _no_content(digest: BlobDigest) -> bytes:
    raise KeyError(digest)


def hostile_json() -> bytes:
    """Return the JSON of the hostile session."""
    return session_json("ses_hostile", hostile_events(), _no_content, NO_SECRETS)


async def recorded(
    place: Path, act: Callable[[Session], Awaitable[None]], steps: Sequence[tuple[str, str]] = ()
) -> tuple[SessionId, MemoryStore]:
    """Run a session in `place`, and return its id and the store that has it."""
    (place / "README.md").write_text("# Doubling\n\nThis project is empty.\n")
    store = MemoryStore(SystemClock())
    model = AnsweringModel(_steps(*steps)) if steps else None
    async with session_in(place, store, model=model) as session:
        session.attach(Always())
        await act(session)
        session_id = session.session_id
    return session_id, store


def _record(name: str, act: Callable[[Session], Awaitable[None]], steps: Sequence[tuple[str, str]] = ()) -> None:
    with tempfile.TemporaryDirectory(prefix="project-") as place:
        session_id, store = anyio.run(functools.partial(recorded, Path(place), act, steps))
        data = session_json(session_id, store.load(session_id), store.blob_get, NO_SECRETS)
        text = data.decode().replace(place, "/home/me/project")
    _write(name, json.loads(text))


def _write(name: str, document: object) -> None:
    (DATA / name).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def main() -> None:
    _record("small.json", small, SMALL)
    _record("branched.json", branched)
    _write("hostile.json", json.loads(hostile_json()))


if __name__ == "__main__":
    main()
