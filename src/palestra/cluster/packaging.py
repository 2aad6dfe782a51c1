"""The user's code for a job: a snapshot, so that what is edited later changes nothing that runs."""

import io
import shutil
import tarfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from palestra.errors import ConfigError
from palestra.system import run

How = Literal["git", "dir", "installed", "none"]
LEFT_OUT: Final = frozenset(
    {
        "env.yaml",
        ".netrc",
        ".git",
        ".venv",
        "venv",
        "__pycache__",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
    }
)
ENVIRONMENT: Final = ".env"
"""Files of variables, also `.env.local` and the like: secrets stand in them."""
MOST_BYTES: Final = 200 * 2**20
TIMEOUT_S: Final = 60.0


def snapshot(how: How, folder: Path, target: Path, *, but: Collection[Path] = ()) -> None:
    """Copy the code of `folder` into `target`, which does not exist yet.

    `git` takes what is committed, `dir` what is there, except environments, caches and `but`.
    `installed` and `none` copy nothing. Raises ConfigError when there is too much, or no commit.
    """
    if how == "git":
        _unpack(_git(folder, "archive", "--format=tar", "HEAD"), target)
    elif how == "dir":
        _copy(folder, target, {path.resolve() for path in but})


def uncommitted(folder: Path) -> tuple[str, ...]:
    """Files that `git` packaging leaves as they were in the last commit, or leaves out."""
    listed = _git(folder, "status", "--porcelain", "--", ".").decode(errors="replace")
    return tuple(line[3:] for line in listed.splitlines())


def code_version(folder: Path, how: How, installed: str) -> str:
    """What the manifest says of the code: Palestra's version, and the commit of what is packaged."""
    if how != "git":
        return installed
    commit = _git(folder, "rev-parse", "HEAD").decode().strip()
    return f"{installed} {commit}"


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        process = run(["git", *arguments], cwd=folder, timeout_s=TIMEOUT_S)
    except OSError as error:
        raise ConfigError(f"--package git: git cannot be run: {error}") from error
    if process.code:
        raise ConfigError(
            f"--package git: {(process.complaint or 'git failed').splitlines()[0]}",
            hint="--package dir takes the folder as it is",
        )
    return process.output


def _stays(name: str) -> bool:
    """Whether a file or folder of that name never travels."""
    return name in LEFT_OUT or name == ENVIRONMENT or name.startswith(f"{ENVIRONMENT}.")


def _unpack(archive: bytes, target: Path) -> None:
    if len(archive) > MOST_BYTES:
        raise _too_large(len(archive))
    target.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = [
            member for member in tar if not any(map(_stays, PurePosixPath(member.name).parts))
        ]  # a secret that somebody has committed does not travel either
        tar.extractall(target, members=members, filter="data")


def _copy(folder: Path, target: Path, but: Collection[Path]) -> None:
    def left_out(inside: str, names: list[str]) -> set[str]:
        return {name for name in names if _stays(name) or (Path(inside) / name).resolve() in but}

    size = _size(folder, but)
    if size > MOST_BYTES:
        raise _too_large(size)
    shutil.copytree(folder, target, ignore=left_out, symlinks=True)


def _size(folder: Path, but: Collection[Path]) -> int:
    total = 0
    for path in folder.iterdir():
        if _stays(path.name) or path.resolve() in but or path.is_symlink():
            continue
        total += _size(path, but) if path.is_dir() else path.stat().st_size
        if total > MOST_BYTES:
            break
    return total


def _too_large(size: int) -> ConfigError:
    return ConfigError(
        f"--package: the code is {size // 2**20} MiB or more, and should be under "
        f"{MOST_BYTES // 2**20}",
        hint="start from a folder that holds the code alone, and keep data in mounts",
    )
