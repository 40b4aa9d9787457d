"""Every program that we start gets an environment that was chosen for it, never all of ours, which may have keys."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from tests.support.stores import ROOT

STARTS: Final = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "anyio": {"run_process", "open_process"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
}
PLACES: Final = {"posix_spawn": 2, "posix_spawnp": 2, "execve": 2, "execvpe": 2, "spawnve": 3, "spawnvpe": 3}
"""Functions of os that take an environment, with its place among the arguments."""
WITHOUT: Final = ("execv", "execvp", "execl", "execlp", "spawnl", "spawnlp", "spawnv", "spawnvp", "system", "popen")


def starts(tree: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Each call that starts a program, with the expression of its environment."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr=name)) if name in PLACES:
                yield name, node.args[PLACES[name]]
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr=name)) if name in WITHOUT:
                yield name, None
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)) if name in STARTS.get(module, ()):
                yield name, next((keyword.value for keyword in node.keywords if keyword.arg == "env"), None)
            case _:
                pass


def test_each_start_of_a_program_chooses_its_environment() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()}: {name}": environment
        for package in ("engine", "acp_adapter", "mcp_tools", "session_page")
        for path in (ROOT / package).rglob("*.py")
        for name, environment in starts(ast.parse(path.read_text()))
    }
    assert len(found) >= 9
    whole = [where for where, given in found.items() if given is None or ast.unparse(given) in {"None", "os.environ"}]
    assert whole == [CONTINUED]


CONTINUED: Final = "engine/runtime/worker/forking/child.py: execve"
"""A worker that becomes a program of its own: its environment is the zygote's, which was chosen."""
