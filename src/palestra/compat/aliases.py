"""Make importable the module names under which existing environments import their framework and
each other.

    nemo_gym.x                    is palestra.compat.nemo_gym.x
    nemo_skills.x                 is palestra.cluster.nemo_skills.x, unless it is installed
    resources_servers.x.app       is the project's own, else palestra.resources_servers.x.app
    responses_api_agents.y.app    likewise, and responses_api_models.z.app

`AliasFinder` is the last finder of `sys.meta_path`, so that installed packages and the project's
modules come first. `BelowAliasFinder` is the first: it finds the submodules of an aliased module,
whose files would otherwise be imported twice.
"""

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, final

from palestra.config import SERVER_TREES, nearest, project_root

_TARGETS: Final = {
    "nemo_gym": "palestra.compat.nemo_gym",
    "nemo_skills": "palestra.cluster.nemo_skills",
    **{tree: f"palestra.{tree}" for tree in SERVER_TREES},
}
_PRODUCTS: Final = {"nemo_skills": "NeMo Skills"}
"""Packages that Palestra replaces in part, and only when the real package is not installed."""


@final
class _SameModule(Loader):
    """A loader that returns the module already imported under its own name, `target`."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        del spec
        module = importlib.import_module(self._target)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the alias's spec into it.
        module.__spec__ = self._spec


@final
class AliasFinder(MetaPathFinder):
    """A finder for modules that no other finder has found: it maps the alias to the Palestra
    module.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the Palestra module that `fullname` is an alias of; None when it is no
        alias.
        """
        del path, target
        top, dot, remainder = fullname.partition(".")
        if top not in _TARGETS or (
            top in _PRODUCTS and remainder and not _is_alias_below(fullname)
        ):
            return None
        ours = _TARGETS[top] + dot + remainder
        try:
            spec = importlib.util.find_spec(ours)
        except ModuleNotFoundError:
            return None
        if spec is None and top in _PRODUCTS:
            raise ModuleNotFoundError(_not_provided(fullname, ours), name=fullname)
        if spec is None:
            return None
        return ModuleSpec(
            fullname,
            _SameModule(ours),
            origin=spec.origin,
            is_package=spec.submodule_search_locations is not None,
        )


@final
class BelowAliasFinder(MetaPathFinder):
    """A finder for the submodules of an aliased module."""

    def __init__(self, finder: AliasFinder) -> None:
        self._finder = finder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the module that `fullname` is an alias of; None when its parent is no
        alias.
        """
        parent = fullname.rpartition(".")[0]
        if not parent or parent.partition(".")[0] not in _TARGETS:
            return None
        parent_module = sys.modules.get(parent)
        if parent_module is None or parent_module.__name__ == parent:
            return None
        # A project that was added after the alias had been made still goes first.
        inside = parent.replace(".", "/")
        folders = [str(folder) for entry in sys.path if (folder := Path(entry, inside)).is_dir()]
        own_spec = PathFinder.find_spec(fullname, folders) if folders else None
        return own_spec or self._finder.find_spec(fullname, path, target)


def _is_alias_below(fullname: str) -> bool:
    """Whether the parent package of `fullname` is a Palestra package imported under an alias."""
    parent = fullname.rpartition(".")[0]
    module = sys.modules.get(parent)
    return module is not None and module.__name__ != parent


def _not_provided(fullname: str, ours: str) -> str:
    """Return the error message for a module or name that Palestra lacks, with the nearest existing
    name.
    """
    top, _, remainder = fullname.partition(".")
    package, _, name = ours.rpartition(".")
    parent = sys.modules[package]
    names = getattr(parent, "__all__", None) or [
        module.name for module in pkgutil.iter_modules(getattr(parent, "__path__", ()))
    ]
    near = nearest(name, names, cutoff=0.0)
    suggestion = (
        f": the nearest is `{'.'.join([*remainder.split('.')[:-1], near])}`" if near else ""
    )
    return f"{_PRODUCTS[top]}' `{remainder}` is not provided by Palestra{suggestion}"


def names_not_provided(package: str, ours: str) -> Callable[[str], Any]:
    """Return a module's `__getattr__`, for a Palestra module that replaces a part of another
    product.

    For an unknown name, `__getattr__` raises ImportError. Python would turn an AttributeError into
    an ImportError without our message.
    """

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{package}.{name}":
                raise
        raise ImportError(_not_provided(f"{package}.{name}", f"{ours}.{name}"), name=package)

    return get


def find_spec(
    fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
) -> ModuleSpec | None:
    """Return the spec of the Palestra module that `fullname` is an alias of; None when it is no
    alias.
    """
    return AliasFinder().find_spec(fullname, path, target)


def install() -> None:
    """Make the alias names importable in this process. Repeated calls have no further effect."""
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        last = AliasFinder()
        sys.meta_path.insert(0, BelowAliasFinder(last))
        sys.meta_path.append(last)


def add_project(path: Path) -> None:
    """Make the server folders of the project around `path` importable, with the lowest priority."""
    root = project_root(path)
    if root is not None and str(root) not in sys.path:
        sys.path.append(str(root))
