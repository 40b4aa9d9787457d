"""Runs the conforming agent of version 2 on stdio, or the defect of a requirement: `python run_acp2_agent.py [ID]`."""

from __future__ import annotations

import sys

import acp2_agent
import acp2_defects
import stdio_world

make = acp2_defects.DEFECTS[sys.argv[1]] if len(sys.argv) > 1 else acp2_agent.Agent
stdio_world.run(make)
