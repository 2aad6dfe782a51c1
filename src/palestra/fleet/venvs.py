"""Virtual environments for servers whose requirements this interpreter does not satisfy.

A server's folder may list requirements. When some are not installed here, a virtual environment is
built once, and the server runs in it. The environment is cached by its requirements and by this
interpreter. It also sees this interpreter's own packages, so Palestra is not installed again.
"""

import asyncio
import contextlib
import hashlib
import importlib.metadata
import re
import sys
import sysconfig
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

from palestra.config import InstanceConfig, environment_of
from palestra.errors import ConfigError, ServerDied
from palestra.system import cache_folder, lock, run_async, uv_command

BUILD_TIMEOUT_S = 1200.0
REQUIREMENTS = "requirements.txt"
PROJECT = "pyproject.toml"
_SCRIPT: Final = re.compile(
    r"^# /// script\s*$\s(?P<content>(^#(| .*)$\s)+?)^# ///\s*$", re.MULTILINE
)
"""A block of script metadata, as PEP 723 defines it."""
_UNSATISFIABLE: Final = (
    "No solution found",
    "Couldn't parse requirement",
    "Error parsing included file",
    "Distribution not found",
    "The wheel filename",
    "error: Unexpected",
)
"""Parts of installer messages that show that the requirements themselves are wrong."""


def requirements_place(instance: InstanceConfig) -> Path | None:
    """Return where an instance's requirements are listed: its folder, or a one-file environment's
    file.
    """
    source_file = environment_of(instance)
    return instance.folder if source_file is None else Path(source_file.path)


def requirements_of(path: Path) -> tuple[str, ...]:
    """Return the requirements in the folder's `requirements.txt` or `pyproject.toml`, without
    comments.

    If `path` is a file, its own script metadata counts, and the `requirements.txt` in its folder; a
    `pyproject.toml` in that folder belongs to another project. Raises ConfigError when a folder has
    both files, or the metadata is wrong.
    """
    if path.is_dir():
        return _requirements_of_folder(path)
    return tuple(dict.fromkeys((*_of_script(path), *_listed(path.with_name(REQUIREMENTS)))))


def _of_script(path: Path) -> tuple[str, ...]:
    """Return the dependencies in a file's script metadata (PEP 723); none without such metadata.

    Raises ConfigError: there are several blocks, or they are not TOML.
    """
    if not path.is_file():
        return ()
    blocks = [match["content"] for match in _SCRIPT.finditer(path.read_text("utf-8", "replace"))]
    if len(blocks) > 1:
        raise ConfigError(f"{path} has {len(blocks)} blocks of script metadata", hint="keep one")
    if not blocks:
        return ()
    text = "".join(
        line[2:] if line.startswith("# ") else line[1:]
        for line in blocks[0].splitlines(keepends=True)
    )
    try:
        declared = tomllib.loads(text).get("dependencies", [])
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the script metadata of {path} is not TOML: {error}") from None
    if not isinstance(declared, list) or not all(isinstance(item, str) for item in declared):
        raise ConfigError(
            f"dependencies in the script metadata of {path} is not a list of requirements",
            hint='dependencies = ["sympy>=1.13"]',
        )
    return tuple(declared)


def _requirements_of_folder(folder: Path) -> tuple[str, ...]:
    listed = folder / REQUIREMENTS
    project = folder / PROJECT
    if listed.exists() and project.exists():
        raise ConfigError(
            f"{folder} has both requirements.txt and pyproject.toml",
            hint="keep one of the two files",
        )
    if project.exists():
        declared = tomllib.loads(project.read_text()).get("project", {}).get("dependencies", [])
        return tuple(str(item) for item in declared)
    return _listed(listed)


