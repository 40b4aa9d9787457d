"""The probe: what a statement runs to show all that the namespace holds, as one line of JSON."""

from __future__ import annotations

import hashlib
import inspect
import json
from typing import Any

__injected: list[str] = []
__ls: Any = None


def __probe() -> str:  # noqa: C901 -- one closure, because it goes into the session as one name
    space = globals()
    paths: dict[int, dict[str, str]] = {}
    kept: list[object] = []

    def walk(value: Any, name: str, path: str, seen: dict[int, int]) -> str:
        kind = type(value).__name__
        if value is None or type(value) in (bool, int, float, str, bytes):
            return repr(value)
        if kind == "module":
            return "module " + value.__name__
        if kind == "ViewHandle":
            return "view " + value.obj_id
        if kind in ("builtin_function_or_method", "type") and getattr(value, "__module__", "") != space["__name__"]:
            return kind + " " + value.__name__
        if id(value) in seen:
            return f"#{seen[id(value)]}"
        seen[id(value)] = len(seen)
        kept.append(value)
        if type(value) not in (tuple, frozenset):
            paths.setdefault(id(value), {}).setdefault(name, path)
        return structure(value, kind, lambda inner, step: walk(inner, name, path + step, seen))

    def structure(value: Any, kind: str, go: Any) -> str:
        if isinstance(value, (list, tuple)) or kind == "deque":
            members = ", ".join(go(each, f"[{n}]") for n, each in enumerate(value))
            return f"{kind}[{members}]"
        if isinstance(value, (set, frozenset)):
            return f"{kind}{{{', '.join(sorted(map(repr, value)))}}}"
        if isinstance(value, dict):
            members = ", ".join(repr(key) + ": " + go(each, f"[{key!r}]") for key, each in value.items())
            return f"{kind}{{{members}}}"
        if kind == "function":
            return function(value, go)
        if kind == "method":
            return f"method {value.__name__} of {go(value.__self__, '.self')}"
        if isinstance(value, type):
            inner = {key: each for key, each in sorted(vars(value).items()) if key[:2] != "__"}
            members = ", ".join(f"{key}: {go(each, '.' + key)}" for key, each in inner.items())
            return f"class {value.__name__}({', '.join(base.__name__ for base in value.__bases__)}) {members}"
        if kind == "Random":
            return "Random " + hashlib.md5(repr(value.getstate()).encode()).hexdigest()[:6]
        if getattr(type(value), "__module__", "") == space["__name__"]:
            state = {key: getattr(value, key) for key in getattr(type(value), "__slots__", ()) if hasattr(value, key)}
            members = ", ".join(f"{key}: {go(each, '.' + key)}" for key, each in state.items())
            return f"instance of {go(type(value), '.class')} {members} {go(getattr(value, '__dict__', None), '.dict')}"
        if kind == "partial":
            return f"partial {go(value.func, '.func')} {go(value.args, '.args')}"
        shown = repr(value)
        return kind if " at 0x" in shown else f"{kind} {shown}"

    def function(value: Any, go: Any) -> str:
        code = value.__code__
        cells = [go(cell.cell_contents, f".cell{n}") for n, cell in enumerate(value.__closure__ or ())]
        facts = (hashlib.md5(code.co_code).hexdigest()[:6], code.co_names, cells, value.__globals__ is space)
        return f"function {value.__name__} {facts} {go(value.__defaults__, '.defaults')} {go(vars(value), '.dict')}"

    own = {name: value for name, value in sorted(space.items()) if name[:2] != "__" and name not in __injected}
    names = {name: walk(value, name, "", {}) for name, value in own.items()}
    views: dict[str, dict[str, str]] = {}
    for value in space.values():
        if type(value).__name__ == "ViewHandle":
            digest = {key: str(each) for key, each in value.GetDigest().items()}
            views[value.obj_id] = {**digest, "text": str(value.Render())}
    shared = sorted(sorted(where.items()) for where in paths.values() if len(where) > 1)
    return "PROBE " + json.dumps(
        {"names": names, "views": dict(sorted(views.items())), "shared": shared, "table": repr(__ls())}
    )


PROBE = (
    "import hashlib, json\nfrom typing import Any\n"
    "__injected = [name for name in globals() if name[:2] != '__']\n__ls = ls\n" + inspect.getsource(__probe)
)
"""The first statement of a session, after which `__probe()` may be called."""
