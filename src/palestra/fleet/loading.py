"""From an implementation's folder and entrypoint to its server class."""

import importlib
import importlib.util
import inspect
import re
import sys
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from palestra.config import PACKAGE_ROOT, ServerType
from palestra.errors import ConfigError
from palestra.fleet.importing import importing
from palestra.fleet.unimportable import unimportable
from palestra.server import Environment, Server, server_class_of
from palestra.system import on_failure

ALIASES: Final = "palestra.compat.aliases"
"""Makes the names of other frameworks importable; by its name, as it stands above this package."""

FOREIGN: Final = "__palestra_server__"
"""What a class of another framework has that gives a server class of ours around it."""

_TREES: Final = frozenset(server_type.value for server_type in ServerType)
_SERVED = re.compile(r"^\s+(?:app = )?(\w+)\.run_webserver\(", re.MULTILINE)


def load_module(path: Path) -> ModuleType:
    """Import the file at `path`: by its package name when it is one of ours.

    Raises ConfigError, with the author's error and line, when importing it raises. One that does
    not end is ended by the process's guard; see `importing`.
    """
    path = path.resolve()
    try:
        if path.is_relative_to(PACKAGE_ROOT):
            relative = path.relative_to(PACKAGE_ROOT).with_suffix("")
            return importlib.import_module(".".join(("palestra", *relative.parts)))
        with importing(path):
            return _load_foreign(path)
    except ConfigError:
        raise
    except ImportError as error:
        raise unimportable(path, error, _line_in(path, error)) from error
    except Exception as error:
        line = _line_in(path, error)
        raise ConfigError(
            f"{path}{line} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def load_server_class(path: Path) -> type[Server]:
    """The server class (or `@environment`) that the entrypoint `path` defines.

    Raises ConfigError when there is none, or several that do not build on each other.
    """
    module = load_module(path)
    environments = [value for value in vars(module).values() if isinstance(value, Environment)]
    if len(environments) == 1:
        return server_class_of(environments[0], path.resolve())
    own = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and (issubclass(value, Server) or hasattr(value, FOREIGN))
        and value.__module__ == module.__name__
        and not inspect.isabstract(value)
    ]
    last = [cls for cls in own if not any(cls in other.__mro__[1:] for other in own)]
    last = _said_to_be_served(module, path) or last
    if len(last) == 1:
        return _as_ours(last[0])
    names = [made.name for made in environments] + [cls.__name__ for cls in last]
    found = ", ".join(names) or "none"
    raise ConfigError(
        f"{path} must define exactly one server class or @environment; found: {found}",
        hint="subclass ResourcesServer, Agent or ModelServer, or use @palestra.environment",
    )


def _said_to_be_served(module: ModuleType, path: Path) -> list[Any]:
    """The class whose `run_webserver` the file itself calls, which may come from another file."""
    names = dict.fromkeys(_SERVED.findall(path.read_text()))
    found = [getattr(module, name, None) for name in names]
    return [cls for cls in found if hasattr(cls, FOREIGN)]


def _as_ours(cls: Any) -> type[Server]:
    made: type[Server] = cls if issubclass(cls, Server) else getattr(cls, FOREIGN)()
    return made


def load_environment(path: Path) -> Environment:
    """The one `@environment` of a file. Raises ConfigError when it has none or several."""
    module = load_module(path)
    found = [value for value in vars(module).values() if isinstance(value, Environment)]
    if len(found) != 1:
        names = ", ".join(made.name for made in found) or "none"
        raise ConfigError(
            f"{path} must define exactly one @environment; found: {names}",
            hint="decorate one function with @palestra.environment",
        )
    return found[0]


def _load_foreign(path: Path) -> ModuleType:
    """A user's file. Its project root is importable, as it is when they run their tests."""
    root = path.parents[2] if len(path.parents) > 2 else path.parent
    for entry in (str(path.parent), str(root)):
        if entry not in sys.path:
            sys.path.append(entry)
    importlib.import_module(ALIASES).install()
    if (known := _by_package_name(path, root)) is not None:
        return known
    # The sum tells apart files that have the same place in different projects.
    label = "_".join(path.with_suffix("").parts[-3:]).replace("-", "_")
    name = f"palestra_user_{label}_{zlib.crc32(bytes(path)):08x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with on_failure(lambda: sys.modules.pop(name)):
        spec.loader.exec_module(module)
    return module


def _by_package_name(path: Path, root: Path) -> ModuleType | None:
    """The file under the name by which its neighbours and its tests import it, if that leads to it.

    Else what two files import of each other would exist twice.
    """
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    if path.parent.parent.name not in _TREES or not name.replace(".", "_").isidentifier():
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or Path(spec.origin).resolve() != path:
        return None
    return importlib.import_module(name)


def _line_in(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f":{error.lineno}"
    frame = error.__traceback__
    line = ""
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(path):
            line = f":{frame.tb_lineno}"
        frame = frame.tb_next
    return line
