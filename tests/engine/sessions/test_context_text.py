"""What `/context` and `/views` say: where the tokens go, what each part is, what makes it less."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.events.conversation import AgentText
from engine.ports import HandleRow, ModelSignal, Prompt, StatementAsked, TextDelta, TokensUsed
from engine.projection.account import MESSAGES
from engine.projection.sections import SECTIONS
from engine.sessions.context_text import PARTS, Breakdown, NodeCost, breakdown_text, views_text
from engine.sessions.session import Session
from tests.support.models import AnsweringModel
from tests.support.sessions import sessions_of

TEXT = """\
1,000 of 8,000 tokens (12 %). The first 900 of them (90 %) are the same as in the call before, so a provider can take \
them from its cache. The provider counted 1,100 tokens, 950 of them from its cache, and 30 of the reply.

```text
part           tokens                what it is         what makes it less
instructions      800  ██████████    how to work here   nothing
results           190  ██            what that printed  /compact
feed               10  ▏             what changed       nothing: told once
```

Of these, by handle:

```text
readme            150  ██            README.md, budget All
```
"""


def test_a_breakdown_shows_a_bar_for_each_part_and_what_makes_it_less() -> None:
    parts = Breakdown(
        sections={"instructions": 800, "results": 190, "feed": 10},
        size=8_000,
        shared=900,
        nodes=[NodeCost("readme", "README.md", 150, "All")],
        counted=(1_100, 950, 30),
    )
    assert breakdown_text(parts).startswith(TEXT)
    assert "/compact" in breakdown_text(parts).splitlines()[-1]


def test_the_table_of_parts_fits_a_terminal_of_80_columns() -> None:
    text = breakdown_text(Breakdown(sections=dict.fromkeys(PARTS, 1_234_567), size=10**8))
    assert max(len(line) for line in text.splitlines()[1:]) <= 80


def test_nothing_is_said_that_is_not_known() -> None:
    said = breakdown_text(Breakdown(sections={"instructions": 8}, size=100))
    assert said.startswith("8 of 100 tokens (8 %).\n")
    assert "provider" not in said
    assert "handle" not in said


def test_every_section_is_explained() -> None:
    sections = ("instructions", *MESSAGES, *(section.name for section in SECTIONS))
    assert set(sections) == set(PARTS)


def handle(name: str, tokens: int = 90, **fields: object) -> HandleRow:
    values: dict[str, object] = {
        "name": name, "obj_id": name, "obj_type": "view", "mode": "paused", "freq": "", "lod": 0, "tokens": tokens,
        "used_tokens": 90, "changed": False, "title": f"{name}.py", **fields,
    }  # fmt: skip
    return HandleRow(**values)  # pyright: ignore[reportArgumentType] - by name


def test_a_group_has_what_is_in_it_below_it_and_a_budget_of_all_is_no_zero() -> None:
    rows = [
        handle("a", 0),
        handle("b", mode="running", freq="Sync"),
        handle("inner", children=("b",), title="b"),
        handle("outer", children=("inner", "a"), title="inner | a", pinned=True),
        handle("alone"),
    ]
    assert views_text(rows).splitlines()[2:] == [
        "| `outer` | inner \\| a | paused, pinned | 0 | 90 of 90 |",
        "| └ `inner` | b | paused | 0 | 90 of 90 |",
        "| &nbsp;&nbsp;└ `b` | b.py | running Sync | 0 | 90 of 90 |",
        "| └ `a` | a.py | paused | 0 | 90 of All |",
        "| `alone` | alone.py | paused | 0 | 90 of 90 |",
    ]


async def said(session: Session, command: str) -> str:
    await session.accept(command).end()
    return [event for event in session.events if isinstance(event, AgentText)][-1].text


@pytest.mark.anyio
async def test_the_context_of_now_and_of_a_round_are_told_by_the_session(tmp_path: Path) -> None:
    sources = ["readme = view(text='hello there', title='greeting', tokens=All)"]

    def answer(_: Prompt) -> Sequence[ModelSignal]:
        asked = [StatementAsked(sources.pop(0), typed=True)] if sources else [TextDelta("Done.")]
        return [*asked, TokensUsed(2_000, 10, 1_500)]

    async with sessions_of(tmp_path, model=AnsweringModel(answer)) as sessions:
        session = await sessions.create(str(tmp_path))
        assert "No model has been called yet." in await said(session, "/context")
        await session.accept("look").end()
        now = await said(session, "/context")
        last = max(event.round_id for event in session.events if event.kind == "projection_sent")
        past = await said(session, f"/context {last}")
        nowhere = await said(session, "/context 77")
        views = await said(session, "/views")
    assert now.startswith("What a model would be sent now: ")
    assert "greeting, budget All" in now
    assert "readme: view greeting, paused" in now
    assert f"`/context {last}` shows the last call" in now
    assert past.startswith(f"What a model was sent in Round {last}: ")
    assert "The provider counted 2,000 tokens, 1,500 of them from its cache, and 10 of the reply." in past
    assert f"`rewindow show {session.session_id} --projection {last}`" in past
    assert nowhere == f"No model was called in Round 77; the calls are of Rounds {last - 1} to {last}."
    assert "of All |" in views
