"""Helper processes: each says one line when it is ready and ends when its standard input does."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class HelperDied(Exception):
    """A helper process ended before it was ready, or in the middle of a conversation."""


class Helper:
    """One `python -m` process, spoken to line by line."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self._process = process
        self._name = name
        self.pid = process.pid
        self.greeting = self.read()

    def read(self) -> str:
        """Its next line. Raises HelperDied when there is none."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise HelperDied(f"{self._name} ended with exit code {self._process.wait()}")
        return line.strip()

    def ask(self, line: str) -> str:
        """Say `line` and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self.read()


@contextmanager
def helper(module: str, *arguments: str) -> Iterator[Helper]:
    """Run `module` until the body ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Helper(process, module)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
