"""The plan of start-up: every module in it exists, and once a stage is loaded nothing of ours is loaded in it later."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from engine.session.host import STAGES

SECONDS = 30.0
LIFE = """
import json, sys
from pathlib import Path
import anyio
from engine import Host, Settings

def ours():
    return {name for name in sys.modules if name.startswith("engine")}

async def main():
    late = {}
    async with Host(Settings(state_dir=Path(sys.argv[1])), {}) as host:
        host.prepare("answering")
        host.prepare("session")
        before = ours()
        session = await host.sessions.create(sys.argv[1])
        late["session"] = sorted(ours() - before)
        host.prepare("prompt")
        before = ours()
        await session.accept("ls('.')").end()
        await session.accept("/context").end()
        await host.sessions.close(session.session_id)
        await host.sessions.load(session.session_id)
        late["prompt"] = sorted(ours() - before)
    print(json.dumps(late))

anyio.run(main)
"""


@pytest.mark.parametrize("module", [module for modules in STAGES.values() for module in modules])
def test_every_module_of_the_plan_exists(module: str) -> None:
    assert find_spec(f"engine.{module}") is not None


@pytest.mark.slow
def test_what_a_stage_loads_is_all_that_it_needs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIFE, str(tmp_path)], capture_output=True, text=True, check=True, timeout=SECONDS
    )
    assert json.loads(done.stdout) == {"session": [], "prompt": []}
