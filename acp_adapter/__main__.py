"""`python -m acp_adapter` is `rewindow-acp`."""

from __future__ import annotations

from acp_adapter.startup import rewindow_acp

rewindow_acp()
