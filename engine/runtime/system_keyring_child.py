"""The script that asks the system's keyring: `python -S -s -P system_keyring_child.py PREFIX EXEC_PREFIX PATH...`.

A process of its own, because a keyring may block for ever, start threads, or print. Takes one request on standard
input and answers on standard output, both as JSON; `system_keyring` describes them. Imports nothing of this program.
Like the parent of workers, it is given its import path, because statements may write where `.pth` files are found.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

SERVICE = "rewindow"
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def main() -> None:
    """Answer the request."""
    if prctl := getattr(ctypes.CDLL(None), "prctl", None):  # which Linux alone has
        prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # so that statements cannot read the keys in its memory
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # with the thread that asks, which waits for the answer
    answer = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    request = json.load(sys.stdin.buffer)
    os.dup2(null, 0)  # a keyring that asks for a password gets none
    os.dup2(null, 1)
    sys.prefix, sys.exec_prefix, *sys.path[:] = sys.argv[1:]
    with open(answer, "w", encoding="utf-8") as file:
        json.dump(_answer(request), file)
    os._exit(0)  # a keyring's threads may not end


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        import keyring

        return _performed(keyring, request)
    except ImportError as error:
        return {"error": f"the keyring package cannot be imported: {error}"}
    except BaseException as error:  # of a keyring, which is foreign code
        return {"error": f"{type(error).__name__}: {error}".strip(": ")}


def _performed(keyring: Any, request: dict[str, Any]) -> dict[str, Any]:
    if keyring.get_keyring().priority <= 0:  # `fail` and `null`, which stand for none
        return {"error": "this system has no keyring"} if request["action"] == "set" else {}
    name = request.get("name", "")
    match request["action"]:
        case "set":
            keyring.set_password(SERVICE, name, request["key"])
            if keyring.get_password(SERVICE, name) != request["key"]:
                return {"error": "the key was not stored"}
        case "delete":
            if keyring.get_password(SERVICE, name) is not None:
                keyring.delete_password(SERVICE, name)
        case _:
            found = {name: keyring.get_password(SERVICE, name) for name in request["names"]}
            return {"keys": {name: key for name, key in found.items() if key}}
    return {}


main()
