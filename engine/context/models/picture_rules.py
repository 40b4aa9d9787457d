"""Which models take pictures, and how their providers count them, by name.

No list of models says it reliably before the first call, so a table of names decides. A model that is not in it takes
pictures; if its provider refuses one, the session tells the user and goes on without (`session.agent_loop`). Must not
import a provider's library. Called by `provider`.
"""

from __future__ import annotations

import re
from typing import Final

from ...core.pictures import PictureRule
from .providers import Route

_WITHOUT: Final = re.compile(
    r"gpt-3\.5|gpt-4-(?:0|1106|32k)|gpt-4$|o1-mini|o1-preview|o3-mini|gpt-oss|claude-(?:2|instant)|codestral|devstral"
    r"|magistral|deepseek|qwen(?!.*(?:vl|3\.[5-9]))|kimi-k2(?!\.5)|glm-\d[^v]*$|llama-?3(?!\.2.*vision)|phi-?[234](?!.*vision)"
    r"|gemma-?[12]|mixtral|mistral-(?:7b|nemo)|command-r|starcoder|codellama",
    re.IGNORECASE,
)
"""Names of models that read text alone."""
_PATCHES: Final = re.compile(r"(?:gpt-\d[\w.]*|o\d)-(?:mini|nano)", re.IGNORECASE)
"""Names of OpenAI's models that count patches. `gpt-4o-mini` counts tiles, at a price that makes it a large count."""
_BY_NAME: Final[dict[str, PictureRule]] = {"claude": "anthropic", "gemini": "google", "gemma": "google"}
_BY_PROVIDER: Final[dict[str, PictureRule]] = {
    "anthropic": "anthropic",
    "google": "google",
    "google-cloud": "google",
    "openai-responses": "openai-tiles",
    "openai-chat": "openai-tiles",
}
_OTHERWISE: Final[PictureRule] = "anthropic"


def picture_rule(route: Route) -> PictureRule | None:
    """Return how the provider of a model counts pictures; None if the model takes none.

    A provider without a rule of its own is counted as Anthropic, whose count is about the size of the others'.
    """
    model = route.model.partition(":")[2]
    if _WITHOUT.search(model):
        return None
    for part, named in _BY_NAME.items():
        if part in model.lower():
            return named
    rule = _BY_PROVIDER.get(route.provider.name, _OTHERWISE)
    return "openai-patches" if rule == "openai-tiles" and _PATCHES.search(model) else rule
