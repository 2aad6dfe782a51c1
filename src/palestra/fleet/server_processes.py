"""The server processes of a fleet: start, watch and stop them together."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, final

from palestra.config import Redactor
from palestra.errors import CallError, PalestraError, ServerDied
from palestra.fleet.child import Child, ChildExit
from palestra.fleet.instance import InstanceState, RunningInstance
from palestra.fleet.orders import WorkOrder
from palestra.fleet.process_watch import ProcessWatch
from palestra.system import LOOK_EVERY_S, Pulse
from palestra.transport import BlockedServer


@final
class ServerProcesses:
    """All server processes of one fleet. When one ends by itself, the first such end becomes the
    fleet's failure.
    """

    def __init__(
        self, *, on_line: Callable[[str, str], object] | None, redact: Redactor, logs: Any
    ) -> None:
        """`logs`: the folder for the output of each process. None: no log files."""
        self._on_line = on_line or _ignore
        self._redact = redact
        self._logs = Path(str(logs)) if logs else None
        self._children: list[Child] = []
        self._watches: list[ProcessWatch] = []
        self._endings: list[asyncio.Task[None]] = []
        self._failed = asyncio.Event()
        self.failure: PalestraError | None = None
        self.ending: ChildExit | None = None
        """How the first process ended that ended by itself."""

    async def failed(self) -> PalestraError:
        """Wait until a server process fails, and return its error."""
        await self._failed.wait()
        assert self.failure is not None  # noqa: S101  # it is set before the event
        return self.failure

    async def raise_failure(self, within_s: float) -> None:
        """Raise the error of a server process that has failed, or that fails within `within_s`
        seconds.
        """
        if self._children and self.failure is None and within_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._failed.wait()
        if self.failure is not None:
            raise self.failure

    def ending_failure(self) -> CallError | None:
        """Return the failure of the rollout whose call ended a server process, or made the fleet end
        it; None without one.
        """
        return self.failure.failure if isinstance(self.failure, ServerDied) else None

    async def start(
        self, running: RunningInstance, order: WorkOrder, python: Path, sock: socket.socket
    ) -> None:
        """Start one process for an instance. The child process serves `sock`; this process closes
        its copy.
        """
        name = order.process_name
        with Pulse.create_for_program() as (pulse, descriptors):
            child = await Child.spawn(
                name,
                [str(python), "-u", "-P", "-m", "palestra.fleet.worker", name],
                order=replace(order, pulse=descriptors).encode(),
                on_line=self._on_line,
                redact=self._redact,
                pass_fds=(sock.fileno(), *descriptors),
                log_path=self._log_path(name),
            )
        sock.close()
        running.pid = running.pid or child.pid
        self._children.append(child)
        watch = ProcessWatch(running, child, pulse)
        self._watches.append(watch)
        self._endings.append(asyncio.create_task(self._note_ending(running, watch)))

    def _log_path(self, name: str) -> Path | None:
        if self._logs is None:
            return None
        self._logs.mkdir(parents=True, exist_ok=True)
        return self._logs / f"{name}.log"

    async def _note_ending(self, running: RunningInstance, watch: ProcessWatch) -> None:
        ending = await watch.child.ended()
        if watch.child.stopping:
            return
        before_ready = running.state is InstanceState.STARTING
        running.state = InstanceState.DEAD
        running.reason = ending.how
        if self.ending is None:
            self.ending = ending
        process_end = watch.process_end(ending.returncode)
        self._fail(ending.as_error(before_ready=before_ready, process_end=process_end))

    def _fail(self, failure: PalestraError) -> None:
        if self.failure is None:
            self.failure = failure
        self._failed.set()

    async def look_after(self) -> None:
        """Watch the event loops of all processes: update the states of their instances, and kill a
        process whose call blocks the loop for too long.
        """
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for watch in self._watches:
                call = watch.look()
                if call is not None and self.failure is None:
                    await watch.take_stacks()
                    if watch.look() != call:
                        continue  # it has returned while its stack came
                    self._fail(watch.died_of(call))
                    # Whoever collects stops first: to the others this is no failure of theirs.
                    await asyncio.sleep(LOOK_EVERY_S)
                    watch.child.kill()
                else:
                    await watch.tell_state()

    async def import_too_long(self, instance: str) -> ServerDied | None:
        """Return the error for the import that a process of `instance` is executing; None when no
        process is importing.
        """
        for watch in self._watches:
            if watch.instance == instance and (died := await watch.import_too_long()):
                return died
        return None

    def blocked(self) -> list[BlockedServer]:
        """Return each process whose event loop does not run now."""
        return [blocked for watch in self._watches if (blocked := watch.blocked()) is not None]

    async def stop(self, *, grace_s: float) -> None:
        """Stop every process, and kill those that have not ended after `grace_s` seconds."""
        for child in self._children:
            child.stopping = True
        stops = (child.stop(grace_s=grace_s) for child in self._children)
        await asyncio.gather(*stops, return_exceptions=True)
        for task in self._endings:
            task.cancel()
        await asyncio.gather(*self._endings, return_exceptions=True)

    def close(self) -> None:
        """Release the pulses of all processes, once `look_after` has stopped."""
        for watch in self._watches:
            watch.close()
        self._watches.clear()


def _ignore(_name: str, _line: str) -> None:
    return None
