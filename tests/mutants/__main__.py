"""`python -m tests.mutants`: changes the program in sampled places, and lists the changes that no test notices.

A seed draws the places. `--again FILE` tries those again that survived or timed out in an earlier run. The results are
in the folder build/mutants.

This is not cosmic-ray, because that removes no statement, `await`, `fsync` or `finally`, exchanges no arguments, and
has one test command for all modules.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.mutants.rooms import ROOMS, Room
from tests.mutants.sampling import MOST_EQUIVALENT, Mutant, Result, count, draw, equivalents, found_again, table
from tests.mutants.trying import BUILD, results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, help="of the places; drawn without it")
    parser.add_argument("--count", type=int, default=304, help="how many mutants, the same number of each room")
    parser.add_argument("--room", action="append", choices=[room.name for room in ROOMS], help="these rooms alone")
    parser.add_argument("--again", type=Path, help="try the survivors in this file of results again")
    options = parser.parse_args()
    rooms = [room for room in ROOMS if not options.room or room.name in options.room]
    seed = random.SystemRandom().randrange(1 << 30) if options.seed is None else options.seed
    if options.again:
        old = [msgspec.json.decode(line, type=Result) for line in options.again.read_bytes().splitlines()]
        again = {result.mutant for result in old if result.verdict in ("survived", "timed out")}
        mutants = found_again(sorted(mutant for mutant in again if mutant.room in [room.name for room in rooms]))
    else:
        print(f"SEED={seed}", flush=True)
        mutants = [mutant for room in rooms for mutant in draw(room, seed, -(-options.count // len(rooms)))]
    BUILD.mkdir(parents=True, exist_ok=True)
    found = list(_tried(rooms, mutants, BUILD / f"{'again' if options.again else seed}.jsonl"))
    return judge(found, [room.name for room in rooms])


def _tried(rooms: list[Room], mutants: list[Mutant], file: Path) -> Iterator[Result]:
    """Yield the results, and write them into a file and to standard output meanwhile."""
    rows = equivalents()
    told = {mutant for mutant in mutants if any(row.is_of(mutant) for row in rows)}
    yield from (Result(mutant, "equivalent", 0, 0.0, "") for mutant in mutants if mutant in told)
    left = [mutant for mutant in mutants if mutant not in told]
    needed = [room for room in rooms if any(mutant.room == room.name for mutant in left)]
    with file.open("wb") as lines:
        for number, result in enumerate(results(needed, left), 1):
            lines.write(msgspec.json.encode(result) + b"\n")
            lines.flush()
            line = f"{number} of {len(left)}, {result.seconds:.0f} s: {result.verdict}: {result.mutant.name}"
            print(line[:200], flush=True)
            yield result


def judge(found: list[Result], rooms: list[str]) -> int:
    """Print the survivors and the table. Return 1 if one survived, or if too many are called equivalent."""
    print()
    for result in found:
        if result.verdict in ("survived", "timed out"):
            print(f"{result.verdict} ({result.tests} tests): {result.mutant.name}")
    print(*table(found, rooms), sep="\n", flush=True)
    counts = count(found)
    return 1 if counts["survived"] or counts["equivalent"] > MOST_EQUIVALENT * len(found) else 0


if __name__ == "__main__":
    sys.exit(main())
