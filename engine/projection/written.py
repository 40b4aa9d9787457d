"""How statements stand in text, for models that cannot call tools: the cell as a block, what came of it in a fence.

One spelling for what a model is told to write, for what it reads of its earlier statements, and for what that costs.
Pure. Called by `instructions`, `prompt` and the models.
"""

from __future__ import annotations

from typing import Final

MEDIA_TYPE: Final = "text/x-python"
OPENING: Final = f'<script type="{MEDIA_TYPE}">'
CLOSING: Final = "</script>"
REST_LEFT_OUT: Final = "Only one statement of a reply is run; the rest of this reply was left out."
"""What user and model are told where a reply held more than its text and one statement."""
