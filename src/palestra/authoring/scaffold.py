"""`init`: make the complete folder of a new environment, which passes its own tests."""

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from palestra.errors import ConfigError, KnownCause
from palestra.system import move, write_whole

TEMPLATES: Final = Path(__file__).with_name("templates")
COMMON: Final = "common"
"""The template with the files that all others share; they may have their own instead."""
SERVERS: Final = "resources_servers"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SUFFIX = ".template"
"""The suffix of template files whose real name would have an effect inside the template folder."""


class Template(StrEnum):
    """What a new environment is like."""

    SINGLE = "single"
    """The model answers once, and the answer is compared."""
    TOOLS = "tools"
    """The model calls tools that change the state of the rollout."""
    MULTI_TURN = "multi-turn"
    """The environment answers each turn of the model."""
    JUDGE = "judge"
    """Another model compares the answer with the right one."""
    SANDBOX = "sandbox"
    """The model's program runs in the sandbox."""

    @property
    def folder(self) -> Path:
        """The folder with the files of the template."""
        return TEMPLATES / self.replace("-", "_")


def scaffold(where: str, cwd: Path, template: Template = Template.SINGLE) -> Path:
    """Make the folder of a new environment; `where` is its name or `resources_servers/<name>`.

    Raises ConfigError, and writes nothing: the name is not valid, or the folder exists already.
    """
    folder = _folder_of(where, cwd)
    return write_folder(folder, render(folder.name, template))


def folder_for(where: str, cwd: Path) -> Path:
    """Return the folder of a new environment; `where` is its name or `resources_servers/<name>`.

    Raises ConfigError: the name is not valid, or the folder exists already.
    """
    folder = _folder_of(where, cwd)
    _refuse_existing(folder)
    return folder


def _refuse_existing(folder: Path) -> None:
    if folder.exists():
        raise ConfigError(
            f"{folder} exists already",
            hint="choose another name, or move it away first",
            cause=KnownCause.OUTPUT_EXISTS,
        )


def write_folder(folder: Path, texts: Mapping[Path, str | bytes]) -> Path:
    """Write a new folder with these files, completely or not at all, and return it.

    Raises ConfigError: the folder exists already, or cannot be written.
    """
    _refuse_existing(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Written beside, and moved when it is whole.
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        for path, text in texts.items():
            target = unfinished / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode() if isinstance(text, str) else text)
        unfinished.chmod(0o777 & ~_umask())
        move(unfinished, folder)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise ConfigError(f"{folder}: {error.strerror}") from error
    return folder


def scaffold_file(where: str, cwd: Path) -> Path:
    """Make an environment in one file, and return its path. `where`: its name or path, with or
    without `.py`.

    Raises ConfigError, and writes nothing: the name is not valid, or the file exists already.
    """
    path = (cwd / where).with_suffix(".py")
    check_name(path.stem)
    if path.exists():
        raise ConfigError(
            f"{path} exists already",
            hint="choose another name, or move it away first",
            cause=KnownCause.OUTPUT_EXISTS,
        )
    [text] = render_template(TEMPLATES / "file", _words(path.stem)).values()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return path


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


def check_name(name: str) -> None:
    """Raise ConfigError when `name` cannot be the name of an environment's folder."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not a name for an environment",
            hint="lower-case letters, digits and underscores, a letter first: my_env",
        )


def _folder_of(where: str, cwd: Path) -> Path:
    path = Path(where)
    name = path.name
    check_name(name)
    if path == Path(name):
        return cwd / SERVERS / name
    folder = cwd / path
    if folder.parent.name != SERVERS:
        raise ConfigError(
            f"{where} is not in a folder named {SERVERS}, where servers are looked for",
            hint=f"{SERVERS}/{name}",
        )
    return folder


def render(name: str, template: Template = Template.SINGLE) -> Mapping[Path, str]:
    """Return the text of every file of a new environment's folder, by its path in the folder."""
    words = _words(name)
    common = render_template(TEMPLATES / COMMON, words)
    return {**common, **render_template(template.folder, words)}


def _words(name: str) -> dict[str, str]:
    return {
        "@NAME@": name,
        "@CLASS@": "".join(part.capitalize() for part in name.split("_")),
        "@TITLE@": name.replace("_", " "),
    }


def render_template(template: Path, words: Mapping[str, str]) -> dict[Path, str]:
    """Return the text of every file of a template, by its path in the template. `words`: the text
    for each placeholder, in texts and in paths.
    """
    texts: dict[Path, str] = {}
    for path in sorted(template.rglob("*")):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        relative = str(path.relative_to(template)).removesuffix(_SUFFIX)
        texts[Path(_filled(relative, words))] = _filled(path.read_text(encoding="utf-8"), words)
    return texts


def _filled(text: str, words: Mapping[str, str]) -> str:
    for placeholder, word in words.items():
        text = text.replace(placeholder, word)
    return text


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
