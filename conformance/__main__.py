"""Makes `python -m conformance` the same as `rewindow-conformance`, which hides keys in its output.

Only this module and the pytest plugin import the start-up module.
"""

from __future__ import annotations

from rewindow_startup import rewindow_conformance

rewindow_conformance()