def _listed(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return ()
    lines = (line.split(" #")[0].strip() for line in path.read_text().splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def unsatisfied(requirements: tuple[str, ...]) -> tuple[str, ...]:
    """Return the requirements that this interpreter does not satisfy. Paths and options always
    count as not satisfied.
    """
    return tuple(item for item in requirements if not _satisfied(item))


def _satisfied(item: str) -> bool:
    # Server folders written for a checkout of the framework point back at it; that is us.
    if item.startswith(("-e", "--editable", "../..")) and (
        "nemo" in item.lower() or "../.." in item
    ):
        return True
    try:
        requirement = Requirement(item)
    except InvalidRequirement:
        return False
    if requirement.marker is not None and not requirement.marker.evaluate():
        return True
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return requirement.name.lower().replace("_", "-") in {"nemo-gym", "palestra"}
    return requirement.specifier.contains(version, prereleases=True)


def cache_root(configured: str | None = None) -> Path:
    """Return the folder in which virtual environments are cached."""
    return Path(configured) if configured else cache_folder() / "venvs"


async def interpreter_for(path: Path, *, cache: Path) -> Path:
    """Return the Python that can run the server in `path`: this one, or the one of a cached
    environment, which is built if needed.

    `path`: the server's folder, or the file of a one-file environment.

    Raises ConfigError when the requirements cannot be satisfied, and ServerDied when the
    environment cannot be built for another reason. Both contain the installer's last lines.
    """
    missing = unsatisfied(requirements_of(path))
    if not missing:
        return Path(sys.executable)
    folder = _folder(path)
    key_text = _identity_text(missing, folder)
    venv = _venv(cache, key_text)
    async with _locked(venv):
        if not (venv / "complete").exists():
            await _make(venv, missing, requirements_file(path))
            (venv / "complete").write_text(key_text)
    return venv / "bin" / "python"


def requirements_file(path: Path) -> Path:
    """Return the file that lists the requirements of `path`."""
    if path.is_file() and _of_script(path):
        return path
    project = path / PROJECT
    return project if project.exists() else _folder(path) / REQUIREMENTS


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def made_interpreter(path: Path, *, cache: Path) -> Path | None:
    """Return the same as `interpreter_for`, but None when the environment is not built yet."""
    missing = unsatisfied(requirements_of(path))
    if not missing:
        return Path(sys.executable)
    venv = _venv(cache, _identity_text(missing, _folder(path)))
    return venv / "bin" / "python" if (venv / "complete").exists() else None


def _identity_text(missing: tuple[str, ...], folder: Path) -> str:
    """Return the inputs that determine an environment: Python version, prefix, missing
    requirements, and the folder if they depend on it.
    """
    return "\n".join((sys.version, sys.prefix, *sorted(missing), _base(missing, folder)))


def _venv(cache: Path, key_text: str) -> Path:
    return cache / hashlib.sha256(key_text.encode()).hexdigest()[:20]


def _base(missing: tuple[str, ...], folder: Path) -> str:
    """Return the folder if a requirement depends on it (a path or an option); else empty."""
    relative = any(line.startswith("-") or "/" in line for line in missing)
    return str(folder.resolve()) if relative else ""


@contextlib.asynccontextmanager
async def _locked(venv: Path) -> AsyncIterator[None]:
    """Hold the environment's lock file while the body runs, because servers with the same
    requirements start at the same time.
    """
    venv.parent.mkdir(parents=True, exist_ok=True)
    with venv.with_suffix(".lock").open("wb") as file:
        async with asyncio.timeout(BUILD_TIMEOUT_S):
            while True:
                try:
                    lock(file)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.2)
        yield


def require_uv(what: str) -> list[str]:
    """Return the beginning of uv's command line. Raises ConfigError: uv is not installed, and
    `what` needs it.
    """
    command = uv_command()
    if command is None:
        raise ConfigError(
            f"{what} needs uv, which is not installed", hint="pip install 'palestra[uv]'"
        )
    return command


async def _make(venv: Path, missing: tuple[str, ...], lists: Path) -> None:
    uv = require_uv(f"an environment with {', '.join(missing)}, as {lists} requires,")
    await _run([*uv, "venv", "--quiet", "--python", sys.executable, "--clear", str(venv)])
    # As a requirements file: lines may be options, and paths relative to the folder.
    install = [*uv, "pip", "install", "--quiet", "--python", str(venv), "--requirements", "-"]
    try:
        await _run(install, text="\n".join(missing), cwd=lists.parent)
    except ServerDied as error:
        kind = (
            ConfigError if any(words in error.message for words in _UNSATISFIABLE) else ServerDied
        )
        raise kind(
            f"the requirements in the files {lists} cannot be installed: {error.message}",
            hint=f"correct {lists}"
            if kind is ConfigError
            else f"check that {lists} is correct, and that the package index can be reached",
        ) from error
    site = next((venv / "lib").glob("python*")) / "site-packages"
    own_packages = sysconfig.get_paths()["purelib"]
    (site / "palestra_parent.pth").write_text(f"import site; site.addsitedir({own_packages!r})\n")


async def _run(command: list[str], *, text: str = "", cwd: Path | None = None) -> None:
    command_text = " ".join(command)
    try:
        process = await run_async(command, timeout_s=BUILD_TIMEOUT_S, cwd=cwd, data=text.encode())
    except TimeoutError:
        raise ServerDied(f"{command_text} did not end within {BUILD_TIMEOUT_S:.0f} s") from None
    if process.code != 0:
        raise ServerDied(f"{command_text} failed:\n{process.text[-2000:]}")
