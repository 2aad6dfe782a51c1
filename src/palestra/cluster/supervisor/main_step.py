"""The main step of a job: driver, merge or profile. Its exit, and the done file, decide."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from palestra.cluster.records import tail
from palestra.cluster.supervisor import processes, steps
from palestra.cluster.supervisor.context import Context

DRAINED = 75
"""Its exit code when it has started nothing more, as asked, and something is left to do."""
RESERVE_S = 20.0
"""Of the time before the limit: what is kept for ending everything and for the last words."""
LEAST_DRAIN_S = 5.0


class MainStep:
    """Runs once; asked to drain, it gets some time, then it is ended."""

    def __init__(self, context: Context) -> None:
        self.component = context.task.job.main
        self._context = context
        self._process: subprocess.Popen[bytes] | None = None
        self._end_at: float | None = None
        self.log: Path | None = None

    def start(self) -> None:
        """Start it. Raises OSError when there is no such program."""
        context = self._context
        context.drain_file.unlink(missing_ok=True)
        nodes = context.nodes_for(self.component) if not context.single_node else ()
        head = nodes[0] if nodes else "127.0.0.1"
        place = steps.StepPlace(context.tokens(0, head, 0), nodes)
        self._process, self.log = context.start(self.component, place, 0)
        context.say(f"{self.component.name} runs; it prints to {self.log.name}")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs, and when it never did."""
        return self._process.poll() if self._process is not None else None

    def drain(self, within_s: float) -> None:
        """Ask it to start nothing more; it is ended when it has not ended `within_s`."""
        self._context.drain_file.touch()
        self._end_at = time.monotonic() + max(LEAST_DRAIN_S, within_s - RESERVE_S)

    def admit_no_more(self) -> None:
        """Ask it to start nothing more, without a limit: it is about to be ended."""
        if self.running:
            self._context.drain_file.touch()

    def look(self) -> None:
        """End it when its time to drain is over."""
        if self._end_at is not None and self.running and time.monotonic() > self._end_at:
            self._context.say(f"{self.component.name} has not drained in time")
            self._end_at = None
            self.end()

    def end(self) -> None:
        """End it now, in order."""
        if self._process is not None:
            processes.end(self._process)

    def wait(self, seconds: float) -> None:
        """Let it end by itself, for so long."""
        if self._process is not None:
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                return

    def tail(self) -> str:
        return tail(self.log) if self.log else ""
