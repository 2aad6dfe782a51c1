"""Explain why a server's file cannot be imported, and what to do. Installing a package often does
not help.

- `import rdkit`: a package; install it, or list it in requirements.txt;
- `import helper`: a file `helpers.py` with a similar name is in the same folder;
- `import nemo_gym.x.y`: Palestra does not provide this name of NeMo Gym;
- `from nemo_gym.x import y`: the same;
- `from rdkit import y`: the installed version has no such name.
"""

import importlib.metadata
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from palestra.config import PACKAGE_ROOT, ServerType, nearest
from palestra.errors import ConfigError, MissingExtra, NotProvided, instead_of, not_provided_text
from palestra.fleet.venvs import REQUIREMENTS, requirements_of, unsatisfied
from palestra.system import file_and_line

_NAME_OF_MODULE: Final = re.compile(
    r"cannot import name '([^']+)' from (?:partially initialized )?"
)
_COMPAT: Final = "palestra.compat."
_TREES: Final = frozenset(server_type.value for server_type in ServerType)
_OURS: Final = frozenset({"palestra", "nemo_gym"}) | _TREES


def unimportable(path: Path, error: ImportError, line: int | None = None) -> ConfigError:
    """Return the error to show for the file at `path`. `line`: the line of the failing import."""
    where = file_and_line(path, line)
    if isinstance(error, NotProvided):  # an alias of another product has said all of it
        return ConfigError(f"{where} cannot be imported: {error}", hint=_do_without(path))
    name = _NAME_OF_MODULE.search(str(error))
    if name is not None and error.name:
        return _without_name(path, where, error.name, name[1])
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _without_module(path, where, error.name)
    if isinstance(error, MissingExtra):
        return ConfigError(f"{where} cannot be imported: {error.reason}", hint=error.install)
    return ConfigError(f"{where} cannot be imported: {type(error).__name__}: {error}")


def _without_module(path: Path, where: str, module: str) -> ConfigError:
    top = module.partition(".")[0]
    if top in _OURS:
        return _not_provided(path, where, module, _modules_beside(module))
    neighbours = {file.stem for file in path.parent.glob("*.py")} - {path.stem}
    if near := nearest(module, neighbours, cutoff=0.8):
        return ConfigError(
            f"{where} needs the module {module!r}, which does not exist",
            hint=f"did you mean {near!r}? {near}.py is in the same folder",
        )
    if "." in module and _is_there(top):
        return _other_version(path, where, module, top)
    listed = path.parent / REQUIREMENTS
    return ConfigError(
        f"{where} needs the module {module!r}, which is not installed",
        hint=f"install it, or list it in {listed}"
        if not unsatisfied(requirements_of(path.parent if path.name == "app.py" else path))
        else f"only `palestra eval` and `palestra run` install {listed}; to import the file "
        f"here: pip install -r {listed}",
    )


def _without_name(path: Path, where: str, module: str, name: str) -> ConfigError:
    public = _public(module)
    full_name = f"{public}.{name}"
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    top = public.partition(".")[0]
    if top in _OURS and (file is None or Path(file).is_relative_to(PACKAGE_ROOT)):
        return _not_provided(
            path, where, full_name, {*dir(loaded), *getattr(loaded, "__all__", ())}
        )
    if file is not None and Path(file).is_relative_to(_project(path)):
        near = nearest(name, dir(loaded))
        return ConfigError(
            f"{where} cannot be imported: {file} has no {name!r}"
            + (f"; did you mean {near!r}?" if near else ""),
            hint=f"define {name!r} there, or correct the import",
        )
    return _other_version(path, where, full_name, top)


def _other_version(path: Path, where: str, name: str, package: str) -> ConfigError:
    try:
        version = f" {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        version = ""
    return ConfigError(
        f"{where} cannot be imported: the installed {package}{version} has no {name!r}",
        hint=f"correct the import, or list the version of {package} that has it in "
        f"{path.parent / 'requirements.txt'}",
    )


def _not_provided(path: Path, where: str, full_name: str, existing: Iterable[str]) -> ConfigError:
    parent, _, last = _public(full_name).rpartition(".")
    owner = "NeMo Gym's" if not full_name.startswith("palestra") else ""
    near = nearest(last, (name for name in existing if not name.startswith("_")))
    ours = instead_of(last) if parent == "palestra" else ""
    suggestion = f": the nearest is `{parent}.{near}`" if near and not ours else ""
    short_name = _public(full_name).removeprefix("nemo_gym.")
    return ConfigError(
        f"{where} cannot be imported: {not_provided_text(short_name, owner)}{suggestion}",
        hint=ours or _do_without(path),
    )


def _do_without(path: Path) -> str:
    return f"use a name that Palestra provides, or define what you need in a file of {path.parent}"


def _public(module: str) -> str:
    """Return the name under which authors import a module of Palestra."""
    for tree in _TREES:
        if module.startswith(f"palestra.{tree}"):
            return module.removeprefix("palestra.")
    return module.removeprefix(_COMPAT)


def _modules_beside(module: str) -> Sequence[str]:
    """Return the names of the modules in the package in which `module` was not found."""
    parent = module.rpartition(".")[0]
    paths = getattr(sys.modules.get(parent), "__path__", None)
    return [info.name for info in pkgutil.iter_modules(paths)] if paths else []


def _project(path: Path) -> Path:
    """Return the top folder of the user's own code that contains the file."""
    in_tree = len(path.parents) > 2 and path.parents[1].name in _TREES
    return path.parents[2] if in_tree else path.parent


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
