"""The machine finds the cause of each false prompt that the engine once wrote, when the cause is put back.

Each function puts back one cause, as small as today's code allows. Its docstring says what a model read then.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from msgspec.structs import replace

from engine.context.tail import feed
from engine.context.tail.section_parts import Block
from engine.context.tail.sections import EXPANSIONS
from engine.files import globs
from engine.files.detail import summary
from engine.files.detail.scene import Scene
from engine.files.filling import EMPTY, Ladder, single
from engine.files.group import GroupHandle
from engine.files.group_summary import Part
from engine.files.node import NodeBase
from engine.files.rendered import RenderedView
from engine.files.tails import News
from engine.files.view import ViewHandle
from engine.log.events import Event
from engine.log.events.execution import ExecutionFinished
from engine.log.events.going_back import HeadMoved, ReplayBegun
from engine.log.events.nodes import PayloadBasis
from engine.runtime.worker.handles import board, states
from engine.runtime.worker.handles.live_nodes import LiveNodes
from tests.engine.files import test_filling
from tests.engine.session.test_projection_machine import ProjectionMachine

RUNS: Final = 300
SEEDS: Final = (1, 2)
"""Each begins so many runs; most faults are found with the first one."""
Patch = pytest.MonkeyPatch


# --- surfaces --------------------------------------------------------------------------------------------------------


def _with_surfaces(patch: Patch, change: Callable[[states.Surfaces, LiveNodes, News], None]) -> None:
    def init(self: states.Surfaces, nodes: LiveNodes, names: Any, news: News, smaller: Any) -> None:
        original(self, nodes, names, news, smaller)
        change(self, nodes, news)

    original = states.Surfaces.__init__
    patch.setattr(states.Surfaces, "__init__", init)


def replays_show(patch: Patch) -> None:
    """After `/replay`, "Shown from outside your statements" had handles that were read before."""

    def finish(self: feed.Feed, event: ExecutionFinished) -> None:
        original(self, event)
        cell = self._timeline.cell(event.statement_id)
        if event.mode is not None and event.counts and cell is not None and not cell.asked:
            for each in map(feed._expansion, event.displays):
                self._expansions.add(event.seq, each, each)

    original = feed.Feed._finish
    patch.setattr(feed.Feed, "_finish", finish)


def old_beside_new(patch: Patch) -> None:
    """After `/replay`, the old render of a handle stood beside its new one."""

    def change(self: states.Surfaces, nodes: LiveNodes, _: News) -> None:
        texts = known.setdefault(nodes, {})
        for each in self.expansions:
            texts.setdefault(each.obj_id, {})[each.text] = each
        self.expansions = tuple(old for each in self.expansions for old in texts[each.obj_id].values())

    known = WeakKeyDictionary[LiveNodes, dict[str, dict[str, Block]]]()
    _with_surfaces(patch, change)


def old_instead_of_new(patch: Patch) -> None:
    """`/run show(a)` of a running view left its text from before a change."""

    def block(self: states.Surfaces, node: NodeBase) -> Block:
        return known.setdefault(node, {}).setdefault(tuple(self._asked[node.obj_id]), original(self, node))

    known = WeakKeyDictionary[NodeBase, dict[Any, Block]]()
    original = states.Surfaces._block
    patch.setattr(states.Surfaces, "_block", block)


def two_sections(patch: Patch) -> None:
    """A group that `/run` showed stood in two sections."""

    def change(self: states.Surfaces, nodes: LiveNodes, _: News) -> None:
        shown = [node for each in self._asked if isinstance(node := nodes.get(each), GroupHandle)]
        self.expansions += tuple(map(self._block, shown))

    _with_surfaces(patch, change)


def pins_twice(patch: Patch) -> None:
    """A pinned view that `/run` showed stood twice."""

    def change(self: states.Surfaces, nodes: LiveNodes, _: News) -> None:
        shown = [node for each in self._asked if (node := nodes.get(each)) is not None and node.pinned is not None]
        self.expansions += tuple(map(self._block, shown))

    _with_surfaces(patch, change)


def gone_handles(patch: Patch) -> None:
    """After a name was bound anew, the old view's text stayed under its id."""

    def change(self: states.Surfaces, nodes: LiveNodes, news: News) -> None:
        blocks = known.setdefault(nodes, {})
        blocks |= {each.obj_id: each for each in self.expansions}
        gone = dict.fromkeys(each.obj_id for each in news.expansions if nodes.get(each.obj_id) is None)
        self.expansions += tuple(blocks[each] for each in gone if each in blocks)

    known = WeakKeyDictionary[LiveNodes, dict[str, Block]]()
    _with_surfaces(patch, change)


