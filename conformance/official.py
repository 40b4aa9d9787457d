"""Runs the official MCP conformance suite against a server over HTTP, and converts its verdicts to results.

The suite is npm `@modelcontextprotocol/conformance` and needs Node 22 or later. Most of its scenarios call fixtures
that only special servers have, such as a tool `test_simple_text`. Failures of those are reported and do not decide. The
other scenarios decide, because every server has what they need.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from conformance.documents import DOCUMENTS, OFFICIAL, Source
from conformance.judging import PASS, Requirement, Verdict, failed, skipped
from conformance.suite import Result
from conformance.values import as_list, as_object, as_text

PACKAGE: Final = "@modelcontextprotocol/conformance"
VERSIONS: Final = ("2025-11-25", "2026-07-28")
_OLDEST_NODE: Final = 22
_CONNECT: Final = 5.0
_SCENARIO: Final = re.compile(r"^server-(.+)-\d{4}-\d\d-\d\dT")
_GENERAL: Final = frozenset(
    {
        "caching",
        "dns-rebinding-protection",
        "http-header-validation",
        "ping",
        "server-initialize",
        "server-session-lifecycle",
        "tools-list",
    }
)
"""Scenarios that need no fixture and no capability except tools."""


class OfficialSuiteError(Exception):
    """Raised when the official suite cannot run. The text is for the user."""


def find(folder: Path | None) -> list[str]:
    """Return the suite's command, from the given folder or from here and above. Raises OfficialSuiteError."""
    node = shutil.which("node")
    if node is None or _major(node) < _OLDEST_NODE:
        raise OfficialSuiteError(f"the official suite needs Node {_OLDEST_NODE} or later on PATH")
    here = Path.cwd()
    homes = [folder] if folder is not None else [here, *here.parents]
    for home in homes:
        for script in (home / "node_modules" / PACKAGE / "dist/index.js", home / "dist/index.js"):
            if script.is_file() and PACKAGE in str(script.resolve()):
                return [node, str(script)]
    wanted = DOCUMENTS[OFFICIAL].version.rpartition(" ")[2]
    raise OfficialSuiteError(f"the official suite is not installed here: npm install {PACKAGE}@{wanted}")


def _major(node: str) -> int:
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)  # noqa: S603 -- found on PATH
    found = re.match(r"v(\d+)", done.stdout)
    return int(found[1]) if found else 0


def obstacle(url: str) -> str:
    """Return why the server cannot be judged; empty if something listens."""
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        with socket.create_connection((parts.hostname or "", port), _CONNECT):
            return ""
    except (OSError, ValueError) as error:
        return f"{url} cannot be reached: {error}"


def judge(url: str, command: list[str], seconds: float) -> list[Result]:
    """Run both required sets and return a result for each scenario. Raises OfficialSuiteError if the suite fails."""
    found: list[Result] = []
    for version in VERSIONS:
        with tempfile.TemporaryDirectory(prefix="rewindow-conformance-", ignore_cleanup_errors=True) as folder:
            said = _run([*command, "server", "--url", url, "--requirements", version, "-o", folder], seconds)
            reports = sorted(Path(folder).glob("*/checks.json"))
            if not reports:
                raise OfficialSuiteError(f"the official suite gave no verdict: {said[-300:].strip()}")
            found += [_result(version, report) for report in reports]
    return found


def _run(command: list[str], seconds: float) -> str:
    try:
        done = subprocess.run(  # noqa: S603 -- the suite that the user installed
            command, capture_output=True, text=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise OfficialSuiteError(f"the official suite did not end within {seconds:g} s") from None
    return done.stdout + done.stderr


def _result(version: str, report: Path) -> Result:
    named = _SCENARIO.match(report.parent.name)
    scenario = named[1] if named else report.parent.name
    checks = [as_object(check) for check in as_list(json.loads(report.read_bytes()))]
    shown = next((check for check in checks if check.get("status") == "FAILURE"), checks[0] if checks else {})
    quote = as_text(shown.get("description"))
    row = Requirement(
        f"MCP-O-{version}-{scenario}",
        "mandatory" if scenario in _GENERAL else "informational",
        f"The scenario {scenario} of the official suite passes in version {version}.",
        Source(OFFICIAL, scenario, quote),
        lambda _: PASS,
    )
    return Result(row, _verdict(checks))


def _verdict(checks: list[dict[str, Any]]) -> Verdict:
    for check in checks:
        if check.get("status") == "FAILURE":
            return failed(f"{as_text(check.get('description'))}: {as_text(check.get('errorMessage'))}")
    return (
        PASS if any(check.get("status") == "SUCCESS" for check in checks) else skipped("the scenario checked nothing")
    )
