"""The version of this program, and the command that adds one of its extras to the same environment.

The name `rewindow` on a package index may be another project's, so a command uses it only with the place that this
program was installed from. If no place is recorded, the command names the packages of the extra instead. Reads the
records of installers; runs nothing. Used for messages; the build reads the version.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__version__ = "0.1.0"
NAME: Final = "rewindow"
_EXTRA: Final = re.compile(r"""\s*;\s*extra\s*==\s*['"]([^'"]+)['"]\s*$""")
_CACHED: Final = re.compile(r"(archive|environments)-v\d+")
"""A folder of uv's cache in which uvx makes environments."""


def extra_command(extra: str) -> str:
    """Return the shell command that adds the extra to this installation."""
    from importlib.metadata import PackageNotFoundError, distribution  # for a message alone: it loads much

    try:
        found = distribution(NAME)
    except PackageNotFoundError:  # a checkout that is only on the import path
        found = None
    return command_for(extra, found, Path(sys.prefix), sys.executable, Path(__file__).parents[1])


def command_for(extra: str, found: Distribution | None, prefix: Path, python: str, home: Path) -> str:
    """Return the command for an installation.

    Args:
        found: what the installer recorded; None where nothing was installed.
        prefix: the environment.
        python: its interpreter.
        home: the folder that holds our packages.
    """
    if found is None:
        return f"{shlex.quote(python)} -m pip install {shlex.quote(f'{home}[{extra}]')}"
    packages = shlex.join(packages_of(extra, found))
    if (prefix / "pipx_metadata.json").exists():
        return f"pipx inject {shlex.quote(prefix.name)} {packages}"
    options, place = _place(extra, found)
    source = shlex.join([*options, place]) if place else packages
    if (prefix / "uv-receipt.toml").exists():
        return f"uv tool install {source}" if place else f"uv tool install {NAME} --with {packages}"
    if any(map(_CACHED.fullmatch, prefix.parts)):
        return f"uvx --from {shlex.quote(place)} {NAME}" if place else f"uvx --with {packages} {NAME}"
    if (found.read_text("INSTALLER") or "").strip() == "uv":
        return f"uv pip install --python {shlex.quote(python)} {source}"
    return f"{shlex.quote(python)} -m pip install {source}"


def packages_of(extra: str, found: Distribution) -> list[str]:
    """Return the requirements of the extra, as installers take them."""
    marked = ((each, _EXTRA.search(each)) for each in found.requires or ())
    return [each[: mark.start()] for each, mark in marked if mark is not None and mark[1] == extra]


def _place(extra: str, found: Distribution) -> tuple[list[str], str]:
    """Return options and a requirement for the installed source with the extra; empty if the source is unknown."""
    try:
        record: dict[str, Any] = json.loads(found.read_text("direct_url.json") or "{}")
        url, kind = str(record.get("url", "")), record.get("dir_info")
        if kind is not None:
            options = ["--editable"] if kind.get("editable") else []
            return options, f"{unquote(urlsplit(url).path)}[{extra}]"
        if "vcs_info" in record:
            revision = record["vcs_info"].get("requested_revision")
            url = f"{record['vcs_info']['vcs']}+{url}{f'@{revision}' if revision else ''}"
    except (ValueError, AttributeError, KeyError):  # written by another version of another program
        return [], ""
    return [], f"{NAME}[{extra}] @ {url}" if url else ""
