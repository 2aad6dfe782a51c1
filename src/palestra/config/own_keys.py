"""Tells keys of a user's own from misspelt ones: own keys are used by code or by other values."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from palestra.errors import KnownCause, Problem


def is_in_code(word: str, folders: Iterable[Path]) -> bool:
    """Whether the Python code in one of the folders has a name. Hidden folders, such as virtual
    environments, are left out.
    """
    name = re.compile(rf"\b{re.escape(word)}\b")
    return any(
        name.search(file.read_text("utf-8", "replace"))
        for folder in folders
        for file in _code_in(folder)
    )


def is_interpolated(word: str, files: Iterable[Path]) -> bool:
    """Whether a value in one of the config files refers to a key of this name, as `${…}`."""
    reference = re.compile(rf"\$\{{[^}}]*\b{re.escape(word)}\b")
    return any(reference.search(file.read_text("utf-8", "replace")) for file in files)


def misspelt_key(where: str, near: str) -> Problem:
    """Return the problem of a key that is most likely a slip of `near`. `where`: its dotted path."""
    return Problem(
        f"nothing reads {where}; did you mean {near!r}?",
        hint=f"write {near}; a key of your own needs a name that is less similar",
        key=where,
        cause=KnownCause.MISSPELT_SETTING,
    )


def _code_in(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*.py"):
        if not any(part.startswith(".") for part in file.relative_to(folder).parts):
            yield file
