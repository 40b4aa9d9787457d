"""The start of the server: the engine is loaded after the first response."""

from __future__ import annotations

import subprocess
import sys

import pytest

SECONDS = 30


LOADED = {
    "",
    "core",
    "core.clock",
    "core.domain",
    "core.errors",
    "core.execution",
    "core.ids",
    "core.installation",
    "core.settings",
    "core.text",
    "runtime",
    "runtime.hardening",
    "runtime.sandbox",
    "runtime.sandbox.entering",
    "runtime.sandbox.kernel",
    "runtime.sandbox.landlock",
    "runtime.sandbox.mounts",
    "runtime.sandbox.seccomp",
    "runtime.worker",
    "runtime.worker.processes",
    "runtime.worker.processes.brands",
    "runtime.worker.processes.system",
    "runtime.zygote",
}
"""The engine modules of a server that can respond. Every client would wait for more."""


SOURCE = """
import sys
import mcp_tools.cli
from engine import Zygote, load_settings
from engine.runtime.hardening import harden_process
from mcp_tools.server import Service, serve_stdio
print(*[name for name in sys.modules if name.partition(".")[0] in ("engine", "acp_adapter", "conformance")])
"""


@pytest.mark.slow
def test_engine_is_not_loaded_before_first_response() -> None:
    done = subprocess.run([sys.executable, "-c", SOURCE], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert {name.removeprefix("engine").removeprefix(".") for name in done.stdout.split()} == LOADED
