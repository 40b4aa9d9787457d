"""psycopg is imported by the store in PostgreSQL alone, and not before that store is opened."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import chain
from typing import Final

from tests.support.stores import PATIENCE, ROOT

FOLDER: Final = ROOT / "engine/log/store/postgresql"
PACKAGES: Final = ("acp_adapter", "conformance", "engine", "mcp_tools", "session_page")
LAZY: Final = {"__init__", "store", "schema"}
"""The modules of the folder that others may import."""


def test_other_modules_import_neither_psycopg_nor_what_imports_it() -> None:
    heavy = "|".join(path.stem for path in FOLDER.glob("*.py") if path.stem not in LAZY)
    wanted = re.compile(
        rf"^\s*(import|from) psycopg\b|^from \S*postgresql\.({heavy}) import|^\s*from \S*postgresql import ({heavy})\b",
        re.MULTILINE,
    )
    sources = chain.from_iterable((ROOT / name).rglob("*.py") for name in PACKAGES)
    found = [path for path in sources if path.parent != FOLDER and wanted.search(path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(ROOT)) for path in found if "node_modules" not in path.parts] == []


def test_a_store_that_is_not_opened_imports_no_psycopg() -> None:
    source = (
        "import sys, engine.cli.doctor\n"
        "from pathlib import Path\n"
        "from engine import open_store\n"
        "from engine.core.clock import SystemClock\n"
        "open_store(Path('/nowhere'), SystemClock(), 'postgresql://me@nowhere/x').close()\n"
        "print([name for name in sys.modules if name.startswith('psycopg')])\n"
    )
    done = subprocess.run([sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout == "[]\n", done.stderr
