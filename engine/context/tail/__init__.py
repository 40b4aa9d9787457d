"""What a model reads at one call, within an exact budget of tokens.

The worker's share is the tail block: the feed of changes and the table of handles. Texts in, texts out; no node and no
provider is known here.
"""

from __future__ import annotations
