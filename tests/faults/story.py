"""What a user does next, drawn by chance: statements that write, append, remove and look, rewinds and commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tests.faults.world import MARKS, Act, World

_PATHS: Final = ("a.txt", "b.txt", "d/c.txt")
_EDITED: Final = "e.txt"
_LINES: Final = (1, 30, 30, 4000)
_COMMANDS: Final = ("/timeline", "/context", "/views", "/tick", "/changes", "/branch", "/sandbox", "/cost")


def content(number: int, lines: int) -> bytes:
    """A content that no other act writes, so that a part of it is recognised as such."""
    return "".join(f"{number}.{line}\n" for line in range(lines)).encode()


def expression(number: int, lines: int) -> str:
    return f"''.join(f'{number}.{{line}}\\n' for line in range({lines}))"


def written(path: str, number: int, lines: int) -> str:
    return f"w = write({path!r}, {expression(number, lines)})"


def _write(world: World) -> Act:
    number, path, lines = world.number(), world.chance.choice(_PATHS), world.chance.choice(_LINES)
    return Act(seen(path) + written(path, number, lines), steps=({path: content(number, lines)},))


def seen(*paths: str) -> str:
    """Read the files, because a tool does not overwrite what nobody has seen."""
    return f"import os; r = [read(each) for each in {paths!r} if os.path.exists(each)]\n"


def _write_two(world: World) -> Act:
    number, lines = world.number(), world.chance.choice(_LINES)
    first, second = world.chance.sample(_PATHS, 2)
    steps: tuple[Mapping[str, bytes], ...] = ({first: content(number, lines)}, {second: content(number, 3)})
    source = f"{seen(first, second)}{written(first, number, lines)}\n{written(second, number, 3)}"
    return Act(source, steps=steps)


def _own_write(world: World) -> Act:
    number, path, lines = world.number(), world.chance.choice(_PATHS), world.chance.choice(_LINES)
    source = f"{seen(path)}os.makedirs('d', exist_ok=True)\nwith open({path!r}, 'w') as f: n = f.write("
    return Act(f"{source}{expression(number, lines)})", steps=({path: content(number, lines)},))


def _append(world: World) -> Act:
    # Into directories that are there: nobody syncs the name of a directory that a program makes.
    paths = [each for each in _PATHS if "/" not in each or each in world.expected.files]
    number, path = world.number(), world.chance.choice(paths)
    now = world.expected.files.get(path, b"")
    source = f"""b = bash("echo '{number} appended' >> {path}")"""
    return Act(source, steps=({path: now + f"{number} appended\n".encode()},), soft=True)


def _remove(world: World) -> Act:
    number, path = world.number(), world.chance.choice(_PATHS)
    steps = ({path: None},) if path in world.expected.files else ()
    return Act(f'b = bash("rm -f {path}; : {number}")', steps=steps, soft=True)


def mark(world: World) -> Act:
    number = world.number()
    return Act(f'b = bash("echo {number} >> {MARKS}")', mark=str(number))


def bind(world: World) -> Act:
    number = world.number()
    return Act(f"x{number} = [{number}]\nv = view('a.txt', tokens=200)\n{number}")


def secret(world: World) -> Act:
    number = world.number()
    path = world.home / "key.txt"
    return Act(f"print({number}, open({str(path)!r}).read(), flush=True)\nk{number} = open({str(path)!r}).read()")


def undo(world: World) -> Act:
    """Of the last statement that changed files, or the redo of it."""
    expected = world.expected
    if expected.undone is not None:
        return Act("/redo", "undo", files=expected.undone)
    change = expected.last_change()
    if change is None or change[1] != expected.files:
        return bind(world)
    changed = {path for path in {*change[0], *change[1]} if change[0].get(path) != change[1].get(path)}
    if changed & (world.soft | world.tainted):
        return bind(world)
    return Act("/undo", "undo", files=change[0])


def _edit(world: World) -> Act:
    """In place of the last statement, if that has changed nothing. It writes a file that no other act writes."""
    last = len(world.expected.after) - 1
    if last < 1 or world.expected.before[-1] != world.expected.after[-1]:
        return bind(world)
    number = world.number()
    source = f"/edit {last} --live\n{seen(_EDITED)}{written(_EDITED, number, 30)}"
    return Act(source, "edit", steps=({_EDITED: content(number, 30)},))


def mode(world: World) -> Act:
    mode = world.chance.choice(("ask", "auto"))
    return Act(f"mode {mode}", "mode", method="session/set_mode", params={"modeId": mode})


def fork(world: World) -> Act:
    """A fork of the session, or the removal of an earlier one: what they share must stay."""
    if len(world.kept) > 1:
        name = world.chance.choice(sorted(world.kept))
        return Act(f"delete {name}", "delete", method="session/delete", params={"sessionId": name})
    params = {"cwd": str(world.project), "mcpServers": []}
    return Act("fork", "fork", method="session/fork", params=params)


def _command(world: World) -> Act:
    return Act(world.chance.choice(_COMMANDS), "command")


def _rewind(world: World) -> Act:
    """To the end of one of the last statements, so that others are left to go back to."""
    last = len(world.expected.after) - 1
    if last < 1:
        return bind(world)
    target = world.chance.randint(max(0, last - 4), last - 1)
    return Act(f"/rewind {target}", "rewind", target=target)


_ACTS: Final[tuple[tuple[int, Callable[[World], Act]], ...]] = (
    (5, _write),
    (4, _write_two),
    (3, _own_write),
    (2, _append),
    (1, _remove),
    (3, mark),
    (2, bind),
    (1, secret),
    (1, _command),
    (4, _rewind),
    (3, undo),
    (2, _edit),
    (1, mode),
    (2, fork),
)
"""Each with its weight."""
_TYPED: Final = (_command, _rewind, undo, _edit, mode, fork)
"""Those that an MCP client does not have."""


def next_act(world: World) -> Act:
    """Draw what happens next."""
    acts = [each for each in _ACTS if world.has_commands or each[1] not in _TYPED]
    weights, makers = zip(*acts, strict=True)
    return world.chance.choices(makers, weights)[0](world)


def next_hit(world: World) -> Act:
    """Draw an act that a fault is to hit: more often than else one that changes several files."""
    often = (_rewind, _write_two, undo, fork) if world.has_commands else (_write_two,)
    return world.chance.choice((*often, next_act, next_act))(world)
