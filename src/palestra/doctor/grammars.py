"""The installed grammar compilers, with which inference servers constrain tool call arguments.

vLLM tries them in this order: xgrammar; if it cannot compile the schema, llguidance; then outlines.
Each one is optional. xgrammar declares PyTorch as a dependency, but its compiler does not use it:
without PyTorch, xgrammar is loaded without the parts that need it.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final

GRAMMARS_EXTRA: Final = "tool-schemas"
XGRAMMAR, LLGUIDANCE, OUTLINES = "xgrammar", "llguidance", "outlines-core"

Compile = Callable[[str], str]
"""Compiles a JSON Schema given as text. Returns the error message; empty on success."""

_PLACE_IN_SOURCE = re.compile(r"^\[\d\d:\d\d:\d\d\] \S+:\d+: ")
_LONGEST_WHY = 300


def installed_compilers() -> dict[str, Compile]:
    """Return the installed compilers by name, in vLLM's order; empty without the extra
    `tool-schemas`.
    """
    loaders: Mapping[str, Callable[[], Compile]] = {
        XGRAMMAR: _xgrammar,
        LLGUIDANCE: _llguidance,
        OUTLINES: _outlines,
    }
    compilers: dict[str, Compile] = {}
    for name, load in loaders.items():
        try:
            compilers[name] = load()
        except (ImportError, AttributeError, OSError):
            continue  # absent, or of another age: the others are asked
    return compilers


def _xgrammar() -> Compile:
    grammar: Any = _without_pytorch() if _lacks("torch") else importlib.import_module("xgrammar")
    compiler = grammar.Grammar

    def compile_(schema: str) -> str:
        return _why(lambda: compiler.from_json_schema(schema))

    return compile_


def _without_pytorch() -> ModuleType:
    """Import `xgrammar.grammar` without running `xgrammar/__init__.py`, which imports PyTorch.

    Nothing stays in `sys.modules`: a later `import xgrammar` fails as it would have before.
    """
    spec = importlib.util.find_spec("xgrammar")
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError("xgrammar is not installed")
    shell = ModuleType("xgrammar")
    shell.__path__ = list(spec.submodule_search_locations)
    sys.modules["xgrammar"] = shell
    try:
        # Its exceptions are translated by what registers them there.
        importlib.import_module("xgrammar.load_binding")
        importlib.import_module("xgrammar.exception")
        return importlib.import_module("xgrammar.grammar")
    finally:
        for name in [n for n in sys.modules if n.partition(".")[0] == "xgrammar"]:
            del sys.modules[name]


def _llguidance() -> Compile:
    matcher: Any = importlib.import_module("llguidance").LLMatcher

    def compile_(schema: str) -> str:
        failed, messages = matcher.validate_grammar_with_warnings(
            matcher.grammar_from_json_schema(schema)
        )
        return _short("; ".join(messages)) if failed else ""

    return compile_


def _outlines() -> Compile:
    outlines: Any = importlib.import_module("outlines_core")
    vocabulary = outlines.Vocabulary(0, {chr(code): [code] for code in range(1, 127)})

    def compile_(schema: str) -> str:
        return _why(
            lambda: outlines.Index(outlines.json_schema.build_regex_from_schema(schema), vocabulary)
        )

    return compile_


def _lacks(library: str) -> bool:
    return importlib.util.find_spec(library) is None


def _why(compile_: Callable[[], object]) -> str:
    try:
        compile_()
    except Exception as error:  # each compiler has classes of its own, or none
        return _short(str(error)) or type(error).__name__
    return ""


def _short(text: str) -> str:
    sentence = " ".join(_PLACE_IN_SOURCE.sub("", text).split())
    return sentence if len(sentence) <= _LONGEST_WHY else sentence[:_LONGEST_WHY] + " …"


def grammar_versions() -> dict[str, str]:
    """Return the installed version of each compiler, for a report."""
    from importlib.metadata import PackageNotFoundError, version

    versions: dict[str, str] = {}
    for name in (XGRAMMAR, LLGUIDANCE, OUTLINES):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
