"""Makes each program of ours run as on another system, from its first import of `engine`.

Python loads this module at its start, because `portable.switch_on` puts its directory on PYTHONPATH for the programs
that tests start. Programs that import no `engine` of ours are left alone, such as those of statements.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


class _Trigger(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "engine":
            return None
        sys.meta_path.remove(self)
        found = PathFinder.find_spec(fullname, path)
        if found is not None and found.origin == os.path.join(ROOT, "engine", "__init__.py"):
            sys.path.insert(0, ROOT)
            switch = importlib.import_module("tests.support.portable")
            sys.path.remove(ROOT)
            switch.become_program()
        return None


if "REWINDOW_PORTABLE" in os.environ:
    sys.meta_path.insert(0, _Trigger())
