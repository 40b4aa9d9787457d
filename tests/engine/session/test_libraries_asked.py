"""What libraries that people work with ask in the sandbox, in the mode ask, as the table in docs/sandbox.md says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import PermissionAnswer
from engine.log.permissions import FileSubject, TreeSubject
from tests.engine.session.test_many_files import replying
from tests.support.models import AnsweringModel
from tests.support.permissions import FixedPermissions
from tests.support.sessions import sessions_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROWS: dict[str, tuple[str, list[str]]] = {
    "numpy.save": ("import numpy\nnumpy.save('a.npy', numpy.eye(2))", ["a.npy"]),
    "numpy.savetxt": ("import numpy\nnumpy.savetxt('a.txt', numpy.eye(2))", ["a.txt", "a.txt"]),
    "numpy.savetxt into an open file": (
        "import numpy\nwith open('a.txt', 'w') as file: numpy.savetxt(file, numpy.eye(2))",
        ["a.txt"],
    ),
    "pandas": ("import pandas\npandas.DataFrame({'a': range(3)}).to_csv('a.csv')", ["a.csv"]),
    "a long table": ("import pandas\npandas.DataFrame({'a': range(200_000)}).to_csv('a.csv')", ["a.csv"]),
    "a plot in memory": (
        "import io\nimport matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
        "plt.plot([1, 2]); plt.savefig(io.BytesIO())",
        [],
    ),
    "a plot": (
        "import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\n"
        "plt.plot([1, 2]); plt.savefig('a.png'); plt.savefig('a.pdf')",
        ["a.png", "a.pdf"],
    ),
    "a database": (
        "import os, shutil, sqlite3, tempfile\nplace = tempfile.mkdtemp() + '/a.db'\n"
        "with sqlite3.connect(place) as base: base.execute('create table t (x)')\n"
        "base.close(); shutil.copy(place, 'a.db')",
        ["a.db"],
    ),
    "reading, computing, temporary files": (
        "import json, subprocess, tempfile\nfrom pathlib import Path\n"
        "tempfile.NamedTemporaryFile().write(b'x'); subprocess.run(['ls', '/'], check=True, capture_output=True)\n"
        "read('notes.md'), view('notes.md'), grep('one'), Path('notes.md').read_text()",
        [],
    ),
}


@pytest.mark.parametrize("name", ROWS)
async def test_a_library_asks_about_the_files_that_it_changes_and_about_nothing_else(tmp_path: Path, name: str) -> None:
    source, files = ROWS[name]
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.md").write_text("one\n")
    user = FixedPermissions([PermissionAnswer(outcome="allowed")] * 9)
    model = AnsweringModel(replying(f"{source}\ndone = True"))
    async with sessions_of(tmp_path / "state", model=model, settings={"sandbox": "required"}) as sessions:
        session = await sessions.create(str(work))
        session.attach(user)
        assert (await session.accept("go").end()).cause == "end_turn"
        assert (await session.cell("done")).value == "True"
    asked = [question.subject for question in user.questions]
    paths = [
        each.path if isinstance(each, FileSubject) else each.paths[-1]
        for each in asked
        if isinstance(each, FileSubject | TreeSubject)
    ]
    assert [Path(path).name for path in paths] == files
    assert len(asked) == len(files)
    assert sorted(path.name for path in work.iterdir()) == sorted({"notes.md", *files})
