"""The lock is complete, so that an install which resolves nothing leaves nothing out, and it is installed as it is."""

from __future__ import annotations

import base64
import ensurepip
import hashlib
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHONS = [
    line.rsplit(" ", 1)[-1] for line in PROJECT["project"]["classifiers"] if re.search(r":: Python :: 3\.\d+$", line)
]
MACHINES = ["aarch64", "x86_64"]
SECONDS = 120

Target = dict[str, str]


def target(python: str, machine: str) -> Target:
    """What markers see on Linux with the first release of that Python, or with this one."""
    here = {key: str(value) for key, value in default_environment().items()}
    if here["python_version"] != python:
        here |= {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "implementation_version": f"{python}.0",
        }
    linux = {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux", "platform_machine": machine}
    return here | linux | {"implementation_name": "cpython", "platform_python_implementation": "CPython"}


def pinned(lock: str, where: Target) -> dict[str, str]:
    """The version of each project that the lock installs there."""
    found: dict[str, str] = {}
    for line in re.findall(r"^[a-z0-9].*?(?= \\$)", lock, re.MULTILINE):
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(dict(where)):
            (pin,) = requirement.specifier
            assert pin.operator == "=="
            assert requirement.name not in found, f"{requirement.name} is pinned twice"
            found[canonicalize_name(requirement.name)] = pin.version
    return found


def wanted_first() -> Iterator[str]:
    """What the two install commands of the Makefile need: dependencies, extras, the group and the build backend."""
    yield from PROJECT["project"]["dependencies"]
    for extra in PROJECT["project"]["optional-dependencies"].values():
        yield from extra
    yield from PROJECT["dependency-groups"]["dev"]
    yield from PROJECT["build-system"]["requires"]


def shortfalls(lock: str, where: Target) -> list[str]:
    """What the closure of the project asks for and the lock does not pin there, each with who asks.

    Packages say themselves what they need, as they are installed here. One that only another Python has in this version
    counts as needing what the version installed here needs.
    """
    pins = pinned(lock, where)
    found: list[str] = []
    waiting = [(text, "pyproject.toml", "") for text in wanted_first()]
    done = set(waiting)
    while waiting:
        text, asking, extra = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({**where, "extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        version = pins.get(name)
        if version is None:
            found.append(f"{asking} needs {requirement}, which is not pinned")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            found.append(f"{asking} needs {requirement}, and {version} is pinned")
        package = metadata.distribution(name)
        for each in sorted({"", *requirement.extras}):
            asked = [(need, f"{name}[{each}]" if each else name, each) for need in package.requires or ()]
            waiting += [need for need in asked if need not in done]
            done.update(asked)
        offered = {canonicalize_name(each) for each in package.metadata.get_all("Provides-Extra") or ()}
        found += [
            f"{asking} needs {requirement}, which has no extra {each}"
            for each in requirement.extras
            if canonicalize_name(each) not in offered
        ]
    return sorted(set(found))


@pytest.mark.parametrize(
    "machine", [MACHINES[0], *(pytest.param(each, marks=pytest.mark.slow) for each in MACHINES[1:])]
)
@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_is_pinned_and_satisfied(python: str, machine: str) -> None:
    assert shortfalls(LOCK, target(python, machine)) == []


def test_what_is_installed_here_is_what_the_lock_pins() -> None:
    pins = pinned(LOCK, target(f"{sys.version_info[0]}.{sys.version_info[1]}", os.uname().machine))
    assert {name: metadata.version(name) for name in pins} == pins


@pytest.mark.parametrize(
    ("python", "gone", "asking"),
    [
        ("3.11", "requests==", "google-auth[requests] needs requests"),  # asked for by an extra
        ("3.14", "anyio==", "pyproject.toml needs anyio"),
        ("3.12", r"numpy==[^ ]+ ; python_full_version >=", "pyproject.toml needs numpy"),  # of this Python alone
        ("3.13", "hatchling==", "pyproject.toml needs hatchling"),
    ],
)
def test_missing_pin_is_named_with_its_dependant(python: str, gone: str, asking: str) -> None:
    lock = re.sub(rf"^{gone}.*\n(?: .*\n)*", "", LOCK, flags=re.MULTILINE)
    assert lock != LOCK
    assert any(line.startswith(asking) for line in shortfalls(lock, target(python, "x86_64")))


def test_a_pin_outside_of_what_is_asked_for_is_named() -> None:
    lock = re.sub(r"^anyio==[^ ]+", "anyio==3.0", LOCK, flags=re.MULTILINE)
    assert any("anyio<5,>=4.16, and 3.0 is pinned" in line for line in shortfalls(lock, target("3.11", "x86_64")))


def install_command() -> str:
    """How the Makefile installs the lock, with the variables filled in by make."""
    planned = subprocess.run(
        ["make", "--always-make", "--dry-run", ".venv/.installed"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=SECONDS,
    )  # fmt: skip
    (command,) = [line for line in planned.stdout.splitlines() if "requirements.lock" in line]
    return command


def wheel(folder: Path, name: str, version: str, *fields: str) -> Path:
    """A wheel of one module; what it needs and which extras it has are `fields` of its metadata."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    head = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *fields]
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": "\n".join(head) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for inside, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{inside},sha256={digest},{len(text.encode())}\n"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(inside, text)
    return path


@pytest.fixture
def index(tmp_path: Path) -> Callable[[str, str], str]:
    """Adds a release to an index of files, and gives its line of a lock."""
    fields = {
        "client": ["Requires-Dist: auth[web]>=1", "Requires-Dist: typing"],
        "auth": ["Provides-Extra: web", 'Requires-Dist: web>=1; extra == "web"'],
    }

    def add(name: str, version: str) -> str:
        folder = tmp_path / "simple" / name
        folder.mkdir(parents=True, exist_ok=True)
        path = wheel(folder, name, version, *fields.get(name, ()))
        links = [f'<a href="{each.name}">{each.name}</a>' for each in sorted(folder.glob("*.whl"))]
        (folder / "index.html").write_text("<!DOCTYPE html><body>" + "\n".join(links) + "</body>")
        return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"

    return add


@pytest.mark.slow
def test_install_uses_pins_despite_newer_releases(tmp_path: Path, index: Callable[[str, str], str]) -> None:
    pins = {"client": "1.0", "auth": "1.0", "web": "1.0", "typing": "1.0"}
    (tmp_path / "requirements.lock").write_text("".join(index(name, version) for name, version in pins.items()))
    for name in pins:
        index(name, "2.0")
    venv.create(tmp_path / ".venv", with_pip=True)  # the pip that comes with this Python, which `make` has, too
    python = tmp_path / ".venv/bin/python"
    mine = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment = {
        **mine,
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_INDEX_URL": (tmp_path / "simple").as_uri(),
        "PIP_NO_CACHE_DIR": "1",
    }

    def run(command: str) -> str:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout

    assert run(f"{python} -m pip --version").split()[1] == ensurepip.version()
    run(install_command())
    installed = dict(line.split("==") for line in run(f"{python} -m pip freeze").splitlines())
    assert installed == pins
