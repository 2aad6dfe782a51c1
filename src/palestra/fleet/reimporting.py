"""Import an author's files again after they were edited, in a process that goes on: a notebook."""

import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Final

from palestra.fleet.own_code import OwnCode

USER_MODULES: Final = "palestra_user_"
"""The beginning of the names under which servers import files."""
_DIGEST: Final = "__palestra_digest__"
"""The attribute of an imported module that holds the digest of its file."""


def remember_imported(path: Path) -> None:
    """Note in the modules that the file at `path` imports which text they were imported from."""
    for module, digest in _imported_of(OwnCode.of_file(path)):
        vars(module).setdefault(_DIGEST, digest)


def forget_imported(file: str) -> None:
    """Forget the module of `file`, so that it is read again: it may have been edited.

    When a module of the author that it imports has been edited, all of them are forgotten, because
    those that import the edited one hold parts of it.
    """
    modules = _imported_of(OwnCode.of_file(Path(file).absolute()))
    has_changed = _has_changed(modules)
    _forget(m for m, _ in modules if has_changed or m.__name__.startswith(USER_MODULES))


def forget_edited(code: OwnCode) -> None:
    """Forget the modules of an author's code, so that they are read again, when the file of one of
    them has been edited since it was imported.
    """
    modules = _imported_of(code)
    if _has_changed(modules):
        _forget(module for module, _ in modules)


def _has_changed(modules: Iterable[tuple[ModuleType, str]]) -> bool:
    return any(vars(module).get(_DIGEST, digest) != digest for module, digest in modules)


def _forget(modules: Iterable[ModuleType]) -> None:
    for module in modules:
        sys.modules.pop(module.__name__, None)


def _imported_of(code: OwnCode) -> list[tuple[ModuleType, str]]:
    """Return the modules of the code that are imported, with the digests that their files have now."""
    digests = {str(file): code.digests[name] for name, file in code.paths.items()}
    return [
        (module, digests[file])
        for module in list(sys.modules.values())
        if (file := getattr(module, "__file__", None)) in digests
    ]
