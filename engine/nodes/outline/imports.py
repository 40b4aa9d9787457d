"""What a text imports: the names as they are written, and which of them are of other packages.

Pure. Must not look whether a module exists: what is outside is told by the name and by the path of the text. Called by
the tiers that know a language.
"""

from __future__ import annotations

import re
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
    """Those of `names`, quotes and all, that are not of the package or the folders that the text is in; then plain."""
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
        )
    )
