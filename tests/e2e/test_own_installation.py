"""An agent that is installed in the project's `.venv`: a statement in the mode `auto` replaces nothing that it runs.

The host starts its interpreter again for the second statement, because a file has come that is protected from then on.
"""

from __future__ import annotations

import json
import py_compile
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil
import pytest

from tests.support.agents import Agent
from tests.support.planting import installed_in, project
from tests.support.scripts import asks_permission, assert_gone, kill_each, runs, scripted

from .test_planted_programs import WITHOUT_MOUNTS

MADE: Final = "import subprocess; subprocess.run('echo 1 > made', shell=True)\n"
PROGRAM: Final = '#!/bin/sh\\ntouch {marker}\\nexec {python} \\"$@\\"\\n'
BY_HOST: Final = (
    "import os\nos.rename('.venv/bin/python', '.venv/bin/real')\n"
    f'open(".venv/bin/python", "w").write("{PROGRAM}")\nos.chmod(".venv/bin/python", 0o755)\n'
)
BY_PROGRAMS: Final = f"""
import glob, subprocess
packages, = glob.glob('.venv/lib/python*/site-packages')
commands = (
    'mv .venv/bin/python .venv/bin/real', 'rm .venv/bin/python', 'echo > .venv/pyvenv.cfg', 'mv .venv old',
    'touch ' + packages + '/x.pth', 'mkdir ' + packages + '/brotli', 'rm -r ' + packages, 'chmod 777 .venv/bin',
)
done = [each for each in commands if not subprocess.run(each, shell=True).returncode]
open('.ran', 'w').write(repr(done))
text = "{PROGRAM}"
subprocess.run(['sh', '-c', 'printf %s "$0" > .venv/bin/python; chmod 755 .venv/bin/python', text])
"""


def acted(tmp_path: Path, statement: str, started_by: Sequence[str] = ()) -> tuple[Path, list[str], bool]:
    """The project, the questions, and whether the planted program ran."""
    path, marker = project(tmp_path / "project"), tmp_path / "planted"
    python = installed_in(path / ".venv")
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    (packages / "uncompiled.py").write_text("")
    planted = statement.replace("{marker}", str(marker)).replace("{python}", sys.executable)
    replies = [{"statement": MADE + planted}, {"text": "Done."}, {"statement": "1"}, {"text": "Done."}]
    model = scripted(tmp_path, *replies)
    command = (*started_by, str(python))
    with Agent(tmp_path / "state", "--model", model, permission="reject_once", started_by=command) as agent:
        session = agent.open(path)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        for _ in range(2):
            assert agent.prompt(session, "Go.", seconds=60) == "end_turn"
    asked = [json.dumps(message) for message in agent.received if asks_permission(message)]
    assert sum(map(runs, agent.received)) > 1
    return path, asked, marker.exists()


@pytest.mark.slow
def test_an_interpreter_that_a_statement_replaces_by_the_host_asks(tmp_path: Path) -> None:
    path, asked, is_planted = acted(tmp_path, BY_HOST)
    assert (path / "made").exists()
    assert len(asked) == 1
    assert "Rewindow itself runs from it" in asked[0]
    assert not is_planted


@pytest.mark.slow
def test_programs_cannot_change_the_environment(tmp_path: Path) -> None:
    path, asked, is_planted = acted(tmp_path, BY_PROGRAMS)
    assert (path / "made").exists()
    assert (path / ".ran").read_text() == "[]"
    assert asked == []
    assert not is_planted


@pytest.mark.slow
def test_an_import_from_the_environment_asks_nothing(tmp_path: Path) -> None:
    source = (
        "import glob\npackages, = glob.glob('.venv/lib/python*/site-packages')\n"
        "import uncompiled\nassert not glob.glob(packages + '/__pycache__')\nopen('.ran', 'w').write('imported')\n"
    )
    path, asked, _ = acted(tmp_path, source)
    assert (path / ".ran").read_text() == "imported"
    assert asked == []


@pytest.mark.slow
@pytest.mark.skipif(subprocess.run([*WITHOUT_MOUNTS, "true"], check=False).returncode != 0, reason="needs util-linux")
def test_without_mounts_programs_write_nothing_in_the_project(tmp_path: Path) -> None:
    path, asked, is_planted = acted(tmp_path, BY_PROGRAMS, WITHOUT_MOUNTS)
    assert not (path / "made").exists()
    assert (path / ".ran").read_text() == "['chmod 777 .venv/bin']"  # only mounts could refuse that
    assert asked == []
    assert (path / ".venv" / "bin" / "python").is_symlink()
    assert not is_planted


PLANTED_MODULES: Final = """
import subprocess
for name in ("sitecustomize", "usercustomize", "helper"):
    subprocess.run(["sh", "-c", "echo 'open(\\"{marker}\\", \\"w\\")' > src/" + name + ".py"], check=True)
"""
IMPORTS_HELPER: Final = "import importlib.util as u; u.find_spec('helper') and __import__('helper')"


def test_modules_that_a_statement_left_do_not_run_when_the_workers_parent_starts_again(tmp_path: Path) -> None:
    path, marker = project(tmp_path / "project"), tmp_path / "planted"
    python = installed_in(tmp_path / "environment")
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    (packages / "src.pth").write_text(f"{path}/src\n{IMPORTS_HELPER}\n")
    planted = PLANTED_MODULES.replace("{marker}", str(marker))
    model = scripted(tmp_path, *({"statement": planted}, {"text": "Done."}, {"statement": "1"}, {"text": "Done."}))
    with Agent(tmp_path / "state", "--model", model, permission="reject_once", started_by=[str(python)]) as agent:
        session = agent.open(path)
        agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
        assert agent.prompt(session, "Go.", seconds=60) == "end_turn"
        parents = psutil.Process(agent.process.pid).children()
        kill_each(parents)
        assert_gone(parents)
        assert agent.prompt(session, "Go.", seconds=60) == "end_turn"
    assert list(path.glob("src/*.py"))
    assert sum(map(runs, agent.received)) > 1
    assert not marker.exists()
    subprocess.run([python, "-c", ""], check=True)
    assert marker.exists()  # so the modules were where Python looks


PLANTS_BYTECODE: Final = """
import subprocess
done = [name for name in ("typing", "pathlib") if not subprocess.run(
    ["sh", "-c", "for each in $(find cache -name " + name + ".cpython-*.pyc); do cp planted.pyc $each || exit 1; done"]
).returncode]
print(done, subprocess.run(["touch", "cache/x"]).returncode)
"""


@pytest.mark.slow
def test_bytecode_of_the_next_start_cannot_be_replaced(tmp_path: Path) -> None:
    path, marker = project(tmp_path / "project"), tmp_path / "planted"
    (path / "planted.py").write_text(f"open({str(marker)!r}, 'w')\n")
    py_compile.compile(str(path / "planted.py"), str(path / "planted.pyc"))
    given = {"PYTHONPYCACHEPREFIX": str(path / "cache"), "PYTHONDONTWRITEBYTECODE": ""}
    model = scripted(tmp_path, {"statement": PLANTS_BYTECODE}, {"text": "Done."})
    for _ in range(2):
        with Agent(tmp_path / "state", "--model", model, permission="reject_once", env=given) as agent:
            session = agent.open(path)
            agent.call("session/set_mode", {"sessionId": session, "modeId": "auto"})
            assert agent.prompt(session, "Go.", seconds=60) == "end_turn"
            assert agent.seen(lambda message: "[] 1" in json.dumps(message))
    assert list(path.glob("cache/**/typing.*.pyc"))
    assert not marker.exists()
