"""The summary of a group: never above its budget, each member once and in its place, the salient ones with more."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.nodes.group_parts import Part, Salience
from engine.nodes.group_summary import summarize
from engine.nodes.lod import LEVELS
from engine.nodes.lod.scene import Scene
from engine.nodes.position import Place
from engine.nodes.rendered import RenderedView
from engine.nodes.revision import decoded
from engine.tokens import count

_LINES = st.lists(
    st.text("ab \tÄ漢😀\x00\u200d]'\n\r/", max_size=60) | st.sampled_from(("x" * 9_000, "\udc80", "    def f():", "")),
    max_size=30,
)


_PLAIN = Salience()


def _part(key: str, text: str, *, lod: int = 0, own: int = 2_000, salience: Salience = _PLAIN) -> Part:
    revision = decoded(text.encode("utf-8", "surrogatepass"))
    scene = Scene(revision=revision, place=Place(0, 0), budget=own, count=count, title=key)
    return Part(
        key=key,
        name=key,
        title=f"{key}.py",
        lod=lod,
        need=min(own, revision.size + 4 * len(revision.lines) + 8),
        render=lambda level, budget: LEVELS[level](replace(scene, budget=min(budget, own))),
        salience=salience,
    )


def _group(key: str, parts: list[Part]) -> Part:
    return Part(key=key, name=key, title=f"group {key}", lod=0, need=4_000, render=None, parts=tuple(parts))


_SALIENCES = st.builds(Salience, st.booleans(), st.booleans(), st.integers(0, 5))
_LEAVES = st.builds(
    lambda key, lines, lod, own, salience: _part(key, "\n".join(lines), lod=lod, own=own, salience=salience),
    st.sampled_from([f"n{number}" for number in range(8)]),
    _LINES,
    st.sampled_from(sorted(LEVELS)),
    st.integers(1, 3_000),
    _SALIENCES,
)
_TREES = st.lists(
    st.recursive(
        _LEAVES,
        lambda inner: st.builds(_group, st.sampled_from(["g0", "g1", "g2", "g3"]), st.lists(inner, max_size=4)),
        max_leaves=8,
    ),
    max_size=6,
)


@settings(max_examples=60)
@given(_TREES, st.integers(1, 40) | st.integers(1, 100_000), st.sampled_from(sorted(LEVELS)))
def test_no_summary_is_above_its_budget_and_its_tokens_are_exact(parts: list[Part], budget: int, lod: int) -> None:
    summary = summarize(parts, budget, lod, tuple(LEVELS), count)
    assert summary.tokens == count(summary.text) <= budget
    assert not summary.text or summary.text.endswith("\n")
    assert summarize(parts, budget, lod, tuple(LEVELS), count).text == summary.text


def _headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("# ")]


def test_members_stand_in_their_order_whatever_is_salient() -> None:
    parts = [_part(key, "some text\n" * 50) for key in "abc"]
    parts[2] = replace(parts[2], salience=Salience(pinned=True))
    text = summarize(parts, 200, 0, tuple(LEVELS), count).text
    assert _headings(text) == ["# a: a.py", "# b: b.py", "# c: c.py"]


def test_a_salient_member_gets_more_and_what_it_leaves_goes_to_the_others() -> None:
    parts = [_part(key, "".join(f"{key} {number} words\n" for number in range(100))) for key in "ab"]
    parts[0] = replace(parts[0], salience=Salience(pinned=True))
    summary = summarize(parts, 400, 0, tuple(LEVELS), count)
    assert summary.text.count("\ta ") > 2 * summary.text.count("\tb ") > 0
    small = replace(_part("a", "one line\n"), salience=Salience(pinned=True))
    rest = summarize([small, parts[1]], 400, 0, tuple(LEVELS), count)
    assert rest.tokens > 400 - 12
    assert "1\tone line\n" in rest.text


def test_where_not_all_members_have_room_the_salient_ones_are_named_and_the_others_counted() -> None:
    parts = [_part(f"member{number}", "text\n") for number in range(40)]
    parts[30] = replace(parts[30], salience=Salience(changed=True))
    text = summarize(parts, 60, 0, tuple(LEVELS), count).text
    assert "# member30" in text
    assert text.endswith(f"... {40 - len(_headings(text))} members more\n")


def test_a_level_below_a_members_own_does_not_make_it_finer() -> None:
    (level,) = {level for level in LEVELS if level == 3}
    text = summarize([_part("a", "secret text\n", lod=level)], 500, 0, tuple(LEVELS), count).text
    assert "secret text" not in text


def test_what_all_fits_is_whole() -> None:
    parts = [_part(key, f"{key}\n") for key in "ab"]
    summary = summarize(parts, 500, 0, tuple(LEVELS), count)
    assert summary.whole
    assert summary.text == "# a: a.py\n1\ta\n# b: b.py\n1\tb\n"
    assert not summarize(parts, summary.tokens - 1, 0, tuple(LEVELS), count).whole


def test_a_text_of_more_tokens_than_its_renderer_said_costs_bodies_and_never_the_budget() -> None:
    def render(_level: int, _budget: int) -> RenderedView:
        return RenderedView(text="/" + " word" * 9 + "\n", tokens=1)

    parts = [replace(_part(key, ""), render=render, need=50) for key in "abcdef"]
    for budget in range(1, 80):
        summary = summarize(parts, budget, 0, tuple(LEVELS), count)
        assert summary.tokens == count(summary.text) <= budget


def test_where_not_all_members_have_room_those_that_have_stand_in_their_order() -> None:
    parts = [_part(f"member{number}", "text\n") for number in range(40)]
    for number, touched in ((5, 1), (20, 3), (35, 2)):
        parts[number] = replace(parts[number], salience=Salience(touched=touched))
    text = summarize(parts, 45, 0, tuple(LEVELS), count).text
    kept = [int(line.removeprefix("# member").partition(":")[0]) for line in _headings(text)]
    assert 20 in kept
    assert kept == sorted(kept)
    assert len(kept) > 1