def former_names(patch: Patch) -> None:
    """After a name was bound anew, a group's heading kept it."""
    patch.setattr(GroupHandle, "_renaming", lambda self: lambda part: part)


def cached_names(patch: Patch) -> None:
    """As `former_names`, because the render was kept."""

    def measure(self: GroupHandle) -> RenderedView:
        self._catch_up()
        self._rendered = self._rendered or self.Render()
        return self._rendered

    patch.setattr(GroupHandle, "measure", measure)


def overviews_of_paths(patch: Patch) -> None:
    """An overview never followed its files, because its basis was their paths alone."""

    def basis(self: globs.Glob) -> PayloadBasis | None:
        found = original(self)
        return None if found is None else replace(found, obj_digest_hash=" ".join(self.manifest.files))

    original = globs.Glob.basis
    patch.setattr(globs.Glob, "basis", basis)


# --- the feed --------------------------------------------------------------------------------------------------------


def rehearsals_count(patch: Patch) -> None:
    """A recorded replay made the feed tell values that no name had."""

    def follow(self: feed.Feed, event: Event) -> None:
        original(self, replace(event, mode="live") if isinstance(event, ReplayBegun) else event)

    original = feed.Feed._follow
    patch.setattr(feed.Feed, "_follow", follow)


def each_rebuild(patch: Patch) -> None:
    """ "Rebuilt in a new worker" stood four times in one feed."""

    def add(self: feed._Unread[Any], seq: int, item: Any, key: Any = None) -> None:
        original(self, seq, item, None if key == ("rebuilt",) else key)

    original = feed._Unread.add
    patch.setattr(feed._Unread, "add", add)


def rebuilds_of_replays(patch: Patch) -> None:
    """A rehearsal, and `/replay K K --live`, added "rebuilt in a new worker"."""

    def follow(self: feed.Feed, event: Event) -> None:
        original(self, event)
        self._is_rebuild_known &= not isinstance(event, ReplayBegun)

    original = feed.Feed._follow
    patch.setattr(feed.Feed, "_follow", follow)


def rebuilds_of_rewinds(patch: Patch) -> None:
    """`/rewind` added "rebuilt in a new worker"."""

    def tell(self: feed.Feed, event: Event) -> None:
        original(self, event)
        self._is_rebuild_known &= not isinstance(event, HeadMoved)

    original = feed.Feed._tell
    patch.setattr(feed.Feed, "_tell", tell)


def lines_of_left_branches(patch: Patch) -> None:
    """After `/rewind` the feed had lines of what is not in the conversation."""

    def reset(self: feed.Feed) -> None:
        items = getattr(self, "_items", None)
        original(self)
        self._items = items or self._items

    original = feed.Feed.reset
    patch.setattr(feed.Feed, "reset", reset)


def each_difference(patch: Patch) -> None:
    """The feed said of one statement "error instead of ok", and later "ok instead of error"."""
    patch.setattr(feed.Feed, "_diverge", lambda self, key, event: self._items.add(event.seq, event))


def each_change(patch: Patch) -> None:
    """A bare "5 lines changed" stood two or three times."""
    patch.setattr(board, "net", lambda news, nodes, surfaces: news)


def last_change(patch: Patch) -> None:
    """A change that was read over two calls had lines of a version that exists nowhere."""

    def net(news: News, nodes: Any, surfaces: Any) -> News:
        texts = {each.obj_id: each.text for each in news.items}
        found = original(news, nodes, surfaces)
        items = [replace(each, text=texts[each.obj_id]) if each.is_source else each for each in found.items]
        return replace(found, items=tuple(items))

    original = board.net
    patch.setattr(board, "net", net)


def told_as_earlier(patch: Patch) -> None:
    """A change stood among the new ones and among the earlier ones."""

    def net(news: News, nodes: Any, surfaces: Any) -> News:
        return replace(original(news, nodes, surfaces), earlier=news.earlier)

    original = board.net
    patch.setattr(board, "net", net)


