"""`Program`: what to run, in terms that hold wherever it runs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

DEEPEST: Final = 100
LONGEST_NAME: Final = 1000
LONGEST_PART_BYTES: Final = 255
"""Of a file's name without its folders: more than that no file system takes."""

PYTHON: Final = "python"
"""As the first word of a command: the Python interpreter of whatever back end runs it."""


@dataclass(frozen=True, slots=True)
class Program:
    """A command and its files.

    `files`: path to content, relative to the working directory, which is otherwise empty.

    Raises ValueError for what no system can execute or store: a command without a first word, a
    null byte, a file below another file.
    """

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ValueError("the command has no first word: name the program to run")
        if any("\0" in word for word in (*self.argv, *self.env, *self.env.values())):
            raise ValueError("a null byte can be in no argument and in no environment variable")
        for name in self.env:
            if not name or "=" in name:
                raise ValueError(f"{name!r} is no name of an environment variable")
        folders = {parent for name in self.files for parent in _folders_of(name)}
        for name in self.files:
            _check_path(name)
            if name in folders:
                raise ValueError(f"{name!r} is both a file and a folder")

    @classmethod
    def python(
        cls, code: str | bytes, *args: str, files: Mapping[str, bytes] | None = None
    ) -> Self:
        """Python source as `main.py`, run with the packages that the interpreter has."""
        # What cannot be encoded (half a surrogate pair) is no Python source either: it must fail
        # in the interpreter, as any other program that is none.
        source = code if isinstance(code, bytes) else code.encode("utf-8", "surrogatepass")
        command = (PYTHON, "-s", "-B", "-X", "utf8", "main.py", *args)
        return cls(command, {**(files or {}), "main.py": source})


def _folders_of(name: str) -> list[str]:
    """The folders above a file."""
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, min(len(parts), DEEPEST))]


def _check_path(name: str) -> None:
    """Raises ValueError when no file of that name can be made in the working directory."""
    parts = name.split("/")
    longest = max(len(os.fsencode(part)) for part in parts)
    if len(parts) > DEEPEST or len(name) > LONGEST_NAME or longest > LONGEST_PART_BYTES:
        raise ValueError(f"{name[:40]!r}... is too deep a path, or too long")
    if not name or "\0" in name or name.startswith("/") or {"", ".", ".."} & set(parts):
        raise ValueError(f"{name!r} is no plain relative path")


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
"""All that a program sees of an environment, before its own: nothing of ours."""
