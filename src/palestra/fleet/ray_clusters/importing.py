"""Notices the import of Ray, which costs nothing until it comes."""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final, final

RAY: Final = "ray"


@final
class ImportWatch(MetaPathFinder):
    """Calls `before_import` once, when Ray is about to be imported; looking for it is no import."""

    def __init__(self, before_import: Callable[[], None]) -> None:
        self._before_import = before_import

    def begin(self) -> None:
        """Watch the imports of this process."""
        sys.meta_path.insert(0, self)

    def end(self) -> None:
        """Watch no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Ray's own, whose loader says so first."""
        if fullname != RAY:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Announcing(spec.loader, self)
        return spec

    def announce(self) -> None:
        """It is being imported."""
        self.end()
        self._before_import()


class _Announcing(Loader):
    """The loader of a module, which announces that it executes it."""

    def __init__(self, loader: Any, watch: ImportWatch) -> None:
        self._loader = loader
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        self._watch.announce()
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
