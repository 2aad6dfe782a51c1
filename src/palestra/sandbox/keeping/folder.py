"""Create and remove the working folder of a program without isolation."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path


def make(path: str, files: Iterable[tuple[str, bytes]]) -> None:
    """Create the folder with these files in it. Raises OSError, also when the folder exists."""
    os.mkdir(path, 0o700)  # noqa: PTH102  # a path of ours, not to be followed
    for name, content in files:
        file = Path(path, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def remove(path: str) -> None:
    """Remove a folder and its content, as far as possible.

    It works at any depth: a subfolder's content is moved up before the subfolder is removed, so
    that neither our stack nor the length of a path limits it. Links are not followed.
    """
    with contextlib.suppress(OSError):
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _empty(top)
        finally:
            os.close(top)
    with contextlib.suppress(OSError):
        os.rmdir(path)  # noqa: PTH106


def _empty(top: int) -> None:
    number, token = 0, os.urandom(8).hex()  # for names that are not there already
    os.fchmod(top, 0o700)
    waiting = []
    for name, is_directory in _entries(top):
        if is_directory:
            waiting.append(name)
        else:
            os.unlink(name, dir_fd=top)
    while waiting:
        name = waiting.pop()
        os.chmod(name, 0o700, dir_fd=top)
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
        try:
            for inner, is_directory in _entries(descriptor):
                if is_directory:
                    number += 1
                    waiting.append(f"{token}-{number}")
                    os.chmod(inner, 0o700, dir_fd=descriptor)
                    os.rename(inner, waiting[-1], src_dir_fd=descriptor, dst_dir_fd=top)
                else:
                    os.unlink(inner, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        os.rmdir(name, dir_fd=top)


def _entries(folder: int) -> list[tuple[str, bool]]:
    """Return each entry's name and whether it is a folder."""
    with os.scandir(folder) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
