"""Searches of a checkout: by the tools of the engine that this interpreter has, or (`ripgrep`) by the program alone.

A tool does all that a statement waits for: looks the place up, runs its program below a zygote, reads what that
printed. The program alone looks at the same files and prints into a pipe. Run as `python searches.py KIND`: `engine` or
`ripgrep`; each imports only what it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from serving import serve

RIPGREP = str(Path(sys.executable).parent / "rg")


class Engine:
    """Ends with `stack`."""

    def __init__(self, stack: ExitStack) -> None:
        from anyio.from_thread import start_blocking_portal

        from engine.log.redaction import NO_SECRETS
        from engine.runtime.environment import EnvironmentSpec
        from engine.runtime.worker_environment import WorkerEnvironment
        from engine.runtime.zygote import Zygote

        environment = WorkerEnvironment(Zygote.spawn())
        self._portal = stack.enter_context(start_blocking_portal())
        variables = {"PATH": os.environ["PATH"]}
        spec = EnvironmentSpec(cwd=os.getcwd(), redactor=NO_SECRETS, variables=variables)
        self._portal.call(environment.start, spec)
        stack.callback(self._portal.call, environment.close)
        self._command = environment.command

    def search(self, root: str, tool: str, arguments: dict[str, object]) -> object:
        from engine.runtime.results import value_of
        from engine.session.tools import OPERATIONS, Workspace

        row = OPERATIONS[tool]
        program = row.perform(Workspace(root, ripgrep=RIPGREP), row.arguments(**arguments))
        outcome = self._portal.call(self._command, program.request, lambda *_: None)
        return value_of(tool, program.answer(outcome))


class Ripgrep:
    """Leaves out what the tools leave out: `--glob` would search ignored files too."""

    def __init__(self) -> None:
        self._rules = Path(tempfile.mkdtemp()) / "rules"

    def search(self, root: str, tool: str, arguments: dict[str, object]) -> object:
        self._rules.write_text(f"*\n!*/\n!{arguments.get('glob', '*')}\n")
        common = ["--no-config", "--hidden", "--glob=!.git", f"--ignore-file={self._rules}"]
        wanted = ["--files"] if tool == "find" else ["--line-number", "-e", str(arguments["pattern"])]
        return subprocess.run(
            [RIPGREP, *common, *wanted, "./"], cwd=root, stdin=subprocess.DEVNULL, capture_output=True
        )


def main(stack: ExitStack, kind: str) -> None:
    side = Ripgrep() if kind == "ripgrep" else Engine(stack)

    def search(root: str, tool: str, arguments: dict[str, object]) -> float:
        start = perf_counter()
        side.search(root, tool, arguments)
        return perf_counter() - start

    serve({"search": search})


with ExitStack() as stack:
    main(stack, sys.argv[1])
