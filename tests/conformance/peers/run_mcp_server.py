"""Runs the conforming MCP server on stdio, or the defect of a requirement: `python run_mcp_server.py [ID]`."""

from __future__ import annotations

import sys

import mcp_defects
import mcp_server
import stdio_world

make = mcp_defects.DEFECTS[sys.argv[1]] if len(sys.argv) > 1 else mcp_server.Server
stdio_world.run(make)
