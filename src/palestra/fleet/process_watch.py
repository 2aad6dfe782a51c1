"""Watch the fleet's server processes from the fleet's own event loop."""

import asyncio
import time
from collections.abc import Iterator
from typing import Final, final

from palestra.errors import CallError, ServerDied
from palestra.fleet.child import Child
from palestra.fleet.importing import unfinished_import
from palestra.fleet.instance import STUCK_AFTER_S, InstanceState, RunningInstance
from palestra.fleet.stacks import (
    ProcessEnd,
    blocking,
    executing_place,
    overrun,
    process_end,
    row_name,
    stack_of,
)
from palestra.system import Executing, Lookout, Pulse, ask_for_stacks, is_stopped, running_one
from palestra.transport import BlockedServer

QUIET_S: Final = 1.5
"""Seconds without a step of the event loop after which a process counts as quiet. The errors of
waiting rollouts then name the process."""
STOPPED: Final = "stopped by a signal (SIGSTOP)"


@final
class ProcessWatch:
    """Watches one server process through its pulse, and updates the state of its instance."""

    def __init__(self, running: RunningInstance, child: Child, pulse: Pulse) -> None:
        self._running = running
        self._pulse = pulse
        self._lookout = Lookout()
        self._stacks = ""
        self._stacks_at = 0.0
        self.child = child

    def look(self) -> Executing | None:
        """Read the pulse once. Return the call because of which the process must be killed; None if
        there is no such call.
        """
        if self.child.has_ended:
            return None
        stopped = is_stopped(self.child.pid)
        # What a stopped process executes is not slow: its time counts from when it goes on.
        executing = [] if stopped else self._pulse.executing()
        self._lookout.look(time.monotonic(), self._pulse.last_beat, executing)
        if self._lookout.quiet_s < QUIET_S:
            self._stacks = ""
            if self._running.state is InstanceState.STUCK:
                self._running.state, self._running.reason = InstanceState.HEALTHY, ""
            return None
        return running_one(self.child.pid, self._lookout.overdue())

    async def tell_state(self) -> None:
        """Set the instance's state to stuck when its event loop has not run for `STUCK_AFTER_S`
        seconds.
        """
        if self.child.has_ended or self._lookout.quiet_s < QUIET_S:
            return
        if not self._stacks:
            await self.take_stacks()  # before rollouts time out: they name the line that blocks
        if (
            self._lookout.quiet_s < STUCK_AFTER_S
            or self._running.state is not InstanceState.HEALTHY
        ):
            return
        await self.take_stacks()
        call = self._blocking_call()
        stack = stack_of(self._stacks, None if call is None else call.ident)
        self._running.state = InstanceState.STUCK
        self._running.reason = "\n".join([self._doing(), *stack])

    async def take_stacks(self) -> None:
        """Request the stacks of the process's threads, unless the process is stopped or has ended."""
        if self.child.has_ended or is_stopped(self.child.pid):
            return
        asked_at = time.monotonic()
        for pause_s in ask_for_stacks(self._pulse):
            await asyncio.sleep(pause_s)
        self._stacks, self._stacks_at = self._pulse.stack_text(), asked_at

    @property
    def instance(self) -> str:
        """The name of the watched instance."""
        return self._running.name

    async def import_too_long(self) -> ServerDied | None:
        """Return the error for the import that the process is executing; None when it is not
        importing a file.
        """
        if self.child.has_ended:
            return None
        await self.take_stacks()
        calls = (unfinished_import(call, self._stacks) for call in self._pulse.executing())
        return next((died for died in calls if died is not None), None)

    def blocked(self) -> BlockedServer | None:
        """Return what blocks the process; None when its event loop runs."""
        quiet_s = self._lookout.quiet_s
        if self.child.has_ended or quiet_s < QUIET_S:
            return None
        sentence = (
            f"{self.child.name} (process {self.child.pid}) has not responded for "
            f"{quiet_s:.1f} s: {self._doing()}"
        )
        return BlockedServer(self._running.name, sentence, tuple(self._overruns()))

    def _doing(self) -> str:
        if is_stopped(self.child.pid):
            return STOPPED
        return blocking(self._blocking_call(), self._stacks)

    def _blocking_call(self) -> Executing | None:
        return running_one(self.child.pid, self._lookout.executing)

    def _overruns(self) -> Iterator[CallError]:
        """Yield the failure of each call of an author's code that the process executes."""
        for call in self._lookout.executing:
            # Stacks of before the call began show another one.
            stacks = self._stacks if self._stacks_at >= call.since else ""
            failure = overrun(call, stacks, time.monotonic() - call.since)
            if failure is not None:
                yield failure

    def died_of(self, call: Executing) -> ServerDied:
        """Return the error of a process that was killed because `call` did not return."""
        if (died := unfinished_import(call, self._stacks)) is not None:
            died.server = self.child.name
            return died
        lasted_s = time.monotonic() - call.since
        failure = overrun(call, self._stacks, lasted_s)
        author_place = executing_place(call, self._stacks)
        row = failure.evidence.row if failure is not None else None
        rollout = f" of {row_name(row)}" if row is not None else ""
        message = failure.message if failure is not None else blocking(call, self._stacks)
        return ServerDied(
            f"server {self.child.name} was ended for a call{rollout} that did not return: {message}",
            hint=failure.hint if failure is not None else "",
            server=self.child.name,
            function=author_place.function,
            file=author_place.file,
            line=author_place.line,
            failure=failure,
        )

    def process_end(self, returncode: int) -> ProcessEnd:
        """Return which code the process executed when it ended with `returncode`."""
        return process_end(self._pulse, returncode)

    def close(self) -> None:
        """Release the pulse."""
        self._pulse.close()
