"""What a text imports: the names as they are written, and which of them are of other packages.

Pure. Must not look whether a module exists: what is outside is told by the name, by the path of the text, and by lists
of what comes with a language. Called by the tiers that know a language.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Final

from .nesting import NAME_CHARS, one_line

IMPORTS: Final = 500
"""Of one text at most."""
_RELATIVE: Final[dict[str, tuple[str, ...]]] = {
    "python": (".",),
    "javascript": (".", "/", "#", "@/", "~/"),
    "typescript": (".", "/", "#", "@/", "~/"),
    "tsx": (".", "/", "#", "@/", "~/"),
    "c": ('"',),
    "cpp": ('"',),
    "rust": ("crate", "self", "super"),
    "ruby": (".",),
    "php": (".", "/"),
    "bash": (),
    "html": (".", "/"),
    "css": (".", "/"),
}
"""What an import of the text's own package begins with."""
_OWN_FOLDERS: Final = frozenset({"python", "scala", "kotlin", "lua"})
"""Languages in which a path of folders is the name of a package."""
_C: Final = (
    r"(?:assert|complex|ctype|errno|fenv|float|inttypes|iso646|limits|locale|math|setjmp|signal|stdalign|stdarg|"
    r"stdatomic|stdbool|stddef|stdint|stdio|stdlib|stdnoreturn|string|tgmath|threads|time|uchar|unistd|wchar|wctype)"
    r"\.h\Z|sys/"
)
_NODE: Final = (
    r"node:|(?:assert|async_hooks|buffer|child_process|cluster|console|constants|crypto|dgram|dns|domain|events|fs|http|"
    r"http2|https|inspector|module|net|os|path|perf_hooks|process|punycode|querystring|readline|repl|stream|"
    r"string_decoder|timers|tls|tty|url|util|v8|vm|worker_threads|zlib)(?:/|\Z)"
)
_STANDARD: Final[dict[str, re.Pattern[str]]] = {
    language: re.compile(names)
    for language, names in {
        "javascript": _NODE,
        "typescript": _NODE,
        "tsx": _NODE,
        # Others begin with a domain.
        "go": r"[^./]+(?:/|\Z)",
        "rust": r"(?:std|core|alloc)(?:::|\Z)",
        "java": r"java\.",
        "kotlin": r"(?:kotlin|java)\.",
        "scala": r"(?:scala|java)\.",
        "csharp": r"System(?:\.|\Z)",
        "swift": r"(?:Foundation|Swift)\Z",
        "c": _C,
        "cpp": rf"{_C}|[^./]+\Z",
    }.items()
}
"""What comes with a language, which says nothing of a text; of Python the interpreter knows it."""
_QUOTES: Final = "\"'`<>;"
_NAME: Final = re.compile(r"[\w$]+")


def told(found: Iterable[str]) -> tuple[str, ...]:
    """The imports in their order, each once."""
    names = (one_line(name, NAME_CHARS) for name in found)
    return tuple(dict.fromkeys(name for name in names if name))[:IMPORTS]


def plain(name: str) -> str:
    """Without quotes and brackets, where the language does not need them to tell what is outside."""
    return name.strip().strip(_QUOTES).strip()


def outside(names: Iterable[str], language: str, path: str, package: str) -> tuple[str, ...]:
    """Those of `names`, quotes and all, that are neither of the package or the folders that the text is in, nor of what
    comes with the language; then plain."""
    relative = _RELATIVE.get(language, ())
    folders = set(path.replace("\\", "/").split("/")[:-1]) if language in _OWN_FOLDERS else set[str]()
    own = ".".join(_NAME.findall(package)[:2])
    return tuple(
        dict.fromkeys(
            plain(name)
            for name in names
            if not (relative and name.startswith(relative))
            and (_NAME.match(name) or [""])[0] not in folders
            and not (own and (".".join(_NAME.findall(name)) + ".").startswith(own + "."))
            and not _is_standard(plain(name), language)
        )
    )


def _is_standard(name: str, language: str) -> bool:
    if language == "python":
        return name.partition(".")[0] in sys.stdlib_module_names
    known = _STANDARD.get(language)
    return known is not None and known.match(name) is not None
