"""Copy the user's code for a job: a snapshot, so that later edits do not affect running jobs."""

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
"""The name of files with environment variables (also `.env.local` and similar). They may contain
secrets."""
COMMIT_FILE: Final = ".palestra-commit"
"""The file with the commit of code that was sent to a cluster."""
MOST_BYTES: Final = 200 * 2**20
TIMEOUT_S: Final = 60.0


def snapshot(how: How, folder: Path, target: Path, *, but: Collection[Path] = ()) -> None:
    """Copy the code of `folder` into `target`, which must not exist yet.

    `git` copies committed files; `dir` copies all files except virtual environments, caches and
    `but`. `installed` and `none` copy nothing. Raises ConfigError: the code is too large, or has no
    commit.
    """
    if how == "git":
        _unpack(_git(folder, "archive", "--format=tar", "HEAD"), target)
    elif how == "dir":
        _copy(folder, target, {path.resolve() for path in but})


def uncommitted(folder: Path) -> tuple[str, ...]:
    """Return the files with changes that `git` packaging does not include."""
    listed = _git(folder, "status", "--porcelain", "--", ".").decode(errors="replace")
    return tuple(line[3:] for line in listed.splitlines())


def code_version(folder: Path, how: How, installed: str) -> str:
    """Return the manifest's text about the code: Palestra's version and, with `git`, the commit.

    Code that was sent from another machine has its commit in a file.
    """
    if how == "git":
        return f"{installed} {commit_of(folder)}"
    sent_commit = folder / COMMIT_FILE
    return f"{installed} {sent_commit.read_text().strip()}" if sent_commit.is_file() else installed


def commit_of(folder: Path) -> str:
    """Return the commit of a checkout. Raises ConfigError: the folder has none."""
    return _git(folder, "rev-parse", "HEAD").decode().strip()


def is_checkout(folder: Path) -> bool:
    """Whether git has a commit for this folder."""
    try:
        return bool(commit_of(folder))
    except ConfigError:
        return False


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
    """Whether files and folders with this name are never packaged."""
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
