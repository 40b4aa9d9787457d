"""`python -m conformance` is `rewindow-conformance`."""

from __future__ import annotations

import sys

from conformance.cli import main

raise SystemExit(main(sys.argv[1:]))
