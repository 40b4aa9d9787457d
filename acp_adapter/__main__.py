"""`python -m acp_adapter` is `rewindow-acp`."""

from __future__ import annotations

from rewindow_startup import rewindow_acp

rewindow_acp()
