"""The plan of start-up: what is loaded ahead of need is what is needed."""

from __future__ import annotations

import subprocess
import sys

LOADED = """
import sys
from acp_adapter import serving, stages
from acp_adapter.handlers import METHODS
from acp_adapter.wire.negotiation import codec_for

def loaded():
    return {name for name in sys.modules if name.startswith("acp_adapter.")}

codec = codec_for(1)
begun = loaded()
stages.load("answering", codec.package)
answering = loaded()
stages.load("session", codec.package)
session = loaded()
stages.load("prompt", codec.package)
everything = loaded()
for name in METHODS:
    METHODS[name]
codec.updates, codec.permissions, codec.files
# Some clients send notifications of documents, and hardly any signs in.
rare = {name for name in loaded() if name.startswith("acp_adapter.handlers.document_")}
late = loaded() - everything - rare - {"acp_adapter.handlers.authenticate"}
shapes = {name for name in answering if ".shapes." in name}
print(sorted(late), sorted(shapes), len(begun) < len(answering) < len(session) < len(everything))
"""


def test_every_stage_loads_something_and_after_the_last_nothing_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[] ['acp_adapter.wire.v1.shapes.initialize'] True"
