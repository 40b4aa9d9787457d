"""What lies of this program in a session's directories, for an interpreter in a virtual environment there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.files.installation import Installation, own_installation
from engine.files.protected import Protection
from tests.support.planting import installed_in

ASKS = (
    "import sys, engine.files.installation as module\n"
    "found = module.own_installation(tuple(sys.argv[1:]))\n"
    "print(*found.parts, bool(found.open), sep='\\n')\n"
)


def asked(python: Path, *roots: Path) -> tuple[set[str], bool]:
    """The parts, relative to the first root, and whether the installation is open."""
    command = [python, "-c", ASKS, *map(str, roots)]
    *parts, is_open = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/").stdout.split("\n")[
        :-1
    ]
    return {str(Path(each).relative_to(roots[0])) for each in parts}, is_open == "True"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("installed") / "project"
    installed_in(path / ".venv")
    return path


def test_an_environment_in_a_project_is_part_as_a_whole(project: Path) -> None:
    assert asked(project / ".venv/bin/python", project) == ({".venv"}, False)
    assert asked(project / ".venv/bin/python", project.parent) == ({"project/.venv"}, False)


def test_a_project_in_an_environment_leaves_what_is_loaded(project: Path) -> None:
    parts, is_open = asked(project / ".venv/bin/python", project / ".venv")
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    assert {"bin", "pyvenv.cfg", f"lib/{version}/site-packages"} <= parts
    assert not is_open


def test_a_directory_of_what_is_loaded_cannot_be_protected(project: Path) -> None:
    assert asked(project / ".venv/bin/python", project / ".venv/bin") == (set(), True)


def test_a_link_to_the_environment_is_protected_by_its_directory(project: Path, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "venv").symlink_to(project / ".venv")
    assert asked(tmp_path / "links/venv/bin/python", tmp_path) == ({"links"}, False)
    assert asked(tmp_path / "links/venv/bin/python", tmp_path / "links") == (set(), True)


def test_what_is_loaded_from_a_checkout_is_part(project: Path) -> None:
    root = Path(__file__).parents[3]
    assert "engine" in asked(project / ".venv/bin/python", root)[0]


def test_the_directory_of_bytecode_is_part(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "cache"))
    assert asked(project / ".venv/bin/python", tmp_path) == ({"cache"}, False)


def test_nothing_elsewhere_is_part(tmp_path: Path) -> None:
    assert own_installation((str(tmp_path),)) == Installation()


def test_a_part_is_protected_and_not_looked_through(project: Path) -> None:
    environment = str(project / ".venv")
    protection = Protection((str(project),), Installation((environment,)))
    assert protection.places() == protection.places()
    assert environment in protection.places()
    assert protection.why(f"{environment}/bin/python")
    assert protection.holds_below(str(project))
    assert not protection.why(str(project / "src"))


def test_a_change_of_what_is_open_asks(tmp_path: Path) -> None:
    link = str(tmp_path / ".venv")
    protection = Protection((str(tmp_path),), Installation(open=(link,)))
    assert protection.why(link)
    assert protection.places() == Protection((str(tmp_path),)).places()


def test_a_directory_that_a_pth_file_leaves_on_the_path_is_part(tmp_path: Path) -> None:
    """Packages that are imported later may come from it."""
    python = installed_in(tmp_path / ".venv")
    (tmp_path / "src/later").mkdir(parents=True)
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    (packages / "added.pth").write_text(f"{tmp_path}/src\n")
    assert asked(python, tmp_path) == ({".venv", "src"}, False)
