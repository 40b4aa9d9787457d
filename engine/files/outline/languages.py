"""The table of languages with grammars.

A row tells how to recognize a file's language, and which names are public in it.

To add a language, add a row here, a file in `queries`, a wheel in `pyproject.toml` and a golden file of its outline.
Pure data; must not load a grammar. Used by every tier, and by `doctor`, which names missing wheels.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_UNDERSCORE: Final = re.compile(r"_")
_EXPORTED: Final = re.compile(r"export\b")
_HIDDEN: Final = re.compile(r"[^({=]*?\b(private|protected|internal|fileprivate)\b")


class Language(NamedTuple):
    """One language or format.

    `module` and `function` give the grammar. A file's suffix, its whole name, or the interpreter in its first line tell
    the language. `comment` begins a comment line, and tells the style of longer comments too. `hidden_name` matches
    names that are not public; `hidden` and `shown` match signatures that are not public, or alone are. `words` are the
    node types of identifiers, which count as references. `depth` limits the depth of nodes that are searched.
    """

    name: str
    module: str
    suffixes: tuple[str, ...]
    function: str = "language"
    names: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    comment: str = "//"
    hidden_name: re.Pattern[str] | None = None
    hidden: re.Pattern[str] | None = None
    shown: re.Pattern[str] | None = None
    words: tuple[str, ...] = ()
    depth: int = 60
    query: str = ""

    @property
    def query_file(self) -> str:
        return f"{self.query or self.name}.scm"

    @property
    def wheel(self) -> str:
        """The distribution with the grammar."""
        return self.module.replace("_", "-")


_SCRIPT_WORDS: Final = ("identifier", "property_identifier", "shorthand_property_identifier")
_TYPED_WORDS: Final = (*_SCRIPT_WORDS, "type_identifier")
_C_WORDS: Final = ("identifier", "type_identifier", "field_identifier")

_ROWS: Final = (
    Language(
        "python",
        "tree_sitter_python",
        (".py", ".pyi", ".pyw"),
        names=("SConstruct", "SConscript", "wscript"),
        interpreters=("python",),
        comment="#",
        hidden_name=_UNDERSCORE,
        words=("identifier",),
    ),
    Language(
        "javascript",
        "tree_sitter_javascript",
        (".js", ".mjs", ".cjs", ".jsx"),
        interpreters=("node", "deno", "bun"),
        hidden_name=re.compile(r"[_#]"),
        shown=_EXPORTED,
        words=_SCRIPT_WORDS,
    ),
    Language(
        "typescript",
        "tree_sitter_typescript",
        (".ts", ".mts", ".cts"),
        function="language_typescript",
        interpreters=("ts-node", "tsx"),
        hidden_name=re.compile(r"[_#]"),
        hidden=_HIDDEN,
        shown=_EXPORTED,
        words=_TYPED_WORDS,
    ),
    Language(
        "tsx",
        "tree_sitter_typescript",
        (".tsx",),
        function="language_tsx",
        hidden_name=re.compile(r"[_#]"),
        hidden=_HIDDEN,
        shown=_EXPORTED,
        words=_TYPED_WORDS,
        query="typescript",
    ),
    Language("c", "tree_sitter_c", (".c", ".h"), hidden=re.compile(r"static\b"), words=_C_WORDS),
    Language(
        "cpp",
        "tree_sitter_cpp",
        (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".ipp", ".tpp", ".cu", ".cuh", ".ino"),
        words=(*_C_WORDS, "namespace_identifier"),
    ),
    Language(
        "rust",
        "tree_sitter_rust",
        (".rs",),
        shown=re.compile(r"pub\b|impl\b|unsafe impl\b|macro_rules!"),
        words=("identifier", "type_identifier", "field_identifier"),
    ),
    Language(
        "go",
        "tree_sitter_go",
        (".go",),
        hidden_name=re.compile(r"(?:.*\.)?[^\W\dA-Z]"),
        words=("identifier", "type_identifier", "field_identifier", "package_identifier"),
    ),
    Language("java", "tree_sitter_java", (".java",), hidden=_HIDDEN, words=("identifier", "type_identifier")),
    Language("csharp", "tree_sitter_c_sharp", (".cs", ".csx"), hidden=_HIDDEN, words=("identifier",)),
    Language(
        "ruby",
        "tree_sitter_ruby",
        (".rb", ".rake", ".gemspec", ".ru"),
        names=("Rakefile", "Gemfile", "Podfile", "Vagrantfile"),
        interpreters=("ruby",),
        comment="#",
        hidden_name=_UNDERSCORE,
        words=("identifier", "constant"),
    ),
    Language(
        "php",
        "tree_sitter_php",
        (".php", ".phtml"),
        function="language_php",
        interpreters=("php",),
        hidden=_HIDDEN,
        words=("name",),
    ),
    Language(
        "bash",
        "tree_sitter_bash",
        (".sh", ".bash", ".zsh", ".ksh"),
        names=(".bashrc", ".bash_profile", ".profile", ".zshrc", "PKGBUILD", "APKBUILD"),
        interpreters=("bash", "sh", "dash", "ksh", "zsh"),
        comment="#",
        hidden_name=_UNDERSCORE,
        words=("command_name",),
    ),
    Language(
        "lua",
        "tree_sitter_lua",
        (".lua",),
        interpreters=("lua", "luajit"),
        comment="--",
        hidden=re.compile(r"local\b"),
        words=("identifier",),
    ),
    Language("kotlin", "tree_sitter_kotlin", (".kt", ".kts"), hidden=_HIDDEN, words=("identifier",)),
    Language("swift", "tree_sitter_swift", (".swift",), hidden=_HIDDEN, words=("simple_identifier", "type_identifier")),
    Language("scala", "tree_sitter_scala", (".scala", ".sc"), hidden=_HIDDEN, words=("identifier", "type_identifier")),
    Language("markdown", "tree_sitter_markdown", (".md", ".markdown", ".mdx", ".mdown"), comment="", depth=12),
    Language(
        "json",
        "tree_sitter_json",
        (".json", ".jsonc", ".json5", ".ipynb", ".webmanifest", ".geojson"),
        names=(".babelrc", ".eslintrc", ".prettierrc"),
        depth=4,
    ),
    Language(
        "yaml",
        "tree_sitter_yaml",
        (".yaml", ".yml"),
        names=(".clang-format", ".clang-tidy"),
        comment="#",
        depth=7,
    ),
    Language(
        "toml",
        "tree_sitter_toml",
        (".toml",),
        names=("Cargo.lock", "poetry.lock", "uv.lock", "Pipfile"),
        comment="#",
        depth=3,
    ),
    Language("html", "tree_sitter_html", (".html", ".htm", ".xhtml"), comment="", depth=40),
    Language("css", "tree_sitter_css", (".css",), comment="/*", depth=8),
)

LANGUAGES: Final[dict[str, Language]] = {row.name: row for row in _ROWS}
_BY_NAME: Final = {name.casefold(): row for row in _ROWS for name in row.names}
_BY_SUFFIX: Final = {suffix: row for row in _ROWS for suffix in row.suffixes}
_BY_INTERPRETER: Final = {name: row for row in _ROWS for name in row.interpreters}
_INTERPRETER: Final = re.compile(rb"#!\s*\S*?(?:/env\s+(?:-\S+\s+)*)?([\w-]+?)[\d.]*(?:\s|$)")
_HEAD: Final = 200
_CPP: Final = re.compile(rb"^[ \t]*(?:namespace|class|template|using)\b", re.MULTILINE)
"""Text of headers that is C++ and not C."""
_LOOKED_AT: Final = 1 << 16


def language_of(path: str, text: bytes = b"") -> Language | None:
    """Return the language of a file by its name or first line.

    Returns None if unknown.
    """
    name = path.replace("\\", "/").rpartition("/")[2].casefold()
    if found := _BY_NAME.get(name):
        return found
    stem, dot, suffix = name.rpartition(".")
    if suffix == "h" and stem and _CPP.search(text[:_LOOKED_AT]):
        return LANGUAGES["cpp"]
    if stem and (found := _BY_SUFFIX.get(dot + suffix)):
        return found
    shebang = _INTERPRETER.match(text[:_HEAD])
    return _BY_INTERPRETER.get(shebang[1].decode()) if shebang else None
