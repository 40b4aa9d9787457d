"""`python -m tests.faults`: runs episodes until the time is over, and says what was wrong, with its seed.

Two episodes run at a time. A seed fixes the acts, the faults and the losses; when the processes get there is not fixed,
so an episode that failed is repeated, and the report says how often it failed again. A power loss that failed repeats
exactly from its recording: `--recording FILE` judges it again.
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.faults import peers
from tests.faults.episode import Kind, Result, run
from tests.faults.filesystem import why_not
from tests.faults.power import Loss, Recording, lose_power
from tests.faults.remote import RemoteWorld
from tests.faults.served import ServedWorld
from tests.faults.world import Counts, World, line
from tests.support.postgresql import installations, running

_EPISODE_SECONDS = 60.0
_PEERS_EVERY = 5
"""Of so many episodes one has faults of providers and MCP servers instead, and one is of `rewindow-mcp`."""
_REMOTE_EVERY = 10
"""And of so many one has its sessions in PostgreSQL, where that is installed."""
_SHOWN_STEPS = 6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, help="of the first episode; drawn without it")
    parser.add_argument("--episodes", type=int, default=2, help="how many run at a time")
    parser.add_argument("--reruns", type=int, default=5, help="of an episode that failed")
    parser.add_argument("--repeated", action="store_true", help="exit 1 only for what came again, and for losses")
    parser.add_argument("--keep", type=Path, help="a directory for the recordings of failures")
    parser.add_argument("--recording", type=Path, help="judge the loss in this file again")
    options = parser.parse_args()
    if options.recording:
        return judged_again(options.recording)
    if reason := why_not():
        print(f"skipped: {reason}")
        return 0
    return play(options)


def play(options: argparse.Namespace) -> int:
    """Run episodes with one seed after another."""
    first = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    print(f"SEED={first}", flush=True)
    counts, kinds, failed, again = Counts(), Counter[str](), 0, 0
    deadline = time.monotonic() + options.seconds
    with ProcessPoolExecutor(options.episodes) as pool:
        seed = first
        while (left := deadline - time.monotonic()) > 1:
            seconds = min(_EPISODE_SECONDS, left)
            for result in pool.map(
                _episode, *zip(*[(seed + n, seconds, options.keep) for n in range(options.episodes)], strict=True)
            ):
                counts.add(result.counts)
                print(f"SEED={result.seed}: {line(vars(result.counts))}", flush=True)
                kinds += result.kinds
                if result.wrong:
                    failed += 1
                    each = (result.seed, seconds, None)
                    reruns = list(pool.map(_episode, *zip(*[each] * options.reruns, strict=True)))
                    again += result.loss is not None or any(rerun.wrong for rerun in reruns)
                    report(result, reruns)
            seed += options.episodes
    print(line(vars(counts)), line(kinds), sep="\n")
    print(f"{seed - first} episodes, {failed} failed, {again} of them again", flush=True)
    return 1 if (again if options.repeated else failed) else 0


def report(result: Result, reruns: list[Result]) -> None:
    """Print what was wrong, what came before it, and how often it came again."""
    print(f"FAILED: SEED={result.seed}, {sum(bool(each.wrong) for each in reruns)} of {len(reruns)} reruns failed")
    print(*(f"  after {step:.300}" for step in result.steps[-_SHOWN_STEPS:]), sep="\n")
    if result.loss:
        print(f"  {result.loss}")
    print(*(f"  {each[-2500:]}" for each in result.wrong[:10]), sep="\n", flush=True)


def judged_again(path: Path) -> int:
    """Judge a loss of which the recording was kept."""
    recording, loss = pickle.loads(path.read_bytes())
    assert isinstance(recording, Recording)
    assert isinstance(loss, Loss)
    with tempfile.TemporaryDirectory() as folder:
        wrong = lose_power(recording, Path(folder) / "disk", loss, restarts=False)
    print(loss, *wrong, sep="\n")
    return 1 if wrong else 0


def _episode(seed: int, seconds: float, keep: Path | None) -> Result:
    try:
        return _played(seed, seconds, keep)
    except Exception:  # so that the other episodes go on
        return Result(seed, wrong=[f"alive: {traceback.format_exc()}"])


def _played(seed: int, seconds: float, keep: Path | None) -> Result:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        if seed % _PEERS_EVERY == 0:
            return peers.run(Path(folder), seed, seconds)
        with ExitStack() as stack:
            result, recording = run(Path(folder), seed, seconds, kind=_kind(seed, stack))
    if keep is not None and result.loss is not None and recording is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{seed}.recording").write_bytes(pickle.dumps((recording, result.loss)))
    return result


def _kind(seed: int, stack: ExitStack) -> Kind:
    if seed % _PEERS_EVERY == 1:
        return ServedWorld
    if seed % _REMOTE_EVERY == 2 and (version := next(iter(installations()), None)):
        return partial(RemoteWorld, stack.enter_context(running(version)))
    return World


if __name__ == "__main__":
    sys.exit(main())
