"""Import an author's files again after they were edited, in a process that goes on: a notebook."""

import contextlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, chain
from pathlib import Path
from types import ModuleType
from typing import Final, final

from palestra.config import ResolvedConfig
from palestra.fleet.own_code import OwnCode, import_roots, search_path

USER_MODULES: Final = "palestra_user_"
"""The beginning of the names under which servers import files."""
_DIGESTS: Final = "__palestra_digests__"
"""The attribute of a file's module that holds the digests of the file, and of the author's modules that
it imports, from before its import."""


def forget_edited(code: OwnCode, path: Path) -> None:
    """Forget the modules of an author's code, so that they are read again, when it has been edited
    since the file at `path` was imported. All of them, because those that import an edited one hold
    parts of it.
    """
    modules = _imported_of(code)
    before = _imported_with(modules, path)
    if any(digests != code.digests for digests in before):
        _forget(chain(modules, *before))  # also those whose files are gone


def forget_strangers(paths: Mapping[str, Path]) -> None:
    """Forget modules of another author, which have the names of files to be imported."""
    _forget(
        name
        for name, path in paths.items()
        if (file := getattr(sys.modules.get(name), "__file__", None)) is not None
        and os.path.realpath(file) != os.path.realpath(path)
    )


def remember_code(module: ModuleType, code: OwnCode) -> None:
    """Note in the module of a file the code that it was imported with. The first note counts."""
    vars(module).setdefault(_DIGESTS, code.digests)


def forget_imported(file: str) -> None:
    """Forget the module of `file`, and the author's modules that it imports, so that they are read
    again: they, or the data that they read, may have been edited.
    """
    path = Path(file).resolve()
    code = OwnCode.of_file(path)
    modules = _imported_of(code)
    _forget(chain(modules, *_imported_with(modules, path)))


def forget_servers(config: ResolvedConfig) -> None:
    """Forget the author's modules of the servers in folders, as `forget_imported`."""
    for instance in config.instances.values():
        if instance.folder is not None and not instance.is_shipped:
            forget_imported(str(instance.folder / instance.entrypoint))


@final
class AuthorsFolders:
    """The folders that this process has added to `sys.path`, so that authors' files find what is beside
    them.
    """

    def __init__(self) -> None:
        self._added: list[str] = []

    @contextlib.contextmanager
    def first(self, path: Path) -> Iterator[None]:
        """Let imports in the body find what is beside the file at `path`, and imports in its functions
        later, before what is beside the files of others.
        """
        roots, before, ordered = import_roots(path), list(sys.path), search_path([path])
        sys.path[:] = ordered
        try:
            yield
        finally:
            # The file itself may have added some.
            start = sys.path.index(ordered[0]) if ordered[0] in sys.path else 0
            ahead, behind = sys.path[:start], [e for e in sys.path[start:] if e not in ordered]
            ours = [root for root in roots if root not in before or root in self._added]
            others = (entry for entry in self._added if entry in before and entry not in roots)
            self._added = [*ours, *others]
            remaining = [entry for entry in (*before, *behind) if entry not in self._added]
            sys.path[:] = [*ahead, *remaining, *self._added]


FOLDERS: Final = AuthorsFolders()
"""Those of this process."""


def _imported_with(modules: Mapping[str, ModuleType], path: Path) -> list[Mapping[str, str]]:
    """Return the digests of the code that the file at `path` was imported with, each time."""
    return [
        vars(module)[_DIGESTS]
        for module in modules.values()
        if _DIGESTS in vars(module) and os.path.realpath(str(module.__file__)) == str(path)
    ]


def _forget(names: Iterable[str]) -> None:
    """Forget modules, and those in them. A name without a module is ignored."""
    importlib.invalidate_caches()
    forgotten = {*names}
    for name in list(sys.modules):
        if forgotten.isdisjoint(accumulate(name.split("."), "{}.{}".format)):
            continue
        module = sys.modules.pop(name)
        # `from folder import name` would return it all the same.
        folder, _, last_name = name.rpartition(".")
        parent = sys.modules.get(folder)
        if parent is not None and vars(parent).get(last_name) is module:
            delattr(parent, last_name)
        # Python takes it for that of a file edited in the same second, if that is as long.
        if file := getattr(module, "__file__", None):
            with contextlib.suppress(OSError):
                Path(importlib.util.cache_from_source(file)).unlink()


def _imported_of(code: OwnCode) -> dict[str, ModuleType]:
    """Return the modules of the code that are imported, by name; never the program itself."""
    paths = {os.path.realpath(path) for path in code.paths.values()}
    file_names = {Path(path).name for path in paths}
    program = sys.modules.get("__main__")
    return {
        name: module
        for name, module in list(sys.modules.items())
        if module is not program
        and (file := getattr(module, "__file__", None)) is not None
        and file.rpartition(os.sep)[2] in file_names
        and os.path.realpath(file) in paths
    }
