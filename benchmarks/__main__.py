"""Runs every benchmark, or those named (`python -m benchmarks acp store`), and writes `results/latest.{json,md}`."""

from __future__ import annotations

import json
import platform
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks.environments import Row, table

BENCHMARKS = ("acp", "store", "view")
RESULTS = Path(__file__).parent / "results"


def main(names: list[str]) -> int:
    """Exits 1 if a bar is not met, 2 for a name that is none."""
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        sys.stderr.write(f"no benchmark {', '.join(unknown)}; there is {', '.join(BENCHMARKS)}\n")
        return 2
    results: dict[str, list[Row]] = {}
    for name in names or BENCHMARKS:
        print(f"\n## {name}\n", flush=True)
        results[name] = import_module(f"benchmarks.bench_{name}").run()
        print(table(results[name]), flush=True)
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    RESULTS.mkdir(exist_ok=True)
    text = [f"# Benchmarks\n\n{machine}, {time.strftime('%Y-%m-%d')}. Run them with `make bench`."]
    text += [f"## {name}\n\n{table(rows)}" for name, rows in results.items()]
    (RESULTS / "latest.md").write_text("\n\n".join(text) + "\n")
    (RESULTS / "latest.json").write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
    return 0 if all(row["met"] is not False for rows in results.values() for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
