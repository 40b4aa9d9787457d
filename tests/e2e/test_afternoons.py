"""An afternoon's work on three real projects by commands, undone step by step and done again.

The projects are the standard library's `json`, `email` and `unittest` with their own tests, or the sources of a
distribution. After each undo the tree is byte for byte as it was before the step, except for what was named as left.
"""

from __future__ import annotations

import email
import json
import os
import shutil
import stat
import sys
import unittest
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import pytest

from engine import Session
from engine.log.events.going_back import Rewound
from tests.support.node import node
from tests.support.sessions import events_of, session_in

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

PROJECTS: Final = {
    "cachetools": Path("tests/data/projects/cachetools"),
    "json": Path(json.__file__).parent,
    "email": Path(email.__file__).parent,
    "unittest": Path(unittest.__file__).parent,
}
RUFF: Final = f"{Path(sys.executable).parent / 'ruff'}"
GIT: Final = "git -c user.name=t -c user.email=t@example.org"
PIP: Final = f"{sys.executable} -m pip --isolated --disable-pip-version-check install -q"
WHEEL: Final = "thing-1.0-py3-none-any.whl"
STEPS: Final = (
    f"bash('{GIT} init -qb main . && {GIT} add -A && {GIT} commit -qm start')",
    f"bash('{RUFF} format -q --isolated --no-cache --line-length 60 .; true')",
    f"bash('{GIT} commit -qam a; {GIT} switch -qc side; {GIT} mv -k README* NOTES; {GIT} commit -qm notes; :')",
    "bash('mkdir -p build/out && cp -r . build/out/copy 2>/dev/null; rm -rf build/out/copy/.git; true')",
    "bash('printf \"all:\\\\n\\\\techo made > made.txt\\\\n\\\\tln -sf made.txt latest\\\\n\" > Makefile && make -s')",
    "import pathlib\n"
    "for path in sorted(pathlib.Path('.').rglob('*.py'))[:20]:\n"
    "    _ = path.write_text('# seen\\n' + path.read_text())",
    f"bash('{GIT} add -A && {GIT} commit -qm all && {GIT} switch -q main && {GIT} switch -q side')",
    f"bash('{GIT} switch -q main && echo x > other && {GIT} add -A && {GIT} commit -qm other && "
    f"{GIT} switch -q side && {GIT} rebase -q main')",
    'bash(\'find . -name "*.py" -not -path "./.git/*" -exec chmod 755 {} +\')',
    f"bash('{sys.executable} -m venv --without-pip --copies env && rm -rf env/lib64')",
    f"bash('{PIP} --no-index --no-deps --target vendor ../{WHEEL} && echo changed >> vendor/thing.py')",
    "bash('mv vendor/thing.py . && rm -r vendor')",
    "bash(npm + ' --offline --no-audit --no-fund --no-update-notifier --cache ../npm ../package')",
    "bash('rm -rf build; for f in $(ls *.py | head -3); do mv $f moved-$f; done; true')",
    "write('last.txt', 'last\\n'); edit('last.txt', 'last', 'the last')",
)
Tree = dict[str, tuple[int, bytes]]


def tree_of(project: Path) -> Tree:
    """Each path outside of git's directory with its kind and permissions, and the content of files and links."""
    found: Tree = {}
    for folder, names, files in os.walk(project):
        names[:] = [name for name in names if name not in (".git", "__pycache__", "node_modules")]
        for name in (*names, *files):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            content = os.fsencode(os.readlink(path)) if stat.S_ISLNK(mode) else b""
            found[str(path.relative_to(project))] = mode, path.read_bytes() if stat.S_ISREG(mode) else content
    return found


def make_packages(folder: Path) -> None:
    """A package for pip, and one for npm."""
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr("thing.py", "name = 'thing'\n")
        wheel.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        wheel.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("thing-1.0.dist-info/RECORD", "")
    (folder / "package").mkdir()
    (folder / "package" / "package.json").write_text('{"name": "thing", "version": "1.0.0"}')


async def trees_of(session: Session, project: Path) -> Sequence[tuple[Tree, Tree]]:
    """The tree before and after each step that changed it."""
    found: list[tuple[Tree, Tree]] = []
    for step in STEPS:
        before = tree_of(project)
        finished = await session.cell(step)
        assert finished.exception is None, (step, finished.exception)
        if (after := tree_of(project)) != before:
            found.append((before, after))
    return found


def assert_is(now: Tree, wanted: Tree, session: Session, project: Path) -> None:
    """Each difference is named by the last undo."""
    left = {os.path.relpath(each.path, project) for each in events_of(session, Rewound)[-1].left}
    differing = {path for path in {*now, *wanted} if now.get(path) != wanted.get(path)}
    assert differing <= left, sorted(differing - left)[:10]


@pytest.mark.parametrize("name", PROJECTS)
async def test_an_afternoon_is_undone_step_by_step_and_done_again(tmp_path: Path, name: str) -> None:
    project = tmp_path / "project"
    make_packages(tmp_path)
    npm = Path(node()).parent.parent / "lib/node_modules/npm/bin/npm-cli.js"
    ignored = shutil.ignore_patterns("__pycache__")
    await anyio.to_thread.run_sync(lambda: shutil.copytree(PROJECTS[name], project, ignore=ignored))
    async with session_in(project, state=tmp_path / "state") as session:
        await session.cell(f"npm = '{node()} {npm} install'")
        trees = await trees_of(session, project)
        assert len(trees) >= 11
        assert {"package.json", "package-lock.json"} <= trees[-1][1].keys()
        for before, _ in reversed(trees):
            await session.undo()
            assert_is(tree_of(project), before, session, project)
        assert tree_of(project) == trees[0][0]
        for _, after in trees:
            await session.redo()
            assert_is(tree_of(project), after, session, project)
        await session.rewind(0)
        assert_is(tree_of(project), trees[0][0], session, project)
