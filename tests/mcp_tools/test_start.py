"""What a client waits for at the start: the SDK and little of ours. The engine is loaded behind the first answer."""

from __future__ import annotations

import subprocess
import sys

import pytest

SECONDS = 30
LOADED = {
    "",
    "config",
    "core.settings",
    "cutting",
    "environment",
    "runtime.hardening",
    "runtime.zygote",
    "errors",
    "ids",
    "legible",
    "worker",
    "runtime.worker.processes",
    "runtime.worker.processes.brands",
    "runtime.worker.processes.privileges",
    "runtime.worker.processes.proc",
    "runtime.sandbox",
    "runtime.sandbox.capabilities",
    "runtime.sandbox.kernel",
    "runtime.sandbox.landlock",
}
"""Of the engine, when a server can answer. What comes in addition, every client waits for."""
SOURCE = """
import sys
import mcp_tools.cli
from engine import Zygote, harden_process, load_settings
from mcp_tools.serving import Service, serve_stdio
print(*[name for name in sys.modules if name.partition(".")[0] in ("engine", "acp_adapter", "conformance")])
"""


@pytest.mark.slow
def test_the_engine_is_not_loaded_before_the_first_answer() -> None:
    done = subprocess.run([sys.executable, "-c", SOURCE], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert {name.removeprefix("engine").removeprefix(".") for name in done.stdout.split()} == LOADED
