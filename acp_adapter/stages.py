"""What of the adapter is loaded when: the plan of start-up as one table, beside the engine's (`engine.Host.prepare`).

An editor waits for the answer to `initialize` and then for its first session. So nothing is loaded before it is needed,
and everything else ahead of need, while nobody waits. A name that begins with a dot is a module of the codec that the
connection speaks. Modules that are not in this table are ordinary imports of modules that are.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, Literal

Stage = Literal["answering", "session", "prompt"]

STAGES: Final[dict[Stage, tuple[str, ...]]] = {
    "answering": ("acp_adapter.handlers.initialize", ".handshake"),
    "session": ("acp_adapter.conversation", "acp_adapter.handlers.session_new", ".sessions"),
    "prompt": (
        ".updates",
        "acp_adapter.handlers.session_prompt",
        ".prompts",
        ".permissions",
        ".files",
        "acp_adapter.handlers.session_cancel",
        "acp_adapter.handlers.session_close",
        "acp_adapter.handlers.session_delete",
        "acp_adapter.handlers.session_fork",
        "acp_adapter.handlers.session_list",
        "acp_adapter.handlers.session_load",
        "acp_adapter.handlers.session_resume",
        "acp_adapter.handlers.session_set_config_option",
        "acp_adapter.handlers.session_set_mode",
    ),
}
"""By stage, in the order of a process's life: before `initialize` is read, after it was answered, and after the first
session was. The stages are the engine's own."""


def load(stage: Stage, codec: str) -> None:
    """Imports what the stage needs of the adapter; `codec` is the package of the codec in force."""
    for name in STAGES[stage]:
        import_module(name, codec)
