"""Runs suites and keeps what they find in `results/latest.{json,md}`; those that are not run keep what they had.

`python -m benchmarks` runs all, `python -m benchmarks acp store` some. With `--against DIR`, another checkout with its
own `.venv`, the same programs measure its code in the same run, taking turns with ours: `new/old` comes first in the
tables, below 1.00 where this checkout is faster (or smaller). `--quick` shows that everything runs; it keeps nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks import (
    bench_acp,
    bench_cluster,
    bench_conformance,
    bench_context,
    bench_mcp,
    bench_outlines,
    bench_page,
    bench_past,
    bench_pictures,
    bench_provider,
    bench_quality,
    bench_rewind,
    bench_sandbox,
    bench_scale,
    bench_store,
    bench_tasks,
    bench_timeline,
    bench_tools,
    bench_undo,
    bench_view,
)
from benchmarks.environments import OURS, Checkout, machine
from benchmarks.measuring import Setting
from benchmarks.report import Row, Suite, keep, table

SUITES: Final[Mapping[str, Callable[[Setting], Sequence[Row]]]] = {
    "acp": bench_acp.run,
    "cluster": bench_cluster.run,
    "conformance": bench_conformance.run,
    "context": bench_context.run,
    "mcp": bench_mcp.run,
    "outlines": bench_outlines.run,
    "page": bench_page.run,
    "past": bench_past.run,
    "pictures": bench_pictures.run,
    "provider": bench_provider.run,
    "quality": bench_quality.run,
    "rewind": bench_rewind.run,
    "sandbox": bench_sandbox.run,
    "scale": bench_scale.run,
    "store": bench_store.run,
    "tasks": bench_tasks.run,
    "timeline": bench_timeline.run,
    "tools": bench_tools.run,
    "undo": bench_undo.run,
    "view": bench_view.run,
}
RESULTS: Final = Path(__file__).parent / "results"


def main(
    arguments: Sequence[str],
    suites: Mapping[str, Callable[[Setting], Sequence[Row]]] = SUITES,
    place: Path = RESULTS,
) -> int:
    """Exits 1 if a bar is not met, 2 for wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"which; all by default: {', '.join(suites)}")
    parser.add_argument("--against", type=Path, metavar="DIR", help="another checkout, with its own .venv")
    parser.add_argument("--quick", action="store_true", help="few rounds and small sizes; keeps no results")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.suites) - set(suites))
    if unknown:
        parser.error(f"there is no suite {', '.join(unknown)}; there is {', '.join(suites)}")
    against = None if options.against is None else Checkout(options.against.resolve())
    if against is not None and not Path(against.python).exists():
        parser.error(f"{against.root} has no .venv; make one there with `make .venv/.installed`")
    found = _run(options.suites or list(suites), suites, Setting(against, options.quick))
    if not options.quick:
        keep(place, found)
    return 0 if all(row.met is not False for suite in found.values() for row in suite.rows) else 1


def _run(
    names: Sequence[str], suites: Mapping[str, Callable[[Setting], Sequence[Row]]], setting: Setting
) -> dict[str, Suite]:
    found: dict[str, Suite] = {}
    for name in names:
        print(f"\n## {name}\n", flush=True)
        rows = tuple(suites[name](setting))
        print(table(rows), flush=True)
        found[name] = Suite(
            measured=time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
            commit=OURS.commit,
            machine=machine(),
            before=setting.against.commit if setting.against else "",
            rows=rows,
        )
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
