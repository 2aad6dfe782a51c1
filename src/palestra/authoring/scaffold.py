"""`init`: make the complete folder of a new environment, which passes its own tests."""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from palestra.errors import ConfigError, KnownCause
from palestra.system import move

TEMPLATE: Final = Path(__file__).with_name("template")
SERVERS: Final = "resources_servers"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SUFFIX = ".template"
"""The suffix of template files whose real name would have an effect inside the template folder."""


def scaffold(where: str, cwd: Path) -> Path:
    """Make the folder of a new environment; `where` is its name or `resources_servers/<name>`.

    Raises ConfigError, and writes nothing: the name is not valid, or the folder exists already.
    """
    folder = _folder_of(where, cwd)
    if folder.exists():
        raise ConfigError(
            f"{folder} exists already",
            hint="choose another name, or move it away first",
            cause=KnownCause.OUTPUT_EXISTS,
        )
    texts = render(folder.name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Written beside, and moved when it is whole.
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for path, text in texts.items():
            target = unfinished / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        unfinished.chmod(0o777 & ~_umask())
        move(unfinished, folder)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise ConfigError(f"{folder}: {error.strerror}") from error
    return folder


def write_config(where: str, cwd: Path) -> Path:
    """Write `configs/<name>.yaml` into an environment's folder that has no config, and return its
    path.

    Raises ConfigError: the folder has no `app.py`, or it has this config already.
    """
    folder = _folder_of(where, cwd)
    if not (folder / "app.py").exists():
        raise ConfigError(
            f"{folder / 'app.py'} does not exist, so there is nothing to configure",
            hint=f"palestra init {where} makes a whole folder",
        )
    target = config_path(folder)
    if target.exists():
        raise ConfigError(
            f"{target} exists already",
            hint="edit it, or move it away first",
            cause=KnownCause.OUTPUT_EXISTS,
        )
    try:
        target.parent.mkdir(exist_ok=True)
        target.write_text(render(folder.name)[target.relative_to(folder)], encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{target}: {error.strerror}") from error
    return target


def config_path(folder: Path) -> Path:
    """Return the path of the config in an environment's folder."""
    return folder / "configs" / f"{folder.name}.yaml"


def _folder_of(where: str, cwd: Path) -> Path:
    path = Path(where)
    name = path.name
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a name for an environment",
            hint="lower-case letters, digits and underscores, a letter first: my_env",
        )
    if path == Path(name):
        return cwd / SERVERS / name
    folder = cwd / path
    if folder.parent.name != SERVERS:
        raise ConfigError(
            f"{where} is not in a folder named {SERVERS}, where servers are looked for",
            hint=f"{SERVERS}/{name}",
        )
    return folder


def render(name: str) -> Mapping[Path, str]:
    """Return the text of every file of a new environment's folder, by its path in the folder."""
    words = {
        "@NAME@": name,
        "@CLASS@": "".join(part.capitalize() for part in name.split("_")),
        "@TITLE@": name.replace("_", " "),
    }
    texts: dict[Path, str] = {}
    for path in sorted(TEMPLATE.rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        for placeholder, word in words.items():
            text = text.replace(placeholder, word)
        relative = str(path.relative_to(TEMPLATE)).removesuffix(_SUFFIX).replace("@NAME@", name)
        texts[Path(relative)] = text
    return texts


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
