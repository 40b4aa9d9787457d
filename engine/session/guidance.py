"""The files with instructions for agents, as a session's prompts have them.

Prompts begin with the files as they were at the session's first model call, so that providers can cache the beginning.
A change is told once, in the feed. It becomes part of the beginning at the next condensation or in the next process. A
file further down is found when a statement shows or writes something beside it. Must not know how a prompt is built;
`files.guidance` knows which files count. Called by `agent_loop` before each model call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import anyio.to_thread

from ..context.tail.prompt import guidance_name
from ..core.diff import hunk_lines, hunks, opcodes
from ..core.settings import config_path
from ..files.guidance import LEFT_OUT, TOTAL_CHARS, guidance_files, guidance_near
from ..log.events import Event
from ..log.events.execution import ExecutionFinished, FileWritten
from ..log.events.session import GuidanceChanged, GuidanceFile, GuidanceRead
from .parts import SessionParts

NEW: Final = "{name} has instructions for agents, which count from now on:\n{text}"
CHANGED: Final = "{name}, with instructions for agents, has changed:\n{diff}"
GONE: Final = "{name}, with instructions for agents, is gone and no longer counts"

_CONTEXT: Final = 2
"""Unchanged lines beside a change."""
_LONGEST: Final = 500
"""Characters of a line in a difference."""


class KnownGuidance:
    """What prompts and the model have of the files. A fold over the whole log, because files do not follow branches."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (GuidanceRead, GuidanceChanged, ExecutionFinished, FileWritten)
    )

    def __init__(self) -> None:
        self.beginning: GuidanceRead | None = None
        """The files at the beginning of prompts."""
        self.texts: dict[str, str] = {}
        """Text by path, as the model was last told."""
        self._used: set[str] = set()

    def apply(self, event: Event) -> None:
        match event:
            case GuidanceRead(files=files):
                self.beginning = event
                self.texts = {file.path: file.text for file in files}
            case GuidanceChanged(path=path, text=""):
                self.texts.pop(path, None)
            case GuidanceChanged(path=path, text=text):
                self.texts[path] = text
            case ExecutionFinished(locations=locations):
                self._used.update(location.path for location in locations)
            case FileWritten(path=path):
                self._used.add(path)
            case _:
                pass

    @property
    def texts_at_beginning(self) -> Mapping[str, str]:
        return {} if self.beginning is None else {file.path: file.text for file in self.beginning.files}

    def take_used(self) -> set[str]:
        """Return the paths of files that statements showed or wrote since the last time."""
        used, self._used = self._used, set()
        return used


class Guidance:
    """Keeps the log up to date with the files. Only for a session with a model."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._of_user = str(config_path(parts.spec.variables).parent)
        self._rebuilds = True
        self._known = KnownGuidance()
        parts.log.follow(self._known.apply, KnownGuidance.FOLLOWS)

    def rebuild(self) -> None:
        """Take changes into the beginning of the next prompt, because it is built anew anyway."""
        self._rebuilds = True

    async def refresh(self) -> GuidanceRead | None:
        """Look at the files, put news on the log, and return those at the beginning of the next prompt."""
        known = self._known
        found = await anyio.to_thread.run_sync(self._found, (*known.texts, *known.take_used()))
        # The log has no secrets, so neither may what is compared with it.
        found = {path: self._parts.redactor.redact(text) for path, text in found.items()}
        if self._rebuilds and found != known.texts_at_beginning:
            files = tuple(GuidanceFile(path, text) for path, text in found.items())
            self._parts.log.append(GuidanceRead(files=files))
        elif found != known.texts:
            self._tell(found)
        self._rebuilds = False
        return known.beginning

    def _found(self, paths: tuple[str, ...]) -> dict[str, str]:
        # In English a token has about four characters, so the files take at most a quarter of the context.
        limit = min(self._parts.settings.context_budget, TOTAL_CHARS)
        texts = {file.path: file.text for file in guidance_files(self._parts.cwd, self._of_user, limit)}
        room = limit - sum(map(len, texts.values()))
        for path in paths:  # those that are known come first, so a new file takes no room from them
            for file in guidance_near(path, self._parts.cwd):
                if file.path not in texts:
                    texts[file.path] = file.text if len(file.text) <= room else LEFT_OUT
                    room -= len(texts[file.path])
        return texts

    def _tell(self, found: Mapping[str, str]) -> None:
        before = dict(self._known.texts)
        for path in {**before, **found}:
            name, old, new = guidance_name(path, self._parts.cwd), before.get(path, ""), found.get(path, "")
            if old == new:
                continue
            if not new:
                told = GONE.format(name=name)
            elif not old:
                told = NEW.format(name=name, text=new)
            else:
                told = CHANGED.format(name=name, diff=_difference(old, new))
            self._parts.log.append(GuidanceChanged(path=path, text=new, told=told))


def _difference(old: str, new: str) -> str:
    before, after = old.split("\n"), new.split("\n")
    found = hunks(opcodes(before, after), _CONTEXT)
    return "\n".join(line for codes in found for line in hunk_lines(codes, before, after, _LONGEST))
