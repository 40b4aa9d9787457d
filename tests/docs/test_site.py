"""The website of the documentation: its links, its table of contents, its lock, and a build of it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from docs.site.__main__ import contents, moved_links, pages
from tests.support.stores import ROOT

SITE = ROOT / "docs" / "site"
PYTHON = SITE / ".venv" / "bin" / "python"
SECONDS = 300
COPIED = {"README.md": "index.md", "docs/views.md": "views.md", "docs/how-to/undo.md": "how-to/undo.md"}


@pytest.mark.parametrize(
    ("source", "link", "moved"),
    [
        ("README.md", "docs/views.md", "views.md"),
        ("README.md", "docs/how-to/undo.md#files", "how-to/undo.md#files"),
        ("docs/views.md", "../README.md", "index.md"),
        ("docs/how-to/undo.md", "../views.md#state", "../views.md#state"),
        ("docs/how-to/undo.md", "../../README.md", "../index.md"),
        ("docs/views.md", "missing.md", "missing.md"),
        ("docs/views.md", "https://example.com/docs/views.md", "https://example.com/docs/views.md"),
        ("docs/views.md", "#state", "#state"),
    ],
)
def test_links_lead_to_the_copies(source: str, link: str, moved: str) -> None:
    assert moved_links(f"[a page]({link})", source, COPIED) == f"[a page]({moved})"


def test_every_page_is_in_the_contents_once() -> None:
    rows = re.findall(r"^([\w/-]+\.md)$", "".join(contents(pages())), re.MULTILINE)
    assert sorted([*rows, "index.md"]) == sorted(target for target in pages().values() if target.endswith(".md"))


def test_lock_pins_what_the_site_needs() -> None:
    group = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["site"]
    lock = (SITE / "requirements.lock").read_text(encoding="utf-8")
    for requirement in map(Requirement, group):
        pins = re.findall(rf"^{requirement.name}==([^ ]+)", lock, re.MULTILINE)
        assert pins
        assert all(map(requirement.specifier.contains, pins))


@pytest.mark.slow
def test_site_is_built_without_a_warning(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("Sphinx is not installed; `make site` installs it")
    built = subprocess.run(
        [PYTHON, "-m", "docs.site", str(tmp_path / "site")], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS
    )
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    written = {str(path.relative_to(tmp_path / "site")) for path in (tmp_path / "site").rglob("*.html")}
    assert {target.replace(".md", ".html") for target in pages().values() if target.endswith(".md")} <= written
    assert "search.html" in written
    assert "reversible" in (tmp_path / "site" / "searchindex.js").read_text(encoding="utf-8")
