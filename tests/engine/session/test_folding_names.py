"""Sessions on a file system like that of macOS: names without case, and decomposed when they are listed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from engine import Session
from tests.support.folding import folded, folding_directory
from tests.support.sessions import session_in, sessions_of

pytestmark = pytest.mark.anyio
COMPOSED, DECOMPOSED = "caf\u00e9.txt", "cafe\u0301.txt"


@pytest.fixture
def folding(tmp_path: Path) -> Iterator[Path]:
    try:
        with folding_directory(tmp_path) as place:
            yield place
    except (FileNotFoundError, PermissionError):
        pytest.skip("nothing may be mounted here")


@pytest.fixture
async def project(folding: Path) -> Path:
    root = folding / "project"
    root.mkdir()
    (root / "Readme.md").write_text("one\n")
    (root / COMPOSED).write_text("un\n")
    (root / "Sub").mkdir()
    (root / "Sub" / "a.txt").write_text("a\n")
    return root


@pytest.fixture
async def session(project: Path, tmp_path: Path) -> AsyncIterator[Session]:
    async with session_in(project, state=tmp_path / "state") as opened:
        yield opened


def tree(root: Path) -> dict[str, str]:
    return {str(each.relative_to(root)): each.read_text() for each in sorted(root.rglob("*")) if each.is_file()}


RENAMES = {
    "by Python": "import os; os.rename('Readme.md', 'README.md')",
    "by a command": "bash('mv Readme.md x && mv x README.md')",
    "a directory by Python": "import os; os.rename('Sub', 'sub')",
    "a directory by a command": "bash('mv Sub x && mv x sub')",
    "written by another spelling": "open('README.MD', 'w').write('two')",
    "edited by another spelling": "read('README.MD'); edit('README.MD', 'one', 'two')",
    "written in another form": f"open({DECOMPOSED!r}, 'w').write('deux')",
    "a name in another form by a command": f"bash('mv {COMPOSED} x && mv x {DECOMPOSED} && echo deux >> {COMPOSED}')",
    "removed by another spelling": "import os; os.remove('README.MD')",
}


@pytest.mark.parametrize("source", RENAMES.values(), ids=RENAMES)
@pytest.mark.parametrize("way", ["rewind", "undo"])
async def test_a_change_goes_back(session: Session, project: Path, source: str, way: str) -> None:
    before = tree(project)
    await session.cell("1")
    finished = await session.cell(source)
    assert finished.exception is None, finished.exception
    assert tree(project) != before
    rewound = await session.rewind(1) if way == "rewind" else (await session.undo()).rewound
    assert tree(project) == before
    assert rewound is not None
    assert not rewound.left


async def test_a_name_that_changed_with_its_content_gets_its_content_back(session: Session, project: Path) -> None:
    """The rename is left and reported: `open` wrote the file by its new name."""
    before = tree(project)
    await session.cell("1")
    await session.cell("import os; os.rename('Readme.md', 'README.md'); open('readme.md', 'w').write('two')")
    await session.rewind(1)
    assert {folded(name): text for name, text in tree(project).items()} == {
        folded(name): text for name, text in before.items()
    }


async def test_a_file_is_known_by_every_spelling(session: Session, project: Path) -> None:
    await session.cell("read('README.MD')")
    (project / "Readme.md").write_text("of another program\n")
    finished = await session.cell("write('readme.md', 'mine')")
    assert "has changed since it was last read" in str(finished.exception)
    await session.cell("read('Readme.MD')")
    finished = await session.cell("edit('README.md', 'another', 'a')")
    assert finished.exception is None
    assert (project / "Readme.md").read_text() == "of a program\n"


async def test_a_session_in_a_directory_by_another_spelling(project: Path, tmp_path: Path) -> None:
    other = project.parent / "PROJECT"
    async with sessions_of(tmp_path / "state") as sessions:
        session = await sessions.create(str(other))
        finished = await session.cell("read('readme.md')")
        assert finished.exception is None
        finished = await session.cell("write('Readme.md', 'two')")
        assert finished.exception is None
        for cwd in (str(project), str(other)):
            assert [row.session_id for row in await sessions.rows(cwd=cwd)] == [session.session_id]
    assert (project / "Readme.md").read_text() == "two\n"


@pytest.mark.parametrize("name", ["Readme.md", "README.MD"])
async def test_a_view_by_another_spelling_follows_the_file(session: Session, project: Path, name: str) -> None:
    await session.cell(f"v = view({name!r}); v.Run(freq='Sync')")
    (project / "Readme.md").write_text("of another program\n")
    finished = await session.cell("write('readme.md', 'mine')")
    assert "has changed since it was last viewed" in str(finished.exception)
