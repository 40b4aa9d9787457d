"""Optional fields that an agent has broken, in what it asks; those of answers and updates stand with these."""

from __future__ import annotations

from typing import Final

from conformance.judging_fields import Attempt, no_answer, no_result, takes_broken_fields
from conformance.requirement import Requirement
from conformance.requirements.acp1 import schema
from conformance.traffic import Traffic

_PROBE: Final = "_rewindow_conformance/alive"
"""What is asked behind a notification; any answer shows that the client still reads."""


def _refused(traffic: Traffic, attempt: Attempt) -> str:
    probed = attempt.request is not None and attempt.request.method == _PROBE
    return no_answer(traffic, attempt) if probed else no_result(traffic, attempt)


REQUIREMENTS: Final = (
    Requirement(
        "ACP1-C-RPC-018",
        "advisory",
        "The client takes optional fields of wrong types for absent in what it is asked, as the schema marks them.",
        schema("/$defs/RequestPermissionRequest/properties/_meta", '"x-deserialize-default-on-error": true'),
        takes_broken_fields(_refused, by="server"),
        scenario="requests-malformed",
        violation='"code":-32602 for "kind":7 in the tool call of a permission',
    ),
)
