"""Looking at handles, and views that are confined, in both kinds of environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.core.errors import EnvironmentUnavailableError
from engine.log.events.nodes import TickApplied
from engine.runtime.environment import Environment
from tests.support.environments import Bench, spec_for

pytestmark = pytest.mark.anyio


async def test_a_look_renders_what_is_named_within_a_budget(b: Bench[Environment], tmp_path: Path) -> None:
    assert (await b.environment.look(["a"])).rows == ()
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(400)))
    outcome = await b.run("a = view('a.txt', tokens=All); also = a; b = view(text='two'); n = 5")
    looked = await b.environment.look(["a", "n", "also"], 40)
    assert [row.name for row in looked.rows] == ["a", "b"]
    assert list(looked.shown) == ["a"]
    assert 20 < looked.shown["a"].tokens <= 40
    assert looked.shown["a"].budget == 40
    whole = (await b.environment.look(["a"])).shown["a"]
    assert whole == outcome.displays[0]
    assert (whole.first_line, whole.last_line, whole.lines) == (1, 400, 400)


async def test_what_a_tick_would_find_is_said_and_nothing_changes(b: Bench[Environment], tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\n")
    await b.run("a = view('a.txt', freq='Sync')\nparked = view('a.txt')")
    assert list(await b.environment.foresee(5, 100.0)) == []
    file.write_text("one\ntwo\n")
    before = (await b.environment.look(["a"])).shown
    found = [await b.environment.foresee(5, 100.0) for _ in range(2)]
    line = "1 line changed in a.txt (+1 -0), first at line 2"
    assert [[item.text for item in items] for items in found] == [[line], [line]]
    assert (await b.environment.look(["a"])).shown == before
    ticked = (await b.environment.tick(5, 100.0)).events
    assert [event.delta for event in ticked if isinstance(event, TickApplied)] == [line]
    assert list(await b.environment.foresee(6, 100.0)) == []


async def test_a_confined_environment_shows_nothing_from_outside(
    make: Callable[[], Environment], tmp_path: Path
) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("SECRET")
    (inside / "link").symlink_to(tmp_path / "secret.txt")
    environment = make()
    try:
        with pytest.raises(EnvironmentUnavailableError):
            await environment.look()
        await environment.start(replace(spec_for(inside), confined=True))
        shown = await Bench(environment, inside).run("view('link'); view('../secret.txt'); view('/proc/self/environ')")
        assert [("outside the workspace" in each.text, "SECRET" in each.text) for each in shown.displays] == [
            (True, False),
        ] * 3
    finally:
        await environment.close()
