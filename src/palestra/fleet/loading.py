"""Load the server class from an implementation's folder and entrypoint."""

import ast
import importlib
import importlib.util
import inspect
import re
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from palestra.config import PACKAGE_ROOT, ServerType, did_you_mean
from palestra.errors import ConfigError
from palestra.fleet.importing import IMPORTS
from palestra.fleet.own_code import REPLACED, OwnCode, import_roots
from palestra.fleet.reimporting import (
    FOLDERS,
    USER_MODULES,
    forget_edited,
    forget_strangers,
    remember_code,
)
from palestra.fleet.unimportable import unimportable
from palestra.schema import JsonObject
from palestra.server import (
    EnvironmentDefinition,
    Server,
    class_of,
    refuse_unfinished,
    server_class_of,
    text_of,
)
from palestra.system import file_and_line, on_failure, shown

ALIASES: Final = "palestra.compat.aliases"
"""The module that makes the names of other frameworks importable. It is imported by name, because
it belongs to a layer above this package."""

FOREIGN: Final = "__palestra_server__"
"""The attribute of another framework's class that returns a Palestra server class wrapping it."""

ENTRYPOINT: Final = "app.py"
"""The usual name of the file in a server's folder that holds its class."""

_TREES: Final = frozenset(server_type.value for server_type in ServerType)
_SERVED = re.compile(r"^\s+(?:app = )?(\w+)\.run_webserver\(", re.MULTILINE)

_IMPORTS_FOREIGN: Final = re.compile(rf"^\s*(?:from|import) {REPLACED}\b", re.MULTILINE)
_OWN_BASES: Final = (
    "subclass ResourcesServer, Agent, ModelServer or Environment, or use @palestra.environment"
)
_FOREIGN_BASES: Final = f"subclass SimpleResourcesServer, SimpleResponsesAPIAgent or SimpleResponsesAPIModel of {REPLACED}"


def load_module(path: Path) -> ModuleType:
    """Import the file at `path`. A file of Palestra is imported by its package name.

    Raises ConfigError, with the author's error and line, when the import raises or exits. An import
    that does not end is ended from outside; see `AuthorImports`.
    """
    path = path.resolve()
    try:
        if path.is_relative_to(PACKAGE_ROOT):
            relative = path.relative_to(PACKAGE_ROOT).with_suffix("")
            return importlib.import_module(".".join(("palestra", *relative.parts)))
        with IMPORTS.importing(path), FOLDERS.first(path):
            code = OwnCode.of_file(path)
            forget_edited(code, path)
            forget_strangers({**code.paths, **_packages_of(path)})
            module = _load_foreign(path)
            remember_code(module, code)
            return module
    except ConfigError:
        raise
    except ImportError as error:
        raise unimportable(path, error, _line_in(path, error)) from error
    except (Exception, SystemExit) as error:
        where = file_and_line(path, _line_in(path, error))
        raise ConfigError(f"{where} cannot be imported: {_error_text(error, path)}") from error


def load_server_class(path: Path, class_name: str = "") -> type[Server]:
    """Return the server class (or the class of an environment) that the entrypoint `path` defines.

    `class_name`: the environment, where the file has several. Raises ConfigError when the file
    defines none, or several that are not subclasses of each other.
    """
    module = load_module(path)
    environments = _environments_in(module)
    if len(_not_extended(environments)) == 1 or class_name in environments:
        return server_class_of(load_environment(path, class_name), path.resolve())
    own_classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and (issubclass(value, Server) or hasattr(value, FOREIGN))
        and value.__module__ == module.__name__
        and not inspect.isabstract(value)
    ]
    last = [
        cls
        for cls in own_classes
        if not any(cls in other_class.__mro__[1:] for other_class in own_classes)
    ]
    last = _said_to_be_served(module, path) or last
    _refuse_mixture(path, own_classes)
    if len(last) == 1:
        return _as_ours(last[0])
    names = [*_not_extended(environments), *(cls.__name__ for cls in last)]
    if not names:
        _refuse_real_framework(module, path)
        _refuse_unfinished(module)
    found_names = ", ".join(names) or "none"
    raise ConfigError(
        f"{shown(path)} must define exactly one server class or environment; found: {found_names}",
        hint=_FOREIGN_BASES if _uses_foreign_names(path) else _OWN_BASES,
    )


def _uses_foreign_names(path: Path) -> bool:
    """Whether the file imports the package that the aliases replace."""
    return _IMPORTS_FOREIGN.search(path.read_text()) is not None


def _refuse_unfinished(module: ModuleType) -> None:
    """Raise ConfigError when the file has a server class that lacks a required method."""
    members: list[Any] = list(vars(module).values())
    for cls in members:
        if (
            inspect.isclass(cls)
            and cls.__module__ == module.__name__
            and (issubclass(cls, Server) or hasattr(cls, FOREIGN))
        ):
            refuse_unfinished(cls)


def _refuse_mixture(path: Path, classes: list[type[Any]]) -> None:
    """Raise ConfigError when some server classes are written against Palestra and others, or the
    same, against another framework.
    """
    ours = [cls.__name__ for cls in classes if issubclass(cls, Server)]
    foreign = [cls.__name__ for cls in classes if hasattr(cls, FOREIGN)]
    if ours and foreign:
        raise ConfigError(
            f"{shown(path)} mixes two APIs: {', '.join(ours)} has a base class of palestra, and "
            f"{', '.join(foreign)} has one of nemo_gym",
            hint="use the base classes of only one of them in this folder",
        )


