"""Hold names, docstrings and documents to the project's language. `make check` runs it.

- A local variable, a parameter or a private name says what it holds: none is one of `VAGUE`.
- A docstring says more than one word.
- A paragraph of a document has at most `MOST_WORDS` words.
- A line that a document tells its reader to type has at most `MOST_CHARACTERS` characters.

Prints one line for each place, and exits with 1 when there is any.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
MOST_WORDS = 120
MOST_CHARACTERS = 120
VAGUE = frozenset(
    [
        "told",
        "said",
        "held",
        "found",
        "given",
        "made",
        "asked",
        "known",
        "kept",
        "wanted",
        "whole",
        "beside",
        "over",
        "again",
        "one",
        "each",
        "other",
        "own",
        "here",
        "there",
        "left",
        "taken",
        "shown",
        "sent",
        "read",
        "answered",
        "say",
        "tell",
        "look",
        "ended",
        "begun",
        "place",
        "places",
        "seen",
        "named",
        "rest",
        "more",
        "most",
        "alone",
        "meant",
        "met",
        "done",
    ]
)
"""Participles, pronouns and adverbs: they do not say of what."""

_FENCE = re.compile(r"^\s*```(\w*)")
_ITEM = re.compile(r"^\s*([-*]|\d+\.)\s")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Place = tuple[int, str]
"""A line, from 1, and what is wrong there."""


def vague_names(tree: ast.Module) -> Iterator[Place]:
    """Locals, parameters and private names that say nothing of what they hold."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_") and _is_vague(node.name):
                yield node.lineno, f"the function {node.name}"
            yield from _vague_locals(node)


def _vague_locals(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Place]:
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    parameters += [item for item in (arguments.vararg, arguments.kwarg) if item is not None]
    for parameter in parameters:
        if _is_vague(parameter.arg):
            yield parameter.lineno, f"the parameter {parameter.arg}"
    for node in ast.walk(function):
        is_binding = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        if is_binding and _is_vague(node.id):
            yield node.lineno, f"the variable {node.id}"


def _is_vague(name: str) -> bool:
    return name.strip("_") in VAGUE


def short_docstrings(tree: ast.Module) -> Iterator[Place]:
    """Docstrings of one word: they repeat the name, or say nothing."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED):
            docstring = ast.get_docstring(node)
            if docstring is not None and len(docstring.split()) < 2:  # one word
                yield getattr(node, "lineno", 1), f"the docstring {docstring!r}"


def long_paragraphs(text: str) -> Iterator[Place]:
    """Paragraphs and items of lists that have too many words. Tables and code are left out."""
    words, first, is_code = 0, 1, False
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        is_fence = _FENCE.match(line) is not None
        ends = is_fence or is_code or not line.strip() or line.lstrip().startswith(("|", "#", ">"))
        if (ends or _ITEM.match(line)) and words > MOST_WORDS:
            yield first, f"a paragraph of {words} words"
        if ends or _ITEM.match(line):
            words = 0
        if is_fence:
            is_code = not is_code
        elif not ends:
            first = first if words else number
            words += len(line.split())


def long_commands(text: str) -> Iterator[Place]:
    """Lines to type that do not fit a terminal."""
    language = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if fence := _FENCE.match(line):
            language = "" if language else fence[1] or "text"
        elif language == "console" and line.startswith("$ ") and len(line) > MOST_CHARACTERS:
            yield number, f"a command of {len(line)} characters"


def problems() -> Iterator[str]:
    """Every place, as `path:line: what`."""
    for path in sorted((REPOSITORY / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        places = {*vague_names(tree), *short_docstrings(tree)}
        yield from _lines(path, places)
    folders = ("docs", "src", "examples", "skills")
    documents = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.md")]
    for path in sorted([*documents, REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]):
        text = path.read_text(encoding="utf-8")
        yield from _lines(path, {*long_paragraphs(text), *long_commands(text)})


def _lines(path: Path, places: set[Place]) -> Iterator[str]:
    relative = path.relative_to(REPOSITORY)
    return (f"{relative}:{line}: {what}" for line, what in sorted(places))


if __name__ == "__main__":
    found_lines = list(problems())
    print("\n".join(found_lines) or "the language is as agreed")
    sys.exit(1 if found_lines else 0)
