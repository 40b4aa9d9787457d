"""Summaries of groups: within their budget, each member once and in order, salient ones with more."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.core.tokens import count
from engine.files.detail import LEVELS, ladder_at
from engine.files.detail.scene import Scene
from engine.files.document import Place
from engine.files.filling import Ladder
from engine.files.group_summary import Part, Salience, divide, summarize, weights
from engine.files.outline.model import Outline
from engine.files.rendered import RenderedView
from tests.support.revisions import decoded

_LINES = st.lists(
    st.text("ab \tÄ漢😀\x00\u200d]'\n\r/", max_size=60) | st.sampled_from(("x" * 9_000, "\udc80", "    def f():", "")),
    max_size=30,
)


_PLAIN = Salience()
NO_OUTLINE = Outline(tier="indentation")


def _part(key: str, text: str, *, lod: int = 0, own: int = 2_000, salience: Salience = _PLAIN) -> Part:
    revision = decoded(text.encode("utf-8", "surrogatepass"))
    scene = Scene(revision=revision, place=Place(0, 0), budget=own, count=count, title=key)
    return Part(
        key=key,
        name=key,
        title=f"{key}.py",
        lod=lod,
        need=min(own, revision.size + 4 * len(revision.lines) + 8),
        ladder=lambda level, limit, _: ladder_at(replace(scene, budget=min(limit, own)), level, lambda _: NO_OUTLINE),
        salience=salience,
    )


def _group(key: str, parts: list[Part]) -> Part:
    return Part(key=key, name=key, title=f"group {key}", lod=0, need=4_000, ladder=None, parts=tuple(parts))


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


@given(_TREES, st.integers(1, 40) | st.integers(1, 100_000), st.sampled_from(sorted(LEVELS)))
def test_a_summary_is_exact_and_within_its_budget(parts: list[Part], budget: int, lod: int) -> None:
    summary = summarize(parts, budget, lod, count)
    assert summary.tokens == count(summary.text) <= budget
    assert not summary.text or summary.text.endswith("\n")
    assert summarize(parts, budget, lod, count).text == summary.text


def _counted(parts: list[Part], renders: list[str]) -> list[Part]:
    """The same parts; each render of one that is no group adds its key to `renders`."""

    def counting(part: Part) -> Part:
        ladder = part.ladder
        if ladder is None:
            return replace(part, parts=tuple(_counted(list(part.parts), renders)))

        def counted(level: int, limit: int, sparing: bool) -> Ladder:
            made = ladder(level, limit, sparing)

            def show(index: int) -> RenderedView:
                renders.append(part.key)
                return made.show(index)

            return replace(made, show=show)

        return replace(part, ladder=counted)

    return [counting(part) for part in parts]


def _chain(depth: int, renders: list[str]) -> Part:
    """Groups within one another, each with a member of its own in front of the next group."""
    inner: tuple[Part, ...] = ()
    for level in range(depth, 0, -1):
        own = _counted([_part(f"n{level}", f"text of level {level}\n" * 9)], renders)
        inner = (_group(f"g{level}", [*own, *inner]),)
    return inner[0]


def test_a_whole_member_at_its_finest_level_is_rendered_once() -> None:
    renders: list[str] = []
    parts = _counted([_part("a", "one line\n"), _part("b", "text\n" * 400)], renders)
    summarize(parts, 9_000, 0, count)
    assert sorted(renders) == ["a", "b"]


def test_groups_nest_as_deep_as_anybody_likes() -> None:
    renders: list[str] = []
    tree = replace(_chain(2_000, renders), need=100_000)
    summary = summarize([tree], 100_000, 0, count)
    assert "text of level 20\n" in summary.text
    assert summary.tokens == count(summary.text) <= 100_000
    assert len(renders) <= 2_000 * len(LEVELS)


def _words(number: int) -> RenderedView:
    return RenderedView(text="x" + " word" * number + "\n", tokens=number + 2)


def test_left_over_tokens_reach_members_of_inner_groups() -> None:
    def ladder(_level: int, limit: int, _sparing: bool) -> Ladder:
        return Ladder(range(2, limit + 1), _words, more=True)

    wanting = replace(_part("a", ""), ladder=ladder, need=400)
    summary = summarize([_group("g", [_group("h", [wanting])])], 300, 0, count)
    assert summary.tokens > 280


def test_an_inner_group_takes_no_more_than_its_own_budget() -> None:
    inner = replace(_group("g", [_part("a", "some text\n" * 200)]), need=50)
    text = summarize([inner], 1_000, 0, count).text
    assert count(text.partition("\n")[2]) <= 50


def test_a_member_of_several_groups_is_nearest_to_the_top() -> None:
    shared = _part("a", "text\n")
    deep = _group("g1", [_group("g2", [shared])])
    text = summarize([deep, _group("g3", [shared])], 1_000, 0, count).text
    assert [line.split(":")[0] for line in _headings(text)] == ["# g1", "# g2", "# g3", "# a"]


def _headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("# ")]


def test_members_stand_in_their_order_whatever_is_salient() -> None:
    parts = [_part(key, "some text\n" * 50) for key in "abc"]
    parts[2] = replace(parts[2], salience=Salience(pinned=True))
    text = summarize(parts, 200, 0, count).text
    assert _headings(text) == ["# a: a.py", "# b: b.py", "# c: c.py"]


def test_a_salient_member_gets_more_and_leaves_its_rest() -> None:
    parts = [_part(key, "".join(f"{key} {number} words\n" for number in range(100))) for key in "ab"]
    parts[0] = replace(parts[0], salience=Salience(pinned=True))
    summary = summarize(parts, 400, 0, count)
    assert summary.text.count("\ta ") > 2 * summary.text.count("\tb ") > 0
    small = replace(_part("a", "one line\n"), salience=Salience(pinned=True))
    rest = summarize([small, parts[1]], 400, 0, count)
    assert rest.tokens > 400 - 12
    assert "1\tone line\n" in rest.text


def test_without_room_salient_members_are_named_and_others_counted() -> None:
    parts = [_part(f"member{number}", "text\n") for number in range(40)]
    parts[30] = replace(parts[30], salience=Salience(changed=True))
    text = summarize(parts, 60, 0, count).text
    assert "# member30" in text
    assert text.endswith(f"... {40 - len(_headings(text))} members more\n")


def test_a_finer_level_does_not_change_a_members_own() -> None:
    (level,) = {level for level in LEVELS if level == 3}
    text = summarize([_part("a", "secret text\n", lod=level)], 500, 0, count).text
    assert "secret text" not in text


def test_what_all_fits_is_whole() -> None:
    parts = [_part(key, f"{key}\n") for key in "ab"]
    summary = summarize(parts, 500, 0, count)
    assert summary.whole
    assert summary.text == "# a: a.py\n1\ta\n# b: b.py\n1\tb\n"
    assert not summarize(parts, summary.tokens - 1, 0, count).whole


def test_a_wrong_token_count_costs_bodies_not_the_budget() -> None:
    def ladder(_level: int, limit: int, _sparing: bool) -> Ladder:
        return Ladder([1][:limit], lambda _: RenderedView(text="/" + " word" * 9 + "\n", tokens=1))

    parts = [replace(_part(key, ""), ladder=ladder, need=50) for key in "abcdef"]
    for budget in range(1, 80):
        summary = summarize(parts, budget, 0, count)
        assert summary.tokens == count(summary.text) <= budget


_PARTS = st.lists(st.tuples(st.integers(0, 50_000), st.floats(0.01, 1_000)), max_size=40)
_BUDGETS = st.integers(0, 100_000)


@given(_PARTS, _BUDGETS)
def test_shares_add_up_to_the_budget_or_the_needs(parts: list[tuple[int, float]], budget: int) -> None:
    needs = [need for need, _ in parts]
    shares = divide(budget, needs, [weight for _, weight in parts])
    assert all(0 <= share <= need for share, need in zip(shares, needs, strict=True))
    assert sum(shares) == min(budget, sum(needs))


@given(_PARTS, _BUDGETS)
def test_unsatisfied_parts_get_equal_tokens_by_weight(parts: list[tuple[int, float]], budget: int) -> None:
    shares = divide(budget, [need for need, _ in parts], [weight for _, weight in parts])
    for (need, weight), share in zip(parts, shares, strict=True):
        if share < need:
            assert all(other <= (share + 1.001) / weight * heavy + 1.001 for (_, heavy), other in zip(parts, shares))  # noqa: B905


@given(st.permutations(range(6)), st.integers(0, 3_000))
def test_parts_of_different_weight_get_the_same_in_any_order(order: list[int], budget: int) -> None:
    needs, heavy = [100, 1000, 400, 30, 700, 900], [1.0, 2.0, 3.5, 4.25, 0.5, 9.0]
    straight = divide(budget, needs, heavy)
    assert divide(budget, [needs[i] for i in order], [heavy[i] for i in order]) == [straight[i] for i in order]


def test_a_pin_outweighs_a_change_and_a_change_a_use() -> None:
    pinned, changed, used, plain = (
        Salience(pinned=True),
        Salience(changed=True),
        Salience(touched=9),
        Salience(touched=2),
    )
    heavy = weights([pinned, changed, used, plain], [100] * 4)
    assert heavy == sorted(heavy, reverse=True)
    assert len(set(heavy)) == 4


def test_of_two_that_are_alike_the_larger_weighs_more() -> None:
    small, large = weights([Salience(), Salience()], [10, 10_000])
    assert small < large
