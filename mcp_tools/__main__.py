"""Run `rewindow-mcp` as `python -m mcp_tools`."""

from __future__ import annotations

from rewindow_startup import rewindow_mcp

rewindow_mcp()
