"""`Program`: what to run, in terms that hold wherever it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

DEEPEST: Final = 100
LONGEST_NAME: Final = 1000

PYTHON: Final = "python"
"""As the first word of a command: the Python interpreter of whatever back end runs it."""


@dataclass(frozen=True, slots=True)
class Program:
    """A command and its files.

    `files`: path to content, relative to the working directory, which is otherwise empty.
    """

    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.files:
            parts = name.split("/")
            if len(parts) > DEEPEST or len(name) > LONGEST_NAME:
                raise ValueError(f"{name[:40]!r}... is too deep a path, or too long")
            if not name or "\0" in name or name.startswith("/") or {"", ".", ".."} & set(parts):
                raise ValueError(f"{name!r} is no plain relative path")

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
