"""What a session's prompts say about its project: surroundings, skills, instructions of files and of the client.

Prompts begin with the files as they were at the session's first model call, so that providers can cache the beginning.
A change is told once, in the feed. It becomes part of the beginning at the next condensation, when the head moves, or
in the next process. A file further down is found when a statement shows or writes something beside it. The surroundings
stay as they were at the first call, on the log, so a later process sends the same text. Must not know how a prompt is
built; `files.guidance` knows which files count. Called by `agent_loop` before each model call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import anyio.to_thread

from ..context.tail.prompt import ProjectNotes, guidance_name
from ..core.diff import hunk_lines, hunks, opcodes
from ..core.settings import config_path
from ..files.guidance import LEFT_OUT, TOTAL_CHARS, guidance_files, guidance_near
from ..files.prompt_files import PromptFiles, prompt_files, skills_within
from ..files.revision import Hide, lines_of
from ..files.surroundings import surroundings
from ..log.events import Event
from ..log.events.execution import ExecutionFinished, FileWritten
from ..log.events.going_back import HeadMoved
from ..log.events.session import (
    GuidanceChanged,
    GuidanceFile,
    GuidanceRead,
    InstructionsGiven,
    SessionMoved,
    SessionOpened,
    Skill,
    SkillsRead,
    SurroundingsRead,
)
from .parts import SessionParts

NEW: Final = "{name} has instructions for agents. They apply from now on:\n{text}"
CHANGED: Final = "The instructions for agents in {name} have changed:\n{diff}"
GONE: Final = "{name}, with instructions for agents, was removed. Its instructions no longer apply"

SKILLS_CHARS: Final = 8_000
"""Characters of the names and descriptions of skills in a prompt, about 2,000 tokens."""
_SKILLS_SHARE: Final = 4
"""They have at most one character for so many tokens of the context: a sixteenth of it, in English."""
_CONTEXT: Final = 2
"""Unchanged lines beside a change."""
_LONGEST: Final = 500
"""Characters of a line in a difference."""


class KnownGuidance:
    """What prompts and the model have of the files. A fold over the whole log, because files do not follow branches."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset(
        (GuidanceRead, GuidanceChanged, SkillsRead, InstructionsGiven, ExecutionFinished, FileWritten)
    )

    def __init__(self) -> None:
        self.beginning: GuidanceRead | None = None
        """The files at the beginning of prompts."""
        self.skills: SkillsRead | None = None
        """The skills at the beginning of prompts."""
        self.given = ""
        """The instructions of the client."""
        self.texts: dict[str, str] = {}
        """Text by path, as the model was last told."""
        self._used: set[str] = set()

    def apply(self, event: Event) -> None:
        match event:
            case GuidanceRead(files=files):
                self.beginning = event
                self.texts = {file.path: file.text for file in files}
            case SkillsRead():
                self.skills = event
            case InstructionsGiven(text=text):
                self.given = text
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


class KnownSurroundings:
    """The surroundings that prompts have, and the project's Python. A fold over the whole log."""

    FOLLOWS: ClassVar[frozenset[type[Event]]] = frozenset((SessionOpened, SessionMoved, SurroundingsRead))

    def __init__(self) -> None:
        self.read: SurroundingsRead | None = None
        self.place: SessionOpened | SessionMoved | None = None

    def apply(self, event: Event) -> None:
        match event:
            case SurroundingsRead():
                self.read = event
            case SessionOpened() | SessionMoved():
                self.place = event
            case _:
                pass


class Guidance:
    """Keeps the log up to date with the project. Only for a session with a model."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._of_user = str(config_path(parts.spec.variables).parent)
        self._rebuilds = True
        self._known = KnownGuidance()
        parts.log.follow(self._known.apply, KnownGuidance.FOLLOWS)
        # On another branch, the feed does not have what was told on this one.
        parts.log.follow(lambda _: self.rebuild(), {HeadMoved})
        self._surroundings = KnownSurroundings()
        parts.log.follow(self._surroundings.apply, KnownSurroundings.FOLLOWS)

    def rebuild(self) -> None:
        """Take changes into the beginning of the next prompt, which no longer has what told of them."""
        self._rebuilds = True

    async def refresh(self) -> ProjectNotes:
        """Look at the project, put news on the log, and return what the next prompt begins with."""
        read = self._surroundings.read
        if read is None or read.cwd != self._parts.cwd:
            text = await anyio.to_thread.run_sync(self._describe)
            self._parts.log.append(SurroundingsRead(cwd=self._parts.cwd, text=text))
        if self._rebuilds:
            await self._refresh_skills()
        await self._refresh_files()
        assert self._surroundings.read is not None
        return ProjectNotes(self._surroundings.read.text, self._known.skills, self._known.beginning, self._known.given)

    def _describe(self) -> str:
        place = self._surroundings.place
        python, packages = ("", ()) if place is None else (place.python, place.packages)
        return surroundings(self._parts.cwd, self._parts.clock.now(), python, packages)

    async def _refresh_skills(self) -> None:
        found = await anyio.to_thread.run_sync(files_for, self._parts)
        limit = min(self._parts.settings.context_budget // _SKILLS_SHARE, SKILLS_CHARS)
        listed = tuple(skills_within(found.skills, limit))
        redact = self._parts.redactor.redact
        skills = tuple(Skill(redact(each.name), redact(each.description), redact(each.path)) for each in listed)
        left_out = sum(each.for_models for each in found.skills) - len(listed)
        known = self._known.skills or SkillsRead()
        if (skills, left_out) != (known.skills, known.more):
            self._parts.log.append(SkillsRead(skills=skills, more=left_out))

    async def _refresh_files(self) -> None:
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

    def _found(self, paths: tuple[str, ...]) -> dict[str, str]:
        # In English a token has about four characters, so the files take at most a quarter of the context.
        limit = min(self._parts.settings.context_budget, TOTAL_CHARS)
        texts = {file.path: file.text for file in guidance_files(self._parts.cwd, self._of_user, limit)}
        room = limit - sum(map(len, texts.values()))
        told = set(texts.values())
        for file in guidance_near(paths, self._parts.cwd):  # known ones come first: a new file takes no room from them
            if file.path not in texts and file.text not in told:
                told.add(file.text)
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
                told = CHANGED.format(name=name, diff=_difference(old, new, self._parts.redactor.hidden_lines))
            self._parts.log.append(GuidanceChanged(path=path, text=new, told=told))


def files_for(parts: SessionParts) -> PromptFiles:
    """Return the skills and commands of a session's project and its user; none if it is confined. Blocks."""
    if parts.spec.confined:
        return PromptFiles()
    variables = parts.spec.variables
    return prompt_files(parts.cwd, variables.get("HOME", "/"), str(config_path(variables).parent))


def _difference(old: str, new: str, hide: Hide) -> str:
    before, after = lines_of(old, hide), lines_of(new, hide)
    found = hunks(opcodes(before, after), _CONTEXT)
    return "\n".join(line for codes in found for line in hunk_lines(codes, before, after, _LONGEST))
