"""`Program`: what to run, described independently of where it runs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

DEEPEST: Final = 100
LONGEST_NAME: Final = 1000
LONGEST_PART_BYTES: Final = 255
"""The maximum number of bytes of one part of a path, because file systems accept no more."""

PYTHON: Final = "python"
"""The first word of a command that runs the Python interpreter of the backend."""


@dataclass(frozen=True, slots=True)
class Program:
    """A command and its files.

    `files`: path -> content. Paths are relative to the working folder, which contains nothing else.

    Raises ValueError for a program that no system can execute or store: a command without a first
    word, a null byte, or a file below another file.
    """

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ValueError("the command has no first word: name the program to run")
        if any("\0" in word for word in (*self.argv, *self.env, *self.env.values())):
            raise ValueError("arguments and environment variables must not contain a null byte")
        for name in self.env:
            if not name or "=" in name:
                raise ValueError(f"{name!r} is not a name of an environment variable")
        folders = {parent for name in self.files for parent in _folders_of(name)}
        for name in self.files:
            _check_path(name)
            if name in folders:
                raise ValueError(f"{name!r} is both a file and a folder")

    @classmethod
    def python(
        cls, code: str | bytes, *args: str, files: Mapping[str, bytes] | None = None
    ) -> Self:
        """Return a program that runs the Python source `code` as `main.py`, with the packages of
        the interpreter.
        """
        # What cannot be encoded (half a surrogate pair) is no Python source either: it must fail
        # in the interpreter, as any other program that is none.
        source = code if isinstance(code, bytes) else code.encode("utf-8", "surrogatepass")
        command = (PYTHON, "-s", "-B", "-X", "utf8", "main.py", *args)
        return cls(command, {**(files or {}), "main.py": source})


def _folders_of(name: str) -> list[str]:
    """Return the folders above a file."""
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, min(len(parts), DEEPEST))]


def _check_path(name: str) -> None:
    """Raise ValueError when no file with this name can be created in the working folder."""
    parts = name.split("/")
    longest = max(len(os.fsencode(part)) for part in parts)
    if len(parts) > DEEPEST or len(name) > LONGEST_NAME or longest > LONGEST_PART_BYTES:
        raise ValueError(f"{name[:40]!r}... is too deep a path, or too long")
    if not name or "\0" in name or name.startswith("/") or {"", ".", ".."} & set(parts):
        raise ValueError(f"{name!r} is not a plain relative path")


ENVIRONMENT: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    # A program has its share of one machine: threads of numerical libraries only take memory.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # For each thread the C library would reserve 64 MiB of the address space that is limited.
    "MALLOC_ARENA_MAX": "2",
}
"""The environment variables of every program, before its own are added. None of ours are passed on.
"""