def undone_changes(patch: Patch) -> None:
    """The feed said that a content was as shown again, of which no other one had been told."""

    def net_change(self: ViewHandle, *, since_read: int, told: bool, paths: set[str]) -> str | None:
        return original(self, since_read=since_read, told=True, paths=paths)

    original = ViewHandle.net_change
    patch.setattr(ViewHandle, "net_change", net_change)


def groups_without_lines(patch: Patch) -> None:
    """Of a running group the feed said "1 changed" without the lines."""
    patch.setattr(GroupHandle, "_diffs", lambda self, changes, before: iter(()))


# --- budgets ---------------------------------------------------------------------------------------------------------


def summaries_in_shares(patch: Patch) -> None:
    """Level 2 was the same sentence within 60, 200 and 2,000 tokens."""
    original = summary.ladder
    patch.setattr(summary, "ladder", lambda scene: original(dataclasses.replace(scene, sparing=True)))


def documentation_for_names(patch: Patch) -> None:
    """Level 2 lost names from 60 to 80 tokens, because documentation took their room."""

    def ladder(scene: Scene) -> Ladder:
        return original(dataclasses.replace(scene, budget=scene.budget // (1 + (scene.budget >= 80))))

    original = summary.ladder
    patch.setattr(summary, "ladder", ladder)


def two_headings(patch: Patch) -> None:
    """A file in a group, named by its path, had two headings."""

    def part(self: globs.Glob) -> Part:
        text, self.text = self.text, ""
        made = original(self)
        self.text = text
        return dataclasses.replace(made, title=text + made.title)

    original = globs.Glob.part
    patch.setattr(globs.Glob, "part", part)


def whole_files(patch: Patch) -> None:
    """A group of a glob showed all of a file or nothing."""

    def ladders(*args: Any) -> Callable[[int, int, bool], Ladder]:
        def whole(*limits: Any) -> Ladder:
            found = made(*limits)
            last = found.show(len(found.tokens) - 1) if found.tokens else None
            return single(last) if last is not None and last.whole else EMPTY

        made = original(*args)
        return whole

    original = globs._ladders
    patch.setattr(globs, "_ladders", ladders)


FAULTS: Final[Mapping[Callable[[Patch], None], str]] = {
    replays_show: EXPANSIONS,
    old_beside_new: EXPANSIONS,
    old_instead_of_new: EXPANSIONS,
    two_sections: EXPANSIONS,
    pins_twice: EXPANSIONS,
    gone_handles: EXPANSIONS,
    former_names: "g has no v",
    cached_names: "g has no v",
    overviews_of_paths: "an overview of files that have changed",
    rehearsals_count: "differences: ",
    each_rebuild: "2 rebuilds",
    rebuilds_of_replays: r"1 rebuilds instead of \[\]",
    rebuilds_of_rewinds: r"1 rebuilds instead of \[\]",
    lines_of_left_branches: "differences: |rebuilds instead of",
    each_difference: "differences: ",
    each_change: "changed 2 times",
    last_change: "makes .* of ",
    told_as_earlier: "changed 2 times|makes .* of ",
    undone_changes: "nobody was told otherwise",
    groups_without_lines: "no line of ",
    summaries_in_shares: "level 2 never shows",
    documentation_for_names: "level 2 within 80 loses",
    two_headings: "two headings of ",
}
"""What the machine says of each."""


@pytest.mark.slow
@pytest.mark.parametrize("put_back", FAULTS, ids=lambda each: each.__name__)
def test_the_machine_finds_it(put_back: Callable[[Patch], None], monkeypatch: Patch) -> None:
    put_back(monkeypatch)
    with pytest.raises(AssertionError, match=FAULTS[put_back]):
        _run_sessions()


def _run_sessions() -> None:
    for number in SEEDS:
        limits = settings(max_examples=RUNS, stateful_step_count=20, phases=[Phase.generate])
        run_state_machine_as_test(seed(number)(ProjectionMachine), settings=limits)


def test_a_property_finds_whole_files(tmp_path: Path, monkeypatch: Patch) -> None:
    """The files of the machine are too small for it."""
    whole_files(monkeypatch)
    with pytest.raises(AssertionError):
        test_filling.test_a_group_names_what_fits_of_its_files(tmp_path)
