"""Runs the conforming client, or the defect of a requirement: `python run_acp_client.py AGENT [ID]`."""

from __future__ import annotations

import signal
import subprocess
import sys

import acp_client
import acp_client_defects
import commands
import stdio_world

make = acp_client_defects.DEFECTS[sys.argv[2]] if len(sys.argv) > 2 else acp_client.Client
agent = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
stdio_world.run(lambda world: make(world, commands.Command), agent, signal.SIGINT)
