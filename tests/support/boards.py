"""A Board over real files in a temporary directory, with a clock that the test moves; and its steps run again."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec.structs import replace as replace_struct

from engine.context.tail.feed import changes_of
from engine.core.ids import PayloadId
from engine.core.tokens import count
from engine.files.buffers import AskEditor, nobody
from engine.files.disk import Sizes
from engine.files.node import NodeBase
from engine.files.outline.fallbacks import IndentationOutliner
from engine.files.outline.model import Outliner
from engine.files.revision import Hide, digest_of, show_all
from engine.files.tails import News, StandingRender
from engine.log.events import Event
from engine.log.events.nodes import (
    FileChanged,
    GroupRecomputed,
    MethodCalled,
    NodeChanged,
    OutlineMade,
    PayloadKind,
    RevisionState,
    StatementTicked,
    TickApplied,
    seen_in,
)
from engine.log.statements import UpdatePayload
from engine.runtime.worker.handles.board import Board
from engine.runtime.worker.handles.states import BoardReport
from tests.support.files import DiskFiles


@dataclass(frozen=True)
class Look:
    """A recorded look, as the host sends it."""

    path: str
    look: int
    state: RevisionState
    digest: str = ""
    size: int = 0
    notice: str = ""
    lost: str = ""


@dataclass
class Step:
    """What a Desk did: a statement, or a tick where there is no source; and what came of it."""

    source: str | None
    number: int
    seconds: float
    after_reading: bool
    payloads: tuple[UpdatePayload, ...] = ()
    report: BoardReport = field(default_factory=BoardReport)

    @property
    def looks(self) -> list[Look]:
        """The record of the step's looks."""
        adopted = [seen for event in self.report.events for seen in seen_in(event)]
        return [Look(each.path, each.look, each.state, each.digest, each.size, each.notice) for each in adopted]

    @property
    def ticks(self) -> list[float]:
        """The times of the ticks that the statement asked for."""
        return [event.now for event in self.report.events if isinstance(event, StatementTicked)]

    @property
    def events(self) -> list[Event]:
        """The step's events but for the records of its looks and of outlines, which a tail between steps makes too."""
        return [event for event in self.report.events if not seen_in(event) and not isinstance(event, OutlineMade)]


