"""`python -m conformance` is `rewindow-conformance`, and hides keys like that.

Only this module and the plugin for pytest lead to the start-up module; nothing that judges does.
"""

from __future__ import annotations

from rewindow_startup import rewindow_conformance

rewindow_conformance()
