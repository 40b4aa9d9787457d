"""What the official registry of ACP agents checks: the entry, the icon, and how the package answers `initialize`.

Source: `build_registry.py` and `client.py` in the registry's repository.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from engine import __version__

ROOT = Path(__file__).parents[2]
ENTRY = ROOT / "registry" / "rewindow"
AGENT: dict[str, Any] = json.loads((ENTRY / "agent.json").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REQUIRED = {"id", "name", "version", "description", "distribution"}
OPTIONAL = {"repository", "website", "authors", "license", "license_url"}
COLOURS = {"currentcolor", "none", "inherit"}
SECONDS = 120
INITIALIZE = {
    "protocolVersion": 1,
    "clientInfo": {"name": "ACP Registry Validator", "version": "1.0.0"},
    "clientCapabilities": {
        "terminal": True,
        "fs": {"readTextFile": True, "writeTextFile": True},
        "_meta": {"terminal_output": True, "terminal-auth": True},
    },
}


def test_entry_has_the_required_fields() -> None:
    assert set(AGENT) >= REQUIRED
    assert set(AGENT) <= REQUIRED | OPTIONAL
    assert re.fullmatch(r"[a-z][a-z0-9-]*", AGENT["id"])
    assert AGENT["id"] == ENTRY.name
    assert AGENT["license"] == PROJECT["license"]
    assert all(AGENT[field] for field in AGENT)


def test_entry_is_of_this_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", AGENT["version"])
    assert AGENT["version"] == __version__


def test_entry_starts_the_package_of_this_version_with_its_extra() -> None:
    ((kind, distribution),) = AGENT["distribution"].items()
    package = re.fullmatch(r"([a-z-]+)\[([a-z]+)\]==(.+)", distribution["package"])
    assert package is not None
    assert (kind, package[1], package[3]) == ("uvx", PROJECT["name"], __version__)
    assert package[2] in PROJECT["optional-dependencies"]
    assert package[1] in PROJECT["scripts"]
    assert set(distribution) <= {"package", "args", "env"}


def test_icon_has_one_colour_of_the_editor_and_16_pixels() -> None:
    text = (ENTRY / "icon.svg").read_text(encoding="utf-8")
    icon = ET.fromstring(text)
    assert "<!--" not in text
    assert icon.tag.endswith("svg")
    assert (icon.get("width"), icon.get("height"), icon.get("viewBox")) == ("16", "16", "0 0 16 16")
    colours = {each.get(name, "").lower() for each in icon.iter() for name in ("fill", "stroke")} - {""}
    assert colours <= COLOURS
    assert "currentcolor" in colours
    assert not any(each.get("style") or each.tag.endswith("style") for each in icon.iter())


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the scripts of an environment with the built wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("registry")
    run = {"check": True, "capture_output": True, "timeout": SECONDS}
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, **run)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], **run)
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv" / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)], **run
    )
    (site,) = (folder / "venv" / "lib").glob("*/site-packages")
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python.parent


@pytest.mark.slow
def test_installed_package_offers_to_sign_in_without_a_key(installed: Path, tmp_path: Path) -> None:
    arguments = AGENT["distribution"]["uvx"]["args"]
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    done = subprocess.run(
        [str(installed / PROJECT["name"]), *arguments],
        input=json.dumps(request) + "\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "dumb"},
        timeout=SECONDS,
    )
    (line,) = done.stdout.splitlines()  # everything else would not be JSON
    result = json.loads(line)["result"]
    assert result["agentInfo"]["version"] == AGENT["version"]
    kinds = [
        way.get("type") or ("terminal" if "terminal-auth" in way.get("_meta", {}) else "agent")
        for way in result["authMethods"]
    ]
    assert kinds == ["terminal", "agent"]
    command = result["authMethods"][0]["_meta"]["terminal-auth"]
    assert (command["command"], command["args"]) == (str(installed / PROJECT["name"]), ["acp", "--setup"])


@pytest.mark.slow
def test_installed_setup_runs(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(installed / PROJECT["name"]), "acp", "--setup"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        timeout=SECONDS,
    )
    assert (done.returncode, "rewindow auth add" in done.stderr) == (1, True)