class Desk:
    """One session's board with its namespace; `run` executes statements, `tick` ends Rounds, `tail` is a reading.

    `steps` and `contents` are what the log and the store would have of it.
    """

    def __init__(
        self,
        root: Path,
        directories: tuple[str, ...] = (),
        outliner: Outliner | None = None,
        sizes: Sizes = Sizes(),  # noqa: B008 - it is immutable
        ask_editor: AskEditor = nobody,
        hide: Hide = show_all,
    ) -> None:
        self.root = root
        self.sizes = sizes
        self.files = DiskFiles()
        self.outliner = outliner or IndentationOutliner()
        self.seconds = 1_000_000.0
        self.round = 0
        self.index = 0
        self.board = Board(
            self.files,
            count,
            str(root),
            directories,
            lambda: self.seconds,
            self.outliner,
            sizes,
            ask_editor,
            hide=hide,
        )
        self.namespace: dict[str, object] = self.board.names()
        self.steps: list[Step] = []
        self.contents: dict[str, bytes] = {}
        self.is_read = False
        self.read_steps = 0

    def write(self, name: str, content: str | bytes, age_ns: int = 0) -> Path:
        """Writes the file with a time stamp of its own, so that no clock granularity hides the change."""
        path = self.root / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        self.seconds += 1
        os.utime(path, ns=(age_ns or int(self.seconds * 1e9) - 10**9, age_ns or int(self.seconds * 1e9) - 10**9))
        return path

    def run(self, source: str, times: Sequence[float] = (), payloads: tuple[UpdatePayload, ...] = ()) -> BoardReport:
        """One statement; what it raises comes through, after `finish`. `times` are those of its ticks in a re-run.

        Its first tick gets `payloads`.
        """
        self.index += 1
        step = self._begin(source, self.index, payloads)
        self.contents |= {digest_of(payload.data): payload.data for payload in payloads}
        self.board.begin(self.index, self.namespace, round_id=self.round, times=times, payloads=payloads)
        try:
            exec(source, self.namespace)
        finally:
            self._end(step, self.board.finish())
        return step.report

    def tick(self, *payloads: UpdatePayload) -> tuple[Event, ...]:
        self.round += 1
        step = self._begin(None, self.round, payloads)
        self.contents |= {digest_of(payload.data): payload.data for payload in payloads}
        self._end(step, BoardReport(events=self.board.tick(self.round, self.seconds, payloads)))
        return step.report.events

    def prepared(self, name: str, data: bytes, kind: PayloadKind = "render", work: str = "content") -> UpdatePayload:
        """What was prepared for the handle of that name, as it is now."""
        node = self.get(name)
        assert isinstance(node, NodeBase)
        (want,) = (want for want in node.wants() if want.work == work)
        self.seconds += 0.001
        return UpdatePayload(
            payload_id=PayloadId(f"pay-{self.seconds:.3f}"),
            obj_id=node.obj_id,
            prepared_at=self.seconds,
            payload_kind=kind,
            basis=want.basis,
            payload_hash=digest_of(data),
            data=data,
        )

    def _begin(self, source: str | None, number: int, payloads: tuple[UpdatePayload, ...] = ()) -> Step:
        step = Step(source, number, self.seconds, self.is_read, payloads)
        self.steps.append(step)
        self.is_read = False
        return step

    def _end(self, step: Step, report: BoardReport) -> None:
        step.report = report
        self.contents |= self.board.looks.take_contents()

    def tail(self, budget: int = 4000) -> str:
        self.is_read = True
        text = self.board.tail(self.namespace, budget, self.news())[0].text
        self.board.read()
        self.read_steps = len(self.steps)
        return text

    def news(self) -> News:
        """What ticks have told since the last `tail`, as the host's fold has it."""
        told = [event for step in self.steps[self.read_steps :] for event in step.report.events]
        items = tuple(item for each in told for item in changes_of(each))
        return News(items=items, standing=tuple(self._standing().values()))

    def _standing(self) -> dict[str, StandingRender]:
        """What the results of the statements show, all of which stand."""
        found: dict[str, StandingRender] = {}
        changed: set[str] = set()
        for step in self.steps:
            for event in step.report.events:
                match event:
                    case NodeChanged(obj_id=obj_id) | GroupRecomputed(obj_id=obj_id):
                        changed.add(obj_id)
                    case MethodCalled(obj_id=obj_id, method="SetTokens" | "SetLod") if obj_id in found:
                        found[obj_id] = replace_struct(found[obj_id], is_old_policy=True)
                    case _:
                        pass
            for each in step.report.displays:
                changed.discard(each.obj_id)
                found[each.obj_id] = StandingRender(
                    obj_id=each.obj_id, statement=step.number, tokens=each.tokens, digest=each.digest
                )
        for obj_id in changed & found.keys():
            found[obj_id] = replace_struct(found[obj_id], is_old_policy=False)
        return found

    def get(self, name: str) -> Any:
        return self.namespace[name]

    def text(self, name: str) -> str:
        """What the handle of that name renders."""
        return self.get(name).Render().text

    def shown(self, source: str) -> str:
        """The text of the last display of a statement."""
        return self.run(source).displays[-1].text

    def rebuilt(self) -> Desk:
        """Another desk at which the steps ran again, whose own `steps` say what came of that."""
        return self.rebuilt_as({})

    def rebuilt_as(self, sources: dict[int, str]) -> Desk:
        """As `rebuilt`, with other sources in the place of some, by their numbers."""
        other = Desk(self.root, sizes=self.sizes)
        for digest, data in self.contents.items():
            other.board.looks.take_content(digest, data)
        for step in self.steps:
            other.repeat(replace(step, source=sources.get(step.number, step.source)), step.looks)
        other.seconds, other.is_read, other.read_steps = self.seconds, self.is_read, self.read_steps
        if self.is_read:
            other.board.read()
        return other

    def repeat(self, step: Step, looks: Sequence[Look] | None) -> BoardReport:
        """Runs a step again that saw `looks`."""
        self.board.looks.replay(looks)
        if step.after_reading:
            self.board.read()
        self.seconds = step.seconds
        if step.source is None:
            self.round = step.number - 1
            self.tick(*step.payloads)
        else:
            self.index = step.number - 1
            self.run(step.source, step.ticks, step.payloads)
        self.steps[-1].after_reading = step.after_reading
        return self.steps[-1].report


def kinds(events: tuple[Event, ...]) -> list[str]:
    """The kinds of the events, in order."""
    return [event.kind for event in events]


def deltas(events: tuple[Event, ...], select: Callable[[Event], bool] = lambda event: True) -> list[str]:
    """The deltas of node, tick and file events, in order."""
    wanted = (event for event in events if select(event))
    return [event.delta for event in wanted if isinstance(event, NodeChanged | TickApplied | FileChanged)]
