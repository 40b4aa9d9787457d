"""What a worker in the test process holds: read by a statement that leaves its names as they were."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from engine.files.rendered import All
from engine.runtime.worker.handles.live_nodes import LiveNodes

Policy = tuple[int, int]
"""A level and a budget, with 0 for All; a token is a character."""


def source(policies: Collection[Policy]) -> str:
    """Return a statement that prints all nodes by their ids, with their texts at these policies."""
    return f"print(__import__('importlib').import_module('{__name__}').held(view.__self__._nodes, {sorted(policies)}))"


def held(nodes: LiveNodes, policies: Collection[Policy]) -> Mapping[str, Mapping[str, Any]]:
    return {node.obj_id: _held(nodes, node, policies) for node in nodes.all()}


def _held(nodes: LiveNodes, node: Any, policies: Collection[Policy]) -> dict[str, Any]:
    return {
        "name": nodes.name_of(node),
        "type": node.obj_type,
        "title": node.title,
        "mode": node.mode,
        "lod": node.lod,
        "tokens": node.tokens if isinstance(node.tokens, int) else 0,
        "pinned": node.pinned is not None,
        "members": [each.obj_id for each in node.children()],
        "own": node.measure().text,
        "wants": [
            (each.basis.obj_digest_hash, glob.manifest.text)
            for each in node.wants()
            if each.work == "index"
            for glob in node.held()
            if getattr(glob, "key", "") == each.path
        ],
        "lines": node.revision.lines if node.obj_type == "view" else (),
        "texts": {policy: node.Render(policy[0], policy[1] or All).text for policy in policies},
    }
