"""What a statement finds in a worker because it is a process of its own: imports, surroundings, `__main__`."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from engine.runtime.worker_environment import WorkerEnvironment
from tests.support.environments import refuse, request, spec_for
from tests.support.workers import bench, shared_zygote

pytestmark = pytest.mark.anyio


async def test_a_projects_own_engine_package_is_what_statements_import(tmp_path: Path) -> None:
    for name in ("engine", "conformance", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("MINE = True\n")
    async with bench(tmp_path) as b:
        assert await b.value("import sys; 'engine' in sys.modules") == "False"
        assert await b.value("import engine, conformance, tests; engine.MINE, conformance.MINE, tests.MINE") == (
            "(True, True, True)"
        )


async def test_the_environment_is_the_specs_and_nothing_of_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-not-for-statements")
    async with bench(tmp_path) as b:
        names = await b.value("import os; sorted(os.environ)")
        assert names == "['HOME', 'PATH', 'PYTHONHASHSEED']"
        leaked = await b.value("b'sk-not' in open('/proc/self/environ', 'rb').read()")
        assert leaked == "False"
        assert await b.value("os.getcwd()") == repr(str(tmp_path))


async def test_import_paths_come_after_the_standard_library_and_read_pth_files(tmp_path: Path) -> None:
    site, extra = tmp_path / "site", tmp_path / "extra"
    site.mkdir()
    extra.mkdir()
    (site / "json.py").write_text("WRONG = True")
    (site / "theirs.py").write_text("X = 1")
    (site / "link.pth").write_text(str(extra))
    (extra / "linked.py").write_text("Y = 2")
    environment = WorkerEnvironment(shared_zygote())
    try:
        await environment.start(replace(spec_for(tmp_path), import_paths=(str(site),)))
        asked = request("import json, theirs, linked; hasattr(json, 'WRONG'), theirs.X, linked.Y")
        outcome = await environment.run(asked, refuse, lambda *_: None)
        assert outcome.value == "(False, 1, 2)"
    finally:
        await environment.close()


async def test_classes_of_statements_can_be_pickled_and_their_changes_are_seen(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        await b.run("class A:\n    x = 1\na = A()")
        assert await b.value("import pickle; pickle.loads(pickle.dumps(A())).x") == "1"
        assert (await b.run("a.x = 2")).diff.changed["a"].mutated


async def test_four_sessions_share_one_zygote_and_nothing_else(tmp_path: Path) -> None:
    async with bench(tmp_path) as a, bench(tmp_path) as b, bench(tmp_path) as c, bench(tmp_path) as d:
        for number, one in enumerate((a, b, c, d)):
            await one.run(f"x = {number}; print(x)")
        assert [await one.value("x") for one in (a, b, c, d)] == ["0", "1", "2", "3"]
        assert len({one.environment.pid for one in (a, b, c, d)}) == 4
