"""The watch that a fleet keeps over its server processes, from its own event loop."""

import asyncio
import time
from typing import Final, final

from palestra.errors import CallError, RowIdentity, ServerDied
from palestra.fleet.child import Child
from palestra.fleet.importing import unfinished_import
from palestra.fleet.instance import STUCK_AFTER_S, InstanceState, RunningInstance
from palestra.fleet.stacks import (
    author_call,
    blocking,
    executing_place,
    overrun,
    row_name,
    stack_of,
)
from palestra.system import Executing, Lookout, Pulse, ask_for_stacks, is_stopped, running_one

QUIET_S: Final = 1.5
"""A process whose loop has not run for so long is told of where a rollout has waited in vain."""
STOPPED: Final = "stopped by a signal (SIGSTOP)"


@final
class ProcessWatch:
    """Watches one server process by its pulse, and keeps the state of its instance."""

    def __init__(self, running: RunningInstance, child: Child, pulse: Pulse) -> None:
        self._running = running
        self._pulse = pulse
        self._lookout = Lookout()
        self._stacks = ""
        self._stacks_at = 0.0
        self.child = child

    def look(self) -> Executing | None:
        """Take one reading; the call for which the process is to be ended, when there is one."""
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
        """Call the instance stuck once its process has been quiet for long enough."""
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
        """Have the process say what its threads do, if it can."""
        if self.child.has_ended or is_stopped(self.child.pid):
            return
        asked_at = time.monotonic()
        for pause_s in ask_for_stacks(self._pulse):
            await asyncio.sleep(pause_s)
        self._stacks, self._stacks_at = self._pulse.stack_text(), asked_at

    @property
    def instance(self) -> str:
        """The name of its instance."""
        return self._running.name

    async def import_too_long(self) -> ServerDied | None:
        """The error of the import that it executes; None when it executes none."""
        if self.child.has_ended:
            return None
        await self.take_stacks()
        calls = (unfinished_import(call, self._stacks) for call in self._pulse.executing())
        return next((died for died in calls if died is not None), None)

    def standing_still(self) -> str:
        """A sentence about a process whose loop does not run; empty when it does."""
        quiet_s = self._lookout.quiet_s
        if self.child.has_ended or quiet_s < QUIET_S:
            return ""
        return f"{self.child.name} (process {self.child.pid}) has stood still for {quiet_s:.1f} s: {self._doing()}"

    def _doing(self) -> str:
        if is_stopped(self.child.pid):
            return STOPPED
        return blocking(self._blocking_call(), self._stacks)

    def _blocking_call(self) -> Executing | None:
        return running_one(self.child.pid, self._lookout.executing)

    def overrun_of(self, row: RowIdentity) -> CallError | None:
        """The failure of that rollout, when a call of its own holds the process."""
        if self._lookout.quiet_s < QUIET_S:
            return None
        for call in self._lookout.executing:
            author = author_call(call)
            if author is not None and author.row == row:
                # Stacks of before the call began show another one.
                stacks = self._stacks if self._stacks_at >= call.since else ""
                return overrun(call, stacks, time.monotonic() - call.since)
        return None

    def died_of(self, call: Executing) -> ServerDied:
        """Why the process was ended: for `call`, which did not return."""
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

    def close(self) -> None:
        """Let go of the pulse."""
        self._pulse.close()
