"""What can be prepared for a view, and of which of its states that holds.

The names of the work are those of the host's table (`session.preparing`). Pure. Used by ViewHandle.
"""

from __future__ import annotations

from typing import Final

import msgspec
import xxhash

from ..core.ids import ObjId
from ..log.events.nodes import PayloadBasis, PayloadKind
from ..log.ticks_values import Want
from .revision import Revision

CONTENT: Final = "content"
"""The work of reading the file, where it differs."""
SUMMARY: Final = "summary"
"""The work of a model that writes what is in a text."""
SUMMED_UP: Final = 2
"""The level of detail that shows a model's summary."""
OUTLINE: Final = "outline"
"""The work of outlining a text that is too large to be outlined at a tick."""
KINDS: Final[frozenset[PayloadKind]] = frozenset({"render", "diff", "parse", "other"})
"""The file's content; that the file differs; an outline; a summary."""


def basis_of(revision: Revision, *policy: object) -> PayloadBasis:
    """What is prepared from that revision for a view of that policy; once either differs it does not count for it."""
    policy_hash = xxhash.xxh3_64_hexdigest(msgspec.json.encode(policy))
    return PayloadBasis(obj_digest_hash=revision.mark, policy_hash=policy_hash)


def content_wish(obj_id: ObjId, path: str, title: str, basis: PayloadBasis) -> Want:
    """The wish for the content of the file at `path`, absolute, where it is another than the view shows."""
    return Want(obj_id=obj_id, work=CONTENT, payload_kind="render", basis=basis, path=path, title=title)


def outline_wish(obj_id: ObjId, path: str, title: str, revision: Revision, basis: PayloadBasis) -> Want:
    """The wish for the outline of a revision of the file at `path`, absolute."""
    detail: dict[str, str | int] = {"digest": revision.digest}
    return Want(obj_id=obj_id, work=OUTLINE, payload_kind="parse", basis=basis, path=path, title=title, detail=detail)


def summary_wish(obj_id: ObjId, title: str, revision: Revision, basis: PayloadBasis) -> Want:
    """The wish for a summary of a revision."""
    detail: dict[str, str | int] = {"digest": revision.digest}
    return Want(obj_id=obj_id, work=SUMMARY, payload_kind="other", basis=basis, title=title, detail=detail)
