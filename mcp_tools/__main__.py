"""`python -m mcp_tools` is `rewindow-mcp`."""

from __future__ import annotations

from rewindow_startup import rewindow_mcp

rewindow_mcp()
