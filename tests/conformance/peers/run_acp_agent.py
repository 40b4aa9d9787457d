"""Runs the conforming agent on stdio, or the defect of a requirement: `python run_acp_agent.py [ID]`."""

from __future__ import annotations

import os
import sys

import acp_agent
import acp_defects
import stdio_world

if stdio_world.KEEP in os.environ:
    acp_agent.Agent.kept = stdio_world.Files(os.environ[stdio_world.KEEP])
acp_agent.Agent.prefix = f"{os.getpid()}-"
make = acp_defects.DEFECTS[sys.argv[1]] if len(sys.argv) > 1 else acp_agent.Agent
stdio_world.run(lambda world: make(world, stdio_world.start_server))
