"""Looking at handles, and views that are confined, in both kinds of environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.errors import EnvironmentUnavailableError
from engine.ports import Environment
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
