"""Context objects: windows on documents that render themselves within a budget of exact tokens.

Pure: content comes through the Files port, time through a callable. The worker makes one `Board` per session and
injects its names; models call the nodes' methods, whose CamelCase names are their specified DSL.
"""

from __future__ import annotations
