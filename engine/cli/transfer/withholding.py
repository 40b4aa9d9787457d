"""Exports and imports without secrets: what of a session's events and contents is written, and what is withheld.

As a running session does with all that it records: texts lose the secret, and content that holds one is left out, with
its digest in the event that needs it. Must not know formats. Used by export and import.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from ...core.execution import KeptGroup
from ...core.ids import BlobDigest
from ...log.events import Event
from ...log.events.execution import EffectAnswered, FileTouched, FileWritten, ValuesKept
from ...log.events.going_back import FileToRestore, RewindBegun, Rewound
from ...log.events.nodes import AdoptedContent, ContentsAdopted, RevisionAdopted
from ...log.redaction import Redactor, redact_event, withheld
from ...log.store.schema import digest_of


def redact_items(redactor: Redactor, items: Iterable[Event | bytes]) -> Iterator[Event | bytes]:
    """Contents ahead of the events that name them, as `Store.add` takes them; unchanged where nothing is secret."""
    left_out: dict[BlobDigest, str] = {}
    for item in items:
        if not isinstance(item, bytes):
            yield redact_event(redactor, _without_data(redactor, _without(item, left_out)))
        elif redactor and redactor.storable(item) is None:
            left_out[digest_of(item)] = withheld(item)
        else:
            yield item


def _without(event: Event, left_out: dict[BlobDigest, str]) -> Event:
    match event:
        case EffectAnswered(result=result) if result is not None and result in left_out:
            return replace(event, result=None, withheld=left_out[result])
        case FileTouched(before=before) if before is not None and before in left_out:
            return replace(event, before=None, withheld=left_out[before])
        case FileWritten(before=before, after=after) if lost := [each for each in (before, after) if each in left_out]:
            kept = {name: each for name, each in (("before", before), ("after", after)) if each not in left_out}
            marks = " ".join(left_out[each] for each in lost if each is not None)
            return replace(event, **{"before": None, "after": None, **kept}, withheld=marks)
        case RewindBegun(files=files):
            return replace(event, files=tuple(_file_without(each, left_out) for each in files))
        case Rewound(restored=files):
            return replace(event, restored=tuple(_file_without(each, left_out) for each in files))
        case RevisionAdopted(content=content) if content is not None and content in left_out:
            return replace(event, content=None, withheld=left_out[content])
        case ContentsAdopted(files=files) if any(each.content in left_out for each in files):
            return replace(event, files=tuple(_content_without(each, left_out) for each in files))
        case ValuesKept(groups=groups) if any(group.content in left_out for group in groups):
            return replace(event, groups=tuple(_group_without(group, left_out) for group in groups))
        case _:
            return event


def _content_without(seen: AdoptedContent, left_out: dict[BlobDigest, str]) -> AdoptedContent:
    if seen.content is None or seen.content not in left_out:
        return seen
    return replace(seen, content=None, withheld=left_out[seen.content])


def _file_without(file: FileToRestore, left_out: dict[BlobDigest, str]) -> FileToRestore:
    """Its digests say that there was a content."""
    kept = {name: None for name in ("present", "wanted") if getattr(file, name) in left_out}
    return replace(file, **kept) if kept else file


def _without_data(redactor: Redactor, event: Event) -> Event:
    """The event without the pickles that it holds itself, where there is a secret in them."""
    if not redactor or not isinstance(event, ValuesKept):
        return event
    lost = {group.data for group in event.groups if redactor.storable(group.data) is None}
    if not lost:
        return event
    groups = (
        replace(group, data=b"", withheld=withheld(group.data)) if group.data in lost else group
        for group in event.groups
    )
    return replace(event, groups=tuple(groups))


def _group_without(group: KeptGroup, left_out: dict[BlobDigest, str]) -> KeptGroup:
    if group.content is None or group.content not in left_out:
        return group
    return replace(group, content=None, withheld=left_out[group.content])
