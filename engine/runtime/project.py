"""What a project brings along: its Python environment, the variables statements may see, and secrets to hide.

Reads directories and `pyvenv.cfg` only; starts no process. Must not know sessions. Called by `sessions` when one is
opened, and by `doctor`.
"""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

_OURS: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
_ROOT_MARKS: Final = (".git", ".hg", ".svn")
"""A directory with one of these is the root of a workspace; no environment is looked for above it."""
_VERSION_KEYS: Final = ("version_info", "version")

_ALLOWED: Final = frozenset((
    "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR", "USER", "LOGNAME", "SHELL",
    "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "DISPLAY", "WAYLAND_DISPLAY",
    "EDITOR", "PAGER", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS",
))  # fmt: skip
_ALLOWED_PREFIXES: Final = ("LC_", "XDG_")
_SECRET_NAME: Final = re.compile(
    r"(?i)API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|(^|_)(AUTH|PAT)(_|$)"
)
_CREDENTIALS_IN_URL: Final = re.compile(r"://[^/\s@]*@")
_SHORTEST_SECRET: Final = 8
"""Characters; shorter values occur in ordinary text too often to be replaced."""
HIDDEN: Final = "***"


class ProjectEnvironment(Struct, frozen=True, kw_only=True):
    """Absolute import paths, the Python version statements run under, `name-version` of its packages, what to say.

    `note` is one sentence for `doctor` and the first reply where the project's environment cannot be used, else "".
    """

    import_paths: tuple[str, ...] = ()
    python: str = ".".join(map(str, sys.version_info[:3]))
    packages: tuple[str, ...] = ()
    note: str = ""


def find_project_environment(cwd: str, variables: Mapping[str, str], chosen: str | None) -> ProjectEnvironment:
    """The environment that `import` in statements should find packages in.

    Args:
        cwd: absolute directory of the session.
        variables: the host's environment variables, for VIRTUAL_ENV.
        chosen: an interpreter or an environment's directory that the user named, or None. It wins over VIRTUAL_ENV,
            which wins over `.venv` in `cwd` or a parent up to the workspace's root. A VIRTUAL_ENV that is this
            program's own comes last: it says how the host was started, not what the project needs.

    Never raises for what is or is not there; `note` says it.
    """
    if chosen:
        root = _root_of(chosen, cwd)
        return _examine(root) if root else ProjectEnvironment(note=f"--python {chosen} is in no virtual environment.")
    active = Path(variables["VIRTUAL_ENV"]) if variables.get("VIRTUAL_ENV") else None
    if active is not None and str(active) != sys.prefix:
        return _examine(active)
    root = _nearest(Path(cwd)) or active
    return _examine(root) if root else ProjectEnvironment()


def _root_of(chosen: str, cwd: str) -> Path | None:
    path = Path(cwd, chosen).expanduser()
    # The interpreter itself is a link out of the environment, so the path is taken as it is written.
    for root in (path, path.parent.parent):
        if _is_file(root / "pyvenv.cfg"):
            return root.resolve()
    return None


def _nearest(cwd: Path) -> Path | None:
    for directory in (cwd, *cwd.parents):
        if _is_file(directory / ".venv" / "pyvenv.cfg"):
            return directory / ".venv"
        if any(_exists(directory / mark) for mark in _ROOT_MARKS):
            return None
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _examine(root: Path) -> ProjectEnvironment:
    version = _version(root)
    if version is None:
        return ProjectEnvironment(note=f"{root} is no virtual environment that can be read; its packages are not used.")
    if version.split(".")[:2] != _OURS.split("."):
        return ProjectEnvironment(
            note=f"{root} is for Python {version} but statements run under {_OURS}; its packages are not used."
        )
    site = root / "lib" / f"python{_OURS}" / "site-packages"
    packages = _packages(site)
    if packages is None:
        return ProjectEnvironment(note=f"{site} cannot be read; its packages are not used.")
    return ProjectEnvironment(import_paths=(str(site),), packages=packages)


def _version(root: Path) -> str | None:
    try:
        text = (root / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    values = {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in text.splitlines())}
    found = next((values[key] for key in _VERSION_KEYS if values.get(key)), None)
    return found if found and re.match(r"\d+\.\d+", found) else None


def _packages(site: Path) -> tuple[str, ...] | None:
    try:
        names = [entry.name for entry in site.iterdir() if entry.suffix == ".dist-info"]
    except OSError:
        return None
    return tuple(sorted(name.removesuffix(".dist-info") for name in names))


def allowed_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that statements may see: an allow-list, and never one whose name or value looks like a secret."""
    return {
        name: value
        for name, value in environ.items()
        if (name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES))
        and not _SECRET_NAME.search(name)
        and not _CREDENTIALS_IN_URL.search(value)
    }


class Redactor:
    """Replaces known secret values in texts. Longer ones first, so that none is left in part."""

    def __init__(self, values: Iterable[str]) -> None:
        long = {value for value in values if len(value) >= _SHORTEST_SECRET}
        # As they are, and as they are written in JSON and in a repr.
        known = sorted({form for value in long for form in _forms(value)}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, known))) if known else None
        self._known = sorted(known)
        self._longest = len(known[0]) if known else 0

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Redactor:
        """For the values of variables whose names look secret."""
        return cls(value for name, value in environ.items() if _SECRET_NAME.search(name))

    def redact(self, text: str) -> str:
        """The text with every known value replaced by `***`."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text

    def redact_piece(self, text: str) -> tuple[str, str]:
        """The same for a text that goes on: what can be shown of it, and the rest, which may be the start of a value.

        The rest, usually empty and always shorter than a value, belongs in front of what comes next.
        """
        if self._pattern is None:
            return text, ""
        shown: list[str] = []
        start = 0
        while True:
            found = self._pattern.search(text, start)
            kept = self._open_value(text, start, found.start() if found else len(text) - 1)
            if found is None or kept is not None:
                end = len(text) if kept is None else kept
                return "".join([*shown, text[start:end]]), text[end:]
            shown += text[start : found.start()], HIDDEN
            start = found.end()

    def _open_value(self, text: str, start: int, last: int) -> int | None:
        """The first position from `start` to `last` from which the text is a value's beginning and not all of it."""
        for position in range(max(start, len(text) - self._longest + 1), last + 1):
            beginning = text[position:]
            # The values that begin with it, and are longer, come right after it in the order of texts.
            after = bisect_right(self._known, beginning)
            if after < len(self._known) and self._known[after].startswith(beginning):
                return position
        return None


def _forms(value: str) -> tuple[str, ...]:
    return value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]
