"""An environment in one file, whose tool does what it is told."""

import os
import sys
import time

from author_deeds import backtrack
from palestra import Environment, tool


class Shelf(Environment):
    data = [{"wanted": 1}]  # noqa: RUF012
    prompt = "?"

    def start(self, wanted: int) -> None:
        self.taken, self.wanted, self.process = 0, wanted, os.getpid()

    @tool
    def take(self, kind: str = "fine") -> int:
        """Take one."""
        if kind == "regex":
            backtrack()
        if kind == "exit":
            os._exit(3)
        if kind == "sleep":
            time.sleep(60)
        self.taken += 1
        return self.taken

    @tool
    async def look(self) -> bool:
        """Look."""
        return self.process == os.getpid()

    def verify(self, answer: str) -> dict[str, float]:
        sys.stdout.write("")
        return {"taken": self.taken == self.wanted, "here": float(self.process == os.getpid())}


class Inline(Shelf):
    isolated = False


class Weighted(Shelf):
    weights = {"taken": 0.5}  # noqa: RUF012

    def verify(self, answer: str):  # type: ignore[no-untyped-def]  # as authors write
        return self.as_number(answer)

    def as_number(self, answer: str) -> float:
        return float(answer)
