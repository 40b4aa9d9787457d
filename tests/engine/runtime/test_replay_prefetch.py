"""What is sent of a history at once is bounded, and comes in order, each content once."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from msgspec.structs import replace

from engine.log.past import PastExecution, PastLooks, PastRevision, PastStep, PastTick
from engine.runtime.rebuild_inputs import PastContents
from engine.runtime.replay_run import STRETCH_BYTES, Prepared, ReplayPrefetch, replay_messages
from tests.support.environments import contents, kept, past

pytestmark = pytest.mark.anyio
SIZE = 100_000


def ahead(steps: Sequence[PastStep], alone: Collection[int] = ()) -> ReplayPrefetch:
    return ReplayPrefetch(steps, PastContents(contents, steps), alone, ())


async def stretches(all_ahead: ReplayPrefetch, count: int) -> list[list[int]]:
    """The positions in each stretch; an empty one is a step of the host's."""
    found: list[list[int]] = []
    while all_ahead.position < count:
        await all_ahead.prepare()
        taken = all_ahead.take()
        if not taken:
            all_ahead.skip()
        found.append([prepared.position for prepared in taken])
    return found


def seen(number: int) -> PastRevision:
    data = f"{number:07}".encode() * (SIZE // 7)
    return PastRevision(path="/f", look=0, state="text", digest=f"d{number}", size=len(data), content=kept(data))


async def test_stretches_begin_short_and_are_of_a_bounded_number_of_steps() -> None:
    steps = [past("x = 1") for _ in range(300)]
    found = await stretches(ahead(steps), len(steps))
    assert [position for stretch in found for position in stretch] == list(range(300))
    assert [len(stretch) for stretch in found][:4] == [8, 16, 32, 64]
    assert max(len(stretch) for stretch in found) == 64


@pytest.mark.parametrize("kind", ["sources", "contents"])
async def test_a_stretch_is_of_a_bounded_number_of_bytes(kind: str) -> None:
    large: list[PastStep] = [
        past("#" * SIZE) if kind == "sources" else PastTick(round_id=n, now=1.0, revisions=(seen(n),))
        for n in range(40)
    ]
    whole = ahead(large)
    sizes: list[int] = []
    while whole.position < len(large):
        await whole.prepare()
        taken = whole.take()
        sizes.append(sum(prepared.size for prepared in taken))
        # What waits meanwhile is bounded as well.
        await whole.prepare()
    assert SIZE < max(sizes) <= STRETCH_BYTES
    (first, *_) = await stretches(ahead([past("#" * 3 * STRETCH_BYTES), past("x = 1")]), 2)
    assert first == [0]


async def test_what_a_stretch_did_not_come_to_begins_the_next_and_its_contents_go_once() -> None:
    steps: list[PastStep] = [PastTick(round_id=n, now=1.0, revisions=(seen(100 + n),)) for n in range(6)]
    whole = ahead(steps)
    await whole.prepare()
    taken = whole.take()
    sent = [content.digest for prepared in taken for content in prepared.contents]
    assert sent == [f"d{100 + n}" for n in range(6)]
    before, replay = replay_messages(taken)
    assert not before
    assert [content.digest for content in replay.contents] == sent
    whole.put_back(taken[2:])
    assert whole.position == 2
    again: list[Prepared] = []
    while whole.position < len(steps):
        await whole.prepare()
        again += whole.take()
    assert [prepared.position for prepared in again] == [2, 3, 4, 5]
    assert all(not prepared.contents for prepared in again)


async def test_contents_of_one_step_alone_go_ahead_of_it_because_no_message_may_hold_them() -> None:
    files = tuple(replace(seen(n), path=f"/{n}") for n in range(300, 300 + 2 * STRETCH_BYTES // SIZE))
    whole = ahead([PastTick(round_id=0, now=1.0, revisions=files), PastTick(round_id=1, now=2.0)])
    await whole.prepare()
    before, replay = replay_messages(whole.take())
    assert [content.digest for content in before] == [look.digest for look in files]
    assert len(replay.steps) == 1
    assert not replay.contents


async def test_steps_of_the_host_stand_between_stretches() -> None:
    looks = PastLooks(revisions=(seen(200),))
    unknown = replace(past("x = 1"), record=None)
    stopped = past("x = 1", "cancelled")
    steps: list[PastStep] = [past("x = 1"), looks, unknown, past("x = 1"), stopped, past("x = 1"), past("x = 1")]
    assert await stretches(ahead(steps, alone=[5]), len(steps)) == [[0, 1], [], [3], [], [], [6]]
    assert isinstance(steps[0], PastExecution)
