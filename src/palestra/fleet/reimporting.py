"""Import an author's files again after they were edited, in a process that goes on: a notebook."""

import sys
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
    for module, digest in _imported_by(path):
        vars(module).setdefault(_DIGEST, digest)


def forget_imported(file: str) -> None:
    """Forget the module of `file`, so that it is read again: it may have been edited.

    When a module of the author that it imports has been edited, all of them are forgotten, because
    those that import the edited one hold parts of it.
    """
    modules = _imported_by(Path(file).absolute())
    has_changed = any(vars(module).get(_DIGEST, digest) != digest for module, digest in modules)
    for module, _digest in modules:
        if has_changed or module.__name__.startswith(USER_MODULES):
            sys.modules.pop(module.__name__, None)


def _imported_by(path: Path) -> list[tuple[ModuleType, str]]:
    """Return the module of the file at `path`, the author's modules that it imports, and the digests
    that their files have now; of those that are imported.
    """
    code = OwnCode.of_file(path)
    digests = {str(file): code.digests[name] for name, file in code.paths.items()}
    return [
        (module, digests[file])
        for module in list(sys.modules.values())
        if (file := getattr(module, "__file__", None)) in digests
    ]
