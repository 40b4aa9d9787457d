"""Power losses: the disks that a recording may leave at its points, judged as they are and by the program itself.

A `Recording` is what a story left: the operations of the disk, the messages with the number of operations that preceded
them, and the files that were allowed from when to when. It can be kept in a file, and then each loss repeats exactly.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults.disk import PROFILES, Operation, Profile, after_power_loss
from tests.faults.judge import Evidence, Expected, Message, Prompt, statements, violations
from tests.faults.reading import read_log
from tests.faults.world import Act, Moment, Told, World, updates_of


@dataclass(frozen=True)
class Loss:
    """The power fails when so many operations have returned. `lies` is a disk whose fsyncs do nothing."""

    point: int
    profile: Profile
    seed: int
    lies: bool = False


@dataclass
class Recording:
    operations: Sequence[Operation]
    told: Sequence[Told]
    prompts: Sequence[tuple[int, Prompt]]
    moments: Sequence[Moment]
    settled: int
    session: str
    lost: frozenset[str | None]
    """Messages that were still arriving at earlier faults."""

    @classmethod
    def of(cls, world: World, scratch: Path) -> Recording:
        """Take it from a world whose programs have ended."""
        operations = world.record(scratch)
        prompts = world.prompts if world.has_commands else ()
        return cls(operations, world.told, prompts, world.moments, world.settled, world.session, frozenset(world.lost))

    def draw(self, chance: random.Random) -> Loss:
        """Any point after the session began; often just after a message that a client received, or during a rewind."""
        least = self.moments[0].until
        point = chance.randint(least, len(self.operations))
        drawn, rewinds = chance.random(), [each for each in self.moments if each.target is not None]
        if drawn < 0.5:
            point = max(least, chance.choice(self.told).count)
        elif drawn < 0.7 and rewinds:
            rewind = chance.choice(rewinds)
            point = chance.randint(rewind.since + 1, rewind.until)
        return Loss(point, chance.choice(PROFILES), chance.randrange(1 << 30))

    def leave(self, loss: Loss, base: Path) -> None:
        """Make the disk in an empty directory."""
        operations = self.operations[: loss.point]
        after_power_loss(operations, loss.profile, loss.seed, self.settled, lies=loss.lies).save(base)

    def evidence(self, loss: Loss, base: Path) -> Evidence:
        """What is on the disk, and what clients knew when the power failed."""
        verdict, log = read_log(base / "state" / "sessions.db", self.session)
        return Evidence(
            prompts=[prompt for _, prompt in self.prompts_before(loss)],
            updates=self.shown_before(loss),
            log=log,
            database=verdict,
        )

    def prompts_before(self, loss: Loss) -> list[tuple[int, Prompt]]:
        """All prompts; those that were answered later count as unanswered."""
        return [
            (ends, Prompt(prompt.text, prompt.reason if ends <= loss.point else None)) for ends, prompt in self.prompts
        ]

    def shown_before(self, loss: Loss) -> list[Message]:
        """The updates without what a kill before had cut off: the power did not take that."""
        updates = updates_of(self.session, (each.message for each in self.told_before(loss)))
        return [each for each in updates if each.get("messageId") not in self.lost]

    def told_before(self, loss: Loss) -> list[Told]:
        return [
            each
            for each in self.told
            if each.count <= loss.point and each.message.get("method", "session/update") == "session/update"
        ]

    def moment(self, loss: Loss) -> Moment:
        """What was going on."""
        return next((each for each in self.moments if loss.point <= each.until), self.moments[-1])

    def judge(self, loss: Loss, world: World) -> list[str]:
        """What is wrong on the disk before any program looks at it."""
        evidence = self.evidence(loss, world.base)
        wrong = violations(evidence, ["acknowledged"])
        if evidence.database != "ok":
            wrong.append(f"log: {evidence.database}")
        if [event["seq"] for event in evidence.log] != list(range(len(evidence.log))):
            wrong.append("log: the events are not numbered one after another")
        moment, files = self.moment(loss), world.files()
        paths = {*files, *(path for state in moment.states for path in state)}
        for path in sorted(paths - moment.soft - self.unreachable(loss, world)):
            allowed = [state.get(path) for state in moment.states]
            if files.get(path) not in allowed:
                found = files.get(path)
                wrong.append(
                    f"files: {path} is {found!r:.50}, and must be one of {[f'{each!r:.50}' for each in allowed]}"
                )
        return wrong

    def unreachable(self, loss: Loss, world: World) -> frozenset[str]:
        """The files whose directory is lost, by the standard alone, because the code that made it did not sync it."""
        if loss.profile != "posix":
            return frozenset()
        paths = {path for state in self.moment(loss).states for path in state}
        return frozenset(path for path in paths if not (world.project / path).parent.is_dir())

    def restarted(self, loss: Loss, world: World) -> list[str]:
        """Start the agent on the disk, load the session and use it. Returns what is wrong."""
        moment = self.moment(loss)
        world.told = self.told_before(loss)
        world.prompts = self.prompts_before(loss)
        world.session, world.acts, world.tainted = self.session, {}, {*moment.soft, *self.unreachable(loss, world)}
        world.modes, world.lost = set(moment.modes), set(self.lost)
        wrong = world.restart()
        # Marks are not synced, and nobody counted when the other sessions came and went.
        wrong = [each for each in wrong if not each.startswith(("once:", "sessions:"))]
        files = world.files()
        _, log = read_log(world.state / "sessions.db", self.session)
        states = moment.states
        if moment.target is not None:  # the session finishes a rewind of which the log knows
            states = states[1:] if statements(log) == moment.target else states[:1]
        evidence = world.only(Evidence(files=files, allowed=states))
        wrong += violations(evidence, ["files"])
        world.expected = Expected(files)
        done = world.wait(world.start(Act("alive = 1")))
        if done.reason != "end_turn":
            wrong.append(f"alive: a statement after the power loss ended with {done}")
        return [*wrong, *world.end()]


def lose_power(recording: Recording, base: Path, loss: Loss, *, restarts: bool) -> list[str]:
    """Make the disk after the loss in `base`, judge it, and maybe start the agent on it. Returns what is wrong."""
    shutil.rmtree(base, ignore_errors=True)
    base.mkdir()
    recording.leave(loss, base)
    world = World(base, random.Random(loss.seed), None)
    wrong = recording.judge(loss, world)
    if restarts and not wrong:
        try:
            wrong = recording.restarted(loss, world)
        except AssertionError as error:
            wrong = [f"alive: {error}"]
        finally:
            world.abandon()
    shutil.rmtree(base, ignore_errors=True)
    return wrong
