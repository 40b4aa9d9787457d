"""A Ray cluster: who may use it, and how a process joins and leaves it.

Everybody may write Ray's directories, and its processes trust what is there. So those of a cluster of this machine
alone are below one that only this account can enter. Ray serves everybody who reaches its ports, unless it uses its
token, so it must use that.

Ray is imported by `join`, after `authenticate` has set its variables. Called by the server of remote clients, and by
replays of many sessions.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tempfile
from contextlib import chdir
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from ..core.errors import InvalidRequestError
from ..core.installation import extra_command
from ..core.settings import DEFAULT_STORE

LOCAL_CLUSTER: Final = "local"
"""The address of a cluster of this machine alone, which begins and ends with the process that joins it."""
NAMESPACE: Final = "rewindow"
VARIABLES: Final = "RAY_"
"""Beginning of Ray's variables, which have its token. No statement may speak to Ray."""
CLUSTER_EXTRA: Final = "cluster"
NO_RAY: Final = "--cluster needs the extra `{}`; run: {}"
NOT_SHARED: Final = (
    "--cluster needs a store that all its nodes reach; set --store postgresql://USER@HOST/DATABASE, or use "
    "--cluster local"
)
NOT_AUTHENTICATED: Final = (
    "anyone who reaches the cluster could run programs on it; start Ray with RAY_AUTH_MODE=token on each node, and "
    "set it here, too, with the token in RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
)
_FOLDER: Final = "rw-"
"""How the directory of Ray's files begins. Its name is short, because sockets in it have paths of at most 107 bytes."""


class ClusterError(InvalidRequestError):
    """Raised if a cluster cannot be used; the message says why."""


def check_installed() -> None:
    """Raise ClusterError if Ray is not installed."""
    if find_spec("ray") is None:
        raise ClusterError(NO_RAY.format(CLUSTER_EXTRA, extra_command(CLUSTER_EXTRA)))


def authenticate(address: str, store: str) -> None:
    """Let Ray serve only who has its token. Ray reads this when it is imported.

    By itself Ray would keep a token in the home directory, where statements can read it. Raises ClusterError if the
    cluster is another one than LOCAL_CLUSTER and uses no token, or if its nodes cannot reach the store.
    """
    if address == LOCAL_CLUSTER:
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(), RAY_USAGE_STATS_ENABLED="0")
        return
    if store == DEFAULT_STORE:
        raise ClusterError(NOT_SHARED)
    if os.environ.get("RAY_AUTH_MODE") != "token":
        raise ClusterError(NOT_AUTHENTICATED)
    if token := os.environ.get("RAY_AUTH_TOKEN"):  # C code reads it, see `hardening.withhold_variables`
        os.environ["RAY_AUTH_TOKEN"] = token


def join(address: str) -> str | None:
    """Join the cluster at an address, or begin one of this machine; takes seconds.

    Args:
        address: `HOST:PORT` of the cluster's head, `auto`, or LOCAL_CLUSTER.

    Returns:
        The directory of Ray's files, for `leave`; None if others have begun the cluster.

    Raises:
        ClusterError: the cluster does not answer, or has another version of Python or Ray.
    """
    ray: Any = import_module("ray")
    folder: str | None = None
    local: dict[str, Any] = {}
    if address == LOCAL_CLUSTER:
        folder = tempfile.mkdtemp(prefix=_FOLDER)
        local = {"include_dashboard": False, "num_cpus": os.cpu_count(), "_temp_dir": os.path.join(folder, "r")}
    try:
        # Ray lets all its processes import from this directory, on every node, before any other module.
        with chdir("/"):
            ray.init(address, namespace=NAMESPACE, logging_level=logging.ERROR, log_to_driver=False, **local)
    except Exception as error:  # Ray raises plain ones, too, such as if it does not start within 30 s
        _remove(folder)
        raise ClusterError(f"cannot join the cluster at {address}: {error}") from None
    return folder


def leave(folder: str | None) -> None:
    """Leave the cluster, which ends if this process has begun it. Blocks."""
    import_module("ray").shutdown()
    _remove(folder)


def _remove(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
