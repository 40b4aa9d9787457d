"""Handles as plain data, and the handles that are made of that again: one row for each type of node.

What a file held is named by its digest and taken from the record of a replay. Where that has it no more, the handle
says so. Must not know how the data is kept. Used by the Board, for those who keep values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

import msgspec

from ....core.ids import ObjId
from ....files.document import Document, Documents
from ....files.globs import Glob
from ....files.group import GroupHandle, glob_state, glob_state_from, group_state
from ....files.looks import Looks
from ....files.node import NodeBase, NodeContext
from ....files.rendered import All, ShownRevision, ShownRevisions
from ....files.revision import Revision, from_text
from ....files.view import ShownState, ViewHandle, ViewState, view_state
from .globs import Globs
from .live_nodes import LiveNodes

_TYPE: Final = "type"
_MEMBERS: Final = "members"
_SCHEDULE: Final = ("mode", "freq", "min_turn_interval", "pinned")
"""Of a digest. That a node is paused tells of a change all the same."""


class HandleStates:
    """What makes the nodes of one board of their states."""

    def __init__(self, nodes: LiveNodes, documents: Documents, looks: Looks, globs: Globs) -> None:
        self._nodes = nodes
        self._documents = documents
        self._looks = looks
        self._globs = globs
        self._makers: dict[str, Callable[[str, dict[str, Any]], NodeBase]] = {
            ViewHandle.obj_type: self._view,
            GroupHandle.obj_type: self._group,
        }

    def state_of(self, node: NodeBase) -> dict[str, object]:
        """All that there is to the node but its id; of a group its members are in it as the nodes that they are."""
        state = cast("dict[str, object]", msgspec.to_builtins(node.state()))
        if not isinstance(node, GroupHandle):
            return state
        members = [msgspec.to_builtins(glob_state(each)) if isinstance(each, Glob) else each for each in node.held()]
        return {**state, _MEMBERS: members}

    def node_from(self, obj_id: str, state: object) -> NodeBase:
        """The living node of that id in that state, which `state_of` gave; a new one where none lives.

        Raises:
            ValueError: it is no state; nothing was changed.
        """
        try:
            known = msgspec.convert(state, dict[str, Any])
        except msgspec.ValidationError as error:
            raise ValueError(f"no state of a handle: {error}") from None
        make = self._makers.get(str(known.get(_TYPE)))
        if make is None:
            raise ValueError("no state of a handle: one of no type that is known")
        before = self._nodes.get(obj_id)
        seen = None if before is None else (before.changed, before.running, _shown(before))
        node = make(obj_id, known)
        if seen is not None and node is before:
            was_changed, was_running, shown = seen
            # The state is of another moment, so whether it was read then says nothing of what was read since.
            if was_changed or (was_running and not node.running) or shown != _shown(node):
                node.mark_changed()
        if node.pinned is not None:
            self._nodes.pin(node, node.pinned)
        if self._nodes.get(obj_id) is not node:
            self._nodes.put_back(node)
        return node

    def _context(self, obj_id: str) -> NodeContext:
        return replace(self._nodes.context, mint=partial(_given, ObjId(obj_id)))

    def _view(self, obj_id: str, state: dict[str, Any]) -> NodeBase:
        wanted = view_state(state)
        document, revision = self._document_of(wanted)
        node = self._nodes.get(obj_id)
        if not isinstance(node, ViewHandle):
            node = ViewHandle(self._context(obj_id), document, pos="0:0", tokens=All, lod=wanted.lod)
        read = None if wanted.read is None else self._shown_of(wanted, wanted.read, revision)
        unread = tuple(self._shown_of(wanted, shown, revision) for shown in wanted.unread[-2:])
        node.restore(wanted, document, revision, ShownRevisions(read, unread))
        return node

    def _group(self, obj_id: str, state: dict[str, Any]) -> NodeBase:
        wanted = group_state({key: value for key, value in state.items() if key != _MEMBERS})
        if not isinstance(state.get(_MEMBERS), list):
            raise ValueError("no state of a group: it has no members")
        node = self._nodes.get(obj_id)
        if not isinstance(node, GroupHandle):
            node = GroupHandle(self._context(obj_id), (), tokens=All, lod=wanted.lod, follow=None)
        node.restore(wanted, [each if isinstance(each, NodeBase) else self._glob(each) for each in state[_MEMBERS]])
        return node

    def _glob(self, state: object) -> Glob:
        wanted = glob_state_from(state)
        glob = self._globs.known(wanted.root, wanted.pattern, wanted.text)
        contents = {
            each.path: (each.mark, self._looks.known(glob.path_of(each.path), each.path, each))
            for each in wanted.contents
        }
        shown: dict[str, ShownRevisions] = {}
        for each in wanted.shown:
            revision = self._looks.known(glob.path_of(each.path), each.path, each)
            of_file = shown.setdefault(each.path, ShownRevisions())
            of_file.displayed(ShownRevision(revision, each.statement))
            if each.is_read:
                of_file.mark_read()
        glob.take(self._looks.known(glob.key, wanted.text, wanted.manifest), contents, shown)
        return glob

    def _document_of(self, state: ViewState) -> tuple[Document, Revision]:
        if state.text is not None or state.path is None:
            document = self._documents.of_text(
                state.text or "", state.title, state.path, first_line=state.first_line, outside=state.outside
            )
            return document, document.current
        revision = self._looks.known(state.path, state.title, state)
        document = self._documents.held(state.path, state.title, revision, outside=state.outside)
        # Views of one file share its revisions; another object would count as another content when it is adopted.
        return document, document.current if revision.same_as(document.current) else revision

    def _shown_of(self, state: ViewState, shown: ShownState, present: Revision) -> ShownRevision:
        if shown.is_present:
            return ShownRevision(present, shown.statement)
        if shown.text is not None or state.path is None:
            return ShownRevision(from_text(shown.text or "", shown.first_line), shown.statement)
        return ShownRevision(self._looks.known(state.path, state.title, shown), shown.statement)


def _shown(node: NodeBase) -> dict[str, object]:
    """What makes a node another one for who has read it. How often it is ticked does not."""
    return {key: value for key, value in node.GetDigest().items() if key not in _SCHEDULE}


def _given(obj_id: ObjId, _: str) -> ObjId:
    return obj_id
