"""`python -m tests.engine.context.view.fuzz --events N --seed S`: random logs, the View against its reference.

Stops at the first difference with exit status 1 and the smallest log found that still shows it, as JSON events.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from random import Random

from engine.log.events import Event
from engine.log.events.codec import encode
from tests.engine.context.view.logs import LONGEST, difference, random_log

_MOMENTS = 4
"""How often a log is compared before its end."""


def smallest(log: Sequence[Event]) -> list[Event]:
    """Drops events one by one while the rest still differs. Their stamps stay, since only the order counts."""
    shrunk = list(log)
    position = 0
    while position < len(shrunk):
        candidate = shrunk[:position] + shrunk[position + 1 :]
        if difference(candidate, range(len(candidate))):
            shrunk, position = candidate, 0
        else:
            position += 1
    return shrunk


def fuzz(events: int, seed: int) -> tuple[int, int, list[Event] | None]:
    """Returns events and logs that were compared, and the smallest failing log, or None."""
    random = Random(seed)
    done = logs = 0
    while done < events:
        log = random_log(random, LONGEST)
        if difference(log, [random.randrange(len(log) + 1) for _ in range(_MOMENTS)]):
            return done, logs, smallest(log)
        done += len(log)
        logs += 1
    return done, logs, None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="compare the View with its reference on random logs")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    done, logs, failing = fuzz(options.events, options.seed)
    seconds = time.perf_counter() - start
    print(f"seed {options.seed}: {done:,} events in {logs:,} logs of at most {LONGEST}, {done / seconds:,.0f} events/s")
    if failing is None:
        print("no difference")
        return 0
    print("[" + ",\n ".join(encode(event).decode() for event in failing) + "]")
    print(difference(failing, range(len(failing))))
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
