"""Say that Palestra does not provide a module or name of another product, and which one is nearest.

An import of a missing name is an ImportError. Any other access, such as `hasattr` or a patch in a
test, is an AttributeError.
"""

import importlib
import opcode
import pkgutil
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from palestra.config import nearest
from palestra.errors import NotProvided, not_provided_text


@dataclass(frozen=True, slots=True)
class Product:
    """A package of another product that Palestra replaces in part, and only when the real package is
    not installed.
    """

    owner: str
    """The product's name in messages, in the possessive form."""
    page: str = ""
    """The page that lists what Palestra provides of it; empty without one."""


PRODUCTS: Final = {
    "nemo_gym": Product("NeMo Gym's", page="docs/reference/from-nemo-gym.md"),
    "nemo_skills": Product("NeMo Skills'"),
}
_STARTS_SERVERS: Final = (
    "`async with palestra.fleet.Fleet(palestra.config.load_config(config_paths=[…]))` starts the "
    "servers and their head server; `palestra.collect` runs rows on servers, and "
    "`palestra.training.RolloutClient` does for a trainer"
)
_TRANSFERS_DATASETS: Final = "`palestra dataset upload` and `palestra dataset download` do its work"
_REPLACEMENTS: Final = {
    "train_data_utils": (
        "`ng_prepare_data` does its work, and `palestra.datasets.prepare_datasets` in Python"
    ),
    "dataset_orchestrator": _TRANSFERS_DATASETS,
    "gitlab_utils": _TRANSFERS_DATASETS,
    "hf_utils": _TRANSFERS_DATASETS,
    "cli": f"in place of `RunHelper`, {_STARTS_SERVERS}",
    "RunHelper": _STARTS_SERVERS,
    "HeadServer": _STARTS_SERVERS,
}
"""What to use in place of a module or name that Palestra has in another form."""
_SIMILAR_MODULE: Final = 0.82
"""The least similarity of a module that is suggested: `hf_utils` and `path_utils` have 0.78."""
_SIMILAR_NAME: Final = 0.7
"""The least similarity of a name in a module that is suggested."""
_COMPAT: Final = "palestra.compat."
_NO_ATTRIBUTE: Final = re.compile(
    r"(?:<(?:module|class) '(?P<owner>palestra\.compat\.[\w.]+)'.*>|'module' object at (?P<alias>nemo_gym[\w.]*)) "
    r"(?:has no|does not have the) attribute '(?P<name>\w+)'"
)
_IMPORT_FROM: Final = opcode.opmap["IMPORT_FROM"]


def not_provided(fullname: str, names: Collection[str]) -> str:
    """Return the error message for a module or name that Palestra lacks. `names`: the names that
    its package or module has.

    A name of a server folder, such as `resources_servers.x.app.Y`, is one of NeMo Gym's.
    """
    top, _, remainder = fullname.partition(".")
    if top not in PRODUCTS:
        top, remainder = "nemo_gym", fullname
    product = PRODUCTS[top]
    *parents, name = remainder.split(".")
    if name in _REPLACEMENTS:
        suggestion = f": {_REPLACEMENTS[name]}"
    else:
        cutoff = _SIMILAR_NAME if parents else _SIMILAR_MODULE
        near = nearest(name, names, cutoff=cutoff) or _prefix_of(name, names)
        suggestion = f": the nearest is `{'.'.join([*parents, near])}`" if near else ""
    page = f"; {product.page} lists what is" if product.page else ""
    return f"{not_provided_text(remainder, product.owner)}{suggestion}{page}"


def _prefix_of(name: str, names: Iterable[str]) -> str | None:
    """Return the longest of `names` with which `name` begins, such as `cli` for `client`."""
    return max((n for n in names if name.startswith(n)), key=len, default=None)


def names_beside(ours: str) -> list[str]:
    """Return the public names in the package of the module `ours`: its `__all__`, else its modules."""
    parent = sys.modules[ours.rpartition(".")[0]]
    return getattr(parent, "__all__", None) or [
        module.name for module in pkgutil.iter_modules(getattr(parent, "__path__", ()))
    ]


def _provided_by(module: ModuleType) -> list[str]:
    """Return the public names of `module` that it or another module of Palestra defines."""
    return [
        name
        for name in dir(module)
        if not name.startswith("_")
        and not isinstance(value := getattr(module, name), ModuleType)
        and str(getattr(value, "__module__", module.__name__)).startswith("palestra.")
    ]


def explain_missing_names(
    module: ModuleType, alias: str, *, elsewhere: Mapping[str, str] | None = None
) -> None:
    """Give `module` a `__getattr__` whose error for an unknown name says that Palestra lacks it.

    `from module import name` raises ImportError, any other access AttributeError. `elsewhere`:
    names that another module has, with that module.
    """
    inherited: Callable[[str], Any] | None = vars(module).get("__getattr__")
    if getattr(inherited, "explains", False):
        return

    def get(name: str) -> Any:
        if inherited is not None:
            try:
                return inherited(name)
            except AttributeError:
                pass
        if name.startswith("__"):
            raise AttributeError(f"module {alias!r} has no attribute {name!r}")
        if elsewhere is not None and name in elsewhere:
            return getattr(importlib.import_module(elsewhere[name]), name)
        message = not_provided(f"{alias}.{name}", _provided_by(module))
        # Python would replace the message of an AttributeError by its own.
        importer = sys._getframe(1)  # noqa: SLF001  # no other way shows whether it is an import
        if importer.f_code.co_code[importer.f_lasti] == _IMPORT_FROM:
            raise NotProvided(message, name=alias)
        raise AttributeError(message, name=name, obj=module)

    get.explains = True  # type: ignore[attr-defined]
    module.__getattr__ = get  # type: ignore[method-assign]


def explanation_of(message: str) -> str:
    """Return why a name of a `nemo_gym` module, or of a class there, is missing; empty when
    `message` is about something else.

    `message`: the text of an AttributeError, as pytest and `unittest.mock` write it when a test
    patches a missing name.
    """
    match = _NO_ATTRIBUTE.search(message)
    if match is None:
        return ""
    full_owner, name = match["owner"] or f"{_COMPAT}{match['alias']}", match["name"]
    owner = full_owner.removeprefix(_COMPAT)
    module = sys.modules.get(full_owner)
    if module is not None and owner.startswith("nemo_gym"):
        return not_provided(f"{owner}.{name}", _provided_by(module))
    module_name, _, cls_name = full_owner.rpartition(".")
    cls = getattr(sys.modules.get(module_name), cls_name, None)
    if cls is None:
        return ""
    names = [attribute for attribute in dir(cls) if not attribute.startswith("_")]
    return not_provided(f"nemo_gym.{cls_name}.{name}", names)


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
        raise NotProvided(
            not_provided(f"{package}.{name}", names_beside(f"{ours}.{name}")), name=package
        )

    return get
