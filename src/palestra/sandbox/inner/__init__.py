"""Palestra's own programs that run inside the sandbox, as source code. They import the standard
library only.
"""

from pathlib import Path

from palestra.sandbox.program import Program


def source(name: str) -> bytes:
    """Return the source of the program `name` in this folder."""
    return Path(__file__).with_name(f"{name}.py").read_bytes()


def conversing(code: bytes) -> Program:
    """Return a program for `Sandbox.converse`. Its source `code` may import `Channel` from
    `frames`.
    """
    return Program.python(code, files={"frames.py": source("frames")})
