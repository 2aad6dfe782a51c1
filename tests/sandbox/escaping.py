"""A sandbox that isolates, and what must not be there after a program has run in it."""

import asyncio
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.sandbox import Limits, Program, Sandbox, SandboxResult, SandboxSettings

REQUIRED = "PALESTRA_REQUIRE_SANDBOX"
"""Set on CI, where bubblewrap is installed: it has to work there."""

GONE_WITHIN_S = 15.0
MARK = f"palestra-test-{uuid.uuid4().hex}"


@cache
def why_not() -> str:
    """Why this machine cannot isolate; empty when it can."""

    async def probe() -> None:
        async with Sandbox(SandboxSettings(backend="bubblewrap")):
            pass

    if shutil.which("bwrap") is None:
        return "no bubblewrap"
    others = living()
    try:
        asyncio.run(probe())
    except ConfigError as error:
        return error.message
    return "" if nothing_left(besides=others) else "its processes stay"


def isolating() -> SandboxSettings:
    """Settings that isolate. Skips where nothing can, unless it must."""
    problem = why_not()
    if problem and not os.environ.get(REQUIRED):
        pytest.skip(problem)
    assert problem == ""
    return SandboxSettings(backend="bubblewrap")


def run_isolated(
    code: str | bytes | Program, *, stdin: str = "", limits: Limits | None = None
) -> SandboxResult:
    """Run a program, isolated, and see that nothing of it is left."""
    settings = isolating()
    program = code if isinstance(code, Program) else marked(code)

    async def run() -> SandboxResult:
        async with Sandbox(settings) as sandbox:
            return await sandbox.run(program, stdin=stdin, limits=limits or Limits(cpu_s=5))

    with leaving_nothing():
        return asyncio.run(run())


def marked(code: str | bytes, *, files: dict[str, bytes] | None = None) -> Program:
    """A program by whose command line its processes are known, its children's included."""
    return Program.python(code, MARK, files=files)


def living(*others: int) -> list[str]:
    """Processes of marked programs; launchers and keepers of this process, and of others."""
    owners = {str(pid) for pid in (os.getpid(), *others)}
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().decode("latin-1").split("\0")
        except OSError:
            continue
        ours = "palestra.sandbox.keeping" in " ".join(command) and owners & set(command)
        if ours or MARK in command:
            found.append(f"{process.name}: {command}")
    return found


def nothing_left(*others: int, besides: Collection[str] = ()) -> bool:
    """Wait until no process of any sandbox is there, but for known ones; False when some stay."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while left := set(living(*others)) - set(besides):
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return not left


@contextmanager
def leaving_nothing() -> Iterator[None]:
    """See that no process and no temporary file is left of what the body runs.

    What others keep running is theirs: a server that a test file shares, for one.
    """
    before = living()
    with own_temporary_directory() as directory:
        yield
        assert nothing_left(besides=before)
        assert list(directory.iterdir()) == []


@contextmanager
def own_temporary_directory() -> Iterator[Path]:
    """Temporary files of this process are made there while the body runs."""
    before = tempfile.tempdir
    with tempfile.TemporaryDirectory() as directory:
        tempfile.tempdir = directory
        try:
            yield Path(directory)
        finally:
            tempfile.tempdir = before
