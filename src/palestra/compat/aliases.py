"""Make importable the module names under which existing environments import their framework and
each other.

    nemo_gym.x                    is palestra.compat.nemo_gym.x
    nemo_skills.x                 is palestra.cluster.nemo_skills.x, unless it is installed
    resources_servers.x.app       is the project's own, else palestra.resources_servers.x.app
    resources_servers.gymnasium   is the project's own, else palestra.compat.gymnasium
    responses_api_agents.simple_agent.app   likewise, else palestra.compat.simple_agent
    responses_api_agents.y.app    likewise, and responses_api_models.z.app

`AliasFinder` is the last finder of `sys.meta_path`, so that installed packages and the project's
modules come first. `BelowAliasFinder` is the first: it finds the submodules of an aliased module,
whose files would otherwise be imported twice.

A module or name of another product that Palestra lacks is an ImportError which names the nearest
one that exists, and the page with the list.
"""

import importlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final, final

from palestra.compat.missing_names import (
    PRODUCTS,
    explain_missing_names,
    names_beside,
    not_provided,
)
from palestra.config import SERVER_TREES, project_root
from palestra.errors import ModuleNotProvided

_TARGETS: Final = {
    "nemo_gym": "palestra.compat.nemo_gym",
    "nemo_skills": "palestra.cluster.nemo_skills",
    **{tree: f"palestra.{tree}" for tree in SERVER_TREES},
}
_FIELD_MODULES: Final = {
    "resources_servers.gymnasium": "palestra.compat.gymnasium",
    "responses_api_agents.simple_agent.app": "palestra.compat.simple_agent",
}
"""Modules of the field that other folders import as a library, and ours with their names."""
_CONVERTER: Final = "palestra.compat.nemo_gym.responses_converter"
_FIELD_NAMES: Final = {
    "responses_api_models.vllm_model.app": dict.fromkeys(
        (
            "VLLMConverter",
            "VLLMConverterResponsesToChatCompletionsState",
            "split_responses_input_output_items",
        ),
        _CONVERTER,
    )
}
"""Names that folders of the field import from a server of ours, and the module that has them."""


@final
class _SameModule(Loader):
    """A loader that returns the module already imported under its own name, `target`."""

    def __init__(self, target: str, alias: str) -> None:
        self._target = target
        self._alias = alias
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        del spec
        module = importlib.import_module(self._target)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the alias's spec into it.
        module.__spec__ = self._spec
        if self._alias.partition(".")[0] in {"nemo_gym", *SERVER_TREES}:
            explain_missing_names(module, self._alias, elsewhere=_FIELD_NAMES.get(self._alias, {}))


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
        if top not in _TARGETS or (top in PRODUCTS and remainder and not _is_alias_below(fullname)):
            return None
        ours = _FIELD_MODULES.get(fullname) or _TARGETS[top] + dot + remainder
        try:
            spec = importlib.util.find_spec(ours)
        except ModuleNotFoundError:
            return None
        if spec is None and top in PRODUCTS:
            raise ModuleNotProvided(not_provided(fullname, names_beside(ours)), name=fullname)
        if spec is None:
            return None
        return ModuleSpec(
            fullname,
            _SameModule(ours, fullname),
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

        Also the spec of the alias of `nemo_gym` when a checkout of it is on `sys.path` only because
        its servers are.
        """
        if fullname == "nemo_gym" and _is_in_a_project(fullname):
            return self._finder.find_spec(fullname, path, target)
        parent = fullname.rpartition(".")[0]
        if not parent or parent.partition(".")[0] not in _TARGETS:
            return None
        parent_module = sys.modules.get(parent)
        if parent_module is None or parent_module.__name__ == parent:
            return None
        if fullname.partition(".")[0] in PRODUCTS:
            # A checkout of the product on `sys.path` would mix its modules with ours.
            return self._finder.find_spec(fullname, path, target)
        # A project that was added after the alias had been made still goes first.
        inside = parent.replace(".", "/")
        folders = [str(folder) for entry in sys.path if (folder := Path(entry, inside)).is_dir()]
        own_spec = PathFinder.find_spec(fullname, folders) if folders else None
        return own_spec or self._finder.find_spec(fullname, path, target)


def _is_in_a_project(package: str) -> bool:
    """Whether `package` is a folder beside server trees, such as in a checkout, and not installed."""
    spec = PathFinder.find_spec(package)
    folder = Path(spec.origin).parent.parent if spec and spec.origin else None
    if folder is None or not any((folder / tree).is_dir() for tree in SERVER_TREES):
        return False
    return not importlib.metadata.packages_distributions().get(package)


def _is_alias_below(fullname: str) -> bool:
    """Whether the parent package of `fullname` is a Palestra package imported under an alias."""
    parent = fullname.rpartition(".")[0]
    module = sys.modules.get(parent)
    return module is not None and module.__name__ != parent


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


def make_importable(script: str) -> None:
    """Make importable what a script of a project imports: the alias names, and the files beside it
    and in the project, with the lowest priority.
    """
    install()
    folder = Path(script).resolve().parent
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    add_project(folder)
