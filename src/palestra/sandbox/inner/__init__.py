"""Programs of ours that run inside the sandbox, as source: they import the standard library only."""

from pathlib import Path

from palestra.sandbox.program import Program


def source(name: str) -> bytes:
    """The source of one of them."""
    return Path(__file__).with_name(f"{name}.py").read_bytes()


def conversing(code: bytes) -> Program:
    """A program for `Sandbox.converse`: its source may import `Channel` from `frames`."""
    return Program.python(code, files={"frames.py": source("frames")})
