"""What `rewindow doctor` looks at, in the order of its report. Each check is a function that gives findings.

Called by `doctor` alone. A check may raise EngineError or OSError; that is a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from . import environment, outlines, sandbox, storage, worker
from .finding import Finding

CHECKS: Final[tuple[tuple[str, Callable[[], Iterable[Finding]]], ...]] = (
    ("python", environment.python),
    ("configuration", environment.configuration),
    ("model", environment.model),
    ("secrets", environment.secrets),
    ("project", worker.project),
    ("search", worker.search),
    ("disk", storage.disk),
    ("permissions", storage.permissions),
    ("store", storage.sessions),
    ("past", storage.past),
    ("integrity", storage.integrity),
    ("in use", storage.in_use),
    ("tokens", worker.tokens),
    ("outlines", outlines.outlines),
    ("left behind", worker.left),
    ("worker", worker.statement),
    ("sandbox", sandbox.sandbox),
    ("other processes", sandbox.others),
)
