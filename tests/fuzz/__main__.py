"""`python -m tests.fuzz TARGET...`: changes inputs by chance, keeps those that reach new code, and says what fails.

Without a target all run one after another, for the minutes in `tests/fuzz/targets.py`. `--seconds` changes the time of
each. A failure prints its input, which is kept in the folder build/fuzz: `--input FILE` repeats it. New inputs are kept
there too; `--coverage` runs all that are known, and shows which part of the parser's lines they reach.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import coverage

from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS, Target

CORPUS: Final = Path(__file__).parent / "corpus"
"""Inputs that are kept with the sources, because they reach code that seeds do not."""
BUILD: Final = Path("build") / "fuzz"
LONGEST: Final = 1 << 14
"""Bytes of an input."""
_INPUT_SECONDS: Final = 10
"""An input that takes longer is a failure."""
_MEMORY_MB: Final = 2_048


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"which; all by default: {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=int, help="of each target")
    parser.add_argument("--seed", type=int, default=0, help="of the changes; 0 draws one")
    parser.add_argument("--plant", action="store_true", help="break the parser first; the run must fail")
    parser.add_argument("--input", type=Path, help="run this input alone")
    parser.add_argument("--coverage", action="store_true", help="run the known inputs, and show the lines they reach")
    parser.add_argument("--corpus", type=Path, default=BUILD, help="where to keep inputs")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.targets) - set(TARGETS)):
        parser.error(f"there is no target {', '.join(unknown)}; there is {', '.join(TARGETS)}")
    chosen = [TARGETS[name] for name in options.targets or TARGETS]
    if options.input:
        for target in chosen:
            target.run(options.input.read_bytes())
        return 0
    if options.coverage:
        print("| target | module | lines reached |", "| --- | --- | --- |", sep="\n")
        for target in chosen:
            print(*(f"| `{target.name}` | `{module}` | {part:.0%} |" for module, part in reached(target)), sep="\n")
        return 0
    if importlib.util.find_spec("atheris") is None:
        print("skipped: atheris is not installed; it is there for Python 3.11 to 3.13 on Linux with x86-64")
        return 0
    failed = 0
    for target in chosen:
        seconds = options.seconds or target.minutes * 60
        failed += fuzz(target, options.corpus, seconds, seed=options.seed, planted=options.plant) != 0
    return 1 if failed else 0


def fuzz(target: Target, place: Path, seconds: int, *, seed: int = 0, planted: bool = False) -> int:
    """Run one target; the status of its process, 0 if nothing failed."""
    found = place / target.name
    found.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds(target.name)):
        (found / f"seed-{number}").write_bytes(data)
    flags = (
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={LONGEST}",
        f"-timeout={_INPUT_SECONDS}",
        f"-rss_limit_mb={_MEMORY_MB}",
        f"-artifact_prefix={place}/{target.name}-",
        "-print_final_stats=1",
    )
    kept = [str(CORPUS / target.name)] if (CORPUS / target.name).exists() else []
    command = [sys.executable, "-m", "tests.fuzz.running", target.name, *(["planted"] if planted else []), "--"]
    return subprocess.run([*command, *flags, str(found), *kept]).returncode


def known_inputs(target: Target) -> Iterator[bytes]:
    """Yield the seeds, the inputs that are kept with the sources, and those of earlier runs."""
    yield from seeds(target.name)
    for folder in (CORPUS / target.name, BUILD / target.name):
        if folder.exists():
            yield from (path.read_bytes() for path in sorted(folder.iterdir()))


def reached(target: Target) -> list[tuple[str, float]]:
    """Return the part of the lines of each module that the known inputs reach, imports apart."""
    files = [file for module in target.modules for file in _files(module)]
    counted = coverage.Coverage(data_file=None, include=[str(file) for file in files])
    counted.start()
    for data in known_inputs(target):
        target.run(data)
    counted.stop()
    found: list[tuple[str, float]] = []
    for module in target.modules:
        ran = lines = 0
        for file in _files(module):
            _, statements, _, missing, _ = counted.analysis2(str(file))
            inside = _inside_functions(file)
            lines += len(inside & set(statements))
            ran += len(inside & (set(statements) - set(missing)))
        found.append((module, ran / (lines or 1)))
    return found


def _files(module: str) -> list[Path]:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    origin = Path(spec.origin)
    return sorted(origin.parent.glob("*.py")) if origin.name == "__init__.py" else [origin]


def _inside_functions(file: Path) -> set[int]:
    """The lines in functions: all others ran when the module was imported."""
    return {
        line
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for line in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