def _refuse_real_framework(module: ModuleType, path: Path) -> None:
    """Raise ConfigError when a class of the file has a base class of NeMo Gym itself, not of
    Palestra's replacement.
    """
    for cls in vars(module).values():
        bases = cls.__mro__ if inspect.isclass(cls) and cls.__module__ == module.__name__ else ()
        for base in bases:
            if base.__module__.partition(".")[0] == REPLACED:
                real = getattr(sys.modules.get(REPLACED), "__file__", None) or REPLACED
                raise ConfigError(
                    f"{shown(path)}: {cls.__name__} has the base class {base.__name__} of the NeMo Gym at "
                    f"{real}, and Palestra serves only classes of its own `{REPLACED}`",
                    hint="two installed packages have this name: uninstall nemo-gym from the "
                    "Python that runs Palestra",
                )


def _said_to_be_served(module: ModuleType, path: Path) -> list[Any]:
    """Return the class whose `run_webserver` the file calls. The class may be defined in another
    file.
    """
    names = dict.fromkeys(_SERVED.findall(path.read_text()))
    served = [getattr(module, name, None) for name in names]
    return [cls for cls in served if hasattr(cls, FOREIGN)]


def _as_ours(cls: Any) -> type[Server]:
    server_class: type[Server] = cls if issubclass(cls, Server) else getattr(cls, FOREIGN)()
    return server_class


def _inside_function(path: Path, name: str) -> str:
    """Return the end of a hint when `name` is defined in a file, but not at its top level."""
    tree = ast.parse(path.read_bytes())
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    is_there = any(isinstance(node, kinds) and node.name == name for node in ast.walk(tree))
    return f"; {name} must be at the top level of the file, in no function" if is_there else ""


def load_environment(
    path: Path, class_name: str = "", *, settings: JsonObject | None = None
) -> EnvironmentDefinition:
    """Return the environment of a file. Its name is the file's stem; of an `app.py`, the folder's.

    `class_name`: its class, or the decorated function, where the file has several. `settings`:
    values for the settings of the class. Raises ConfigError: there is no such environment, or there
    are several and none is named.
    """
    subjects = _environments_in(load_module(path))
    if class_name and class_name not in subjects:
        raise ConfigError(
            f"{shown(path)} has no environment {class_name!r}{did_you_mean(class_name, subjects)}",
            hint=f"its environments: {', '.join(subjects) or 'none'}{_inside_function(path, class_name)}",
        )
    last = _not_extended(subjects)
    if not class_name and len(last) != 1:
        raise ConfigError(
            f"{shown(path)} must define exactly one environment; found: {', '.join(last) or 'none'}",
            hint=f"name one of them: {shown(path)}:{last[0]}"
            if last
            else "subclass palestra.Environment, or decorate a function with @palestra.environment",
        )
    subject = subjects[class_name or last[0]]
    folder = path.resolve().parent
    name = folder.name if path.name == ENTRYPOINT else path.stem
    return EnvironmentDefinition.of(subject, name=name, folder=folder, settings=settings)


def _environments_in(module: ModuleType) -> dict[str, Any]:
    """Return the environments that a module defines, by name: decorated functions and classes."""
    return {
        name: value
        for name, value in vars(module).items()
        if class_of(value) is not None
        and (not inspect.isclass(value) or value.__module__ == module.__name__)
    }


def _not_extended(subjects: Mapping[str, Any]) -> list[str]:
    """Return the names of the environments that are not the base class of another one."""
    classes = [subject for subject in subjects.values() if inspect.isclass(subject)]
    bases = {base for cls in classes for base in cls.__mro__[1:]}
    return [name for name, subject in subjects.items() if subject not in bases]


def _load_foreign(path: Path) -> ModuleType:
    """Import a user's file. Its project root is importable, as in the user's own tests."""
    importlib.import_module(ALIASES).install()
    if (foreign := _by_package_name(path)) is not None:
        return foreign
    # The sum tells apart files that have the same place in different projects.
    label = "_".join(path.with_suffix("").parts[-3:]).replace("-", "_")
    name = f"{USER_MODULES}{label}_{zlib.crc32(bytes(path)):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{shown(path)} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with on_failure(lambda: sys.modules.pop(name)):
        spec.loader.exec_module(module)
    return module


def _by_package_name(path: Path) -> ModuleType | None:
    """Import the file under the package name that its neighbours and tests use, if this name leads
    to the same file; else return None.

    Under another name, a module that other files import too would exist twice.
    """
    if not (names := [*_packages_of(path)]):
        return None
    name = names[-1]
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or Path(spec.origin).resolve() != path:
        return None
    return importlib.import_module(name)


def _packages_of(path: Path) -> dict[str, Path]:
    """Return the files of the packages that a server's file is in by its place, and that file itself,
    by the names by which its neighbours and tests import them; nothing for another file.
    """
    root = Path(import_roots(path)[-1])
    parts = path.relative_to(root).with_suffix("").parts
    if path.parent.parent.name not in _TREES or not "_".join(parts).isidentifier():
        return {}
    packages = {
        ".".join(parts[:depth]): root.joinpath(*parts[:depth], "__init__.py")
        for depth in range(1, len(parts))
    }
    return {**packages, ".".join(parts): path}


def _error_text(error: BaseException, path: Path) -> str:
    if not isinstance(error, SyntaxError) or not error.filename:
        return f"{type(error).__name__}: {text_of(error)}"
    elsewhere = f"{file_and_line(Path(error.filename), error.lineno)}: "
    line = f": {error.text.strip()}" if error.text else ""
    return (
        f"{'' if _is_in_file(error, path) else elsewhere}{type(error).__name__}: {error.msg}{line}"
    )


def _is_in_file(error: SyntaxError, path: Path) -> bool:
    return error.filename is not None and Path(error.filename).resolve() == path


def _line_in(path: Path, error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and _is_in_file(error, path):
        return error.lineno
    frame = error.__traceback__
    line: int | None = None
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(path):
            line = frame.tb_lineno
        frame = frame.tb_next
    return line
