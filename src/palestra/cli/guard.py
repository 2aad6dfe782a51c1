"""The guard: a parent process that watches a command which runs authors' code inside itself.

Code that holds the interpreter's lock stops every thread of its process: no timeout, no Ctrl-C and
no watchdog works there. So the command forks before it does anything. The child does the run, and
the parent, which is the guard, watches the child's pulse. The guard ends the child when a call is
overdue, or when the child does not obey a signal in time. Then it records the rollout of that call
and prints how to continue. Modules that both need are imported before the fork, so that the guard
is ready at once and shares the child's memory.
"""

import contextlib
import gc
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

from palestra.cli.entry import ending_imports_on_interrupt
from palestra.system import (
    LOOK_EVERY_S,
    Executing,
    Lookout,
    Pulse,
    ask_for_stacks,
    become_subreaper,
    children_of,
    current_pulse,
    die_with_parent,
    how_ended,
    is_stopped,
    make_current,
    running_one,
)

if TYPE_CHECKING:
    from palestra.errors import CallError, Outcome

STOP_WITHIN_S: Final = {signal.SIGINT: 2.5, signal.SIGTERM: 4.0}
"""The time in seconds that the command has to stop in order, after each signal."""
AGAIN_WITHIN_S: Final = 0.5
"""The time in seconds that the command has to stop after a second signal."""
TELL_AFTER_S: Final = 5.0
"""A block of this length, in seconds, is reported while it lasts, and again each time it has
doubled."""
QUIET_S: Final = 1.5
"""A shorter block of the event loop, in seconds, is ignored."""
ORPHANS_END_S: Final = 0.3
ORPHANS_KILLED_S: Final = 1.0
"""How long to wait, in seconds, for killed orphans. One that is left belongs to another user, or
hangs in the kernel."""
_FROM_THE_KERNEL: Final = 0x80
"""The `si_code` of a signal that the terminal sent to every process of its foreground."""


def fork_under_guard() -> None:
    """Fork, and continue in the child. The parent watches the child, and exits with its exit code.

    On a system without the needed signal functions, continue in this process without a guard.
    """
    if not hasattr(signal, "sigtimedwait") or current_pulse() is not None:
        return
    _load()
    pulse = Pulse.create()
    gc.freeze()  # what both share is not written to by collections
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, Guard.SIGNALS)
    pid = os.fork()
    if pid:
        Guard(pid, pulse).watch()
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    make_current(pulse)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def tell_guard(**work: Any) -> None:
    """Pass values to the guard, which needs them to end the command in order; see `Guard` for the
    names.

    Values that were passed before under other names stay.
    """
    pulse = current_pulse()
    if pulse is not None:
        import orjson

        pulse.note(orjson.dumps(_noted(pulse) | work))


def _noted(pulse: Pulse) -> dict[str, Any]:
    """Return the values that the process of `pulse` has passed to its guard."""
    noted = pulse.noted()
    if not noted:
        return {}
    import orjson

    work: dict[str, Any] = orjson.loads(noted)
    return work


@final
class Guard:
    """Watches the process `pid`.

    That process passes values with `tell_guard`. `output`: the file of scored rows. `max_attempts`,
    `reverify_command`: of the collection. `reverified`: the output file of a reverification. `report`:
    the findings of an examination so far. `again`: how to continue. `limit_s`: how long its event
    loop may be blocked at most; `limit_of`: what may take so long; `hint`: what helps then.
    `events`: where the events of a collection go, empty once the last event is written.
    `ray_folder`: the folder of its fleet's Ray cluster. `fleet`: the run file of the fleet that other
    commands may use.
    """

    SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD})

    def __init__(self, pid: int, pulse: Pulse) -> None:
        self._pid = pid
        self._pulse = pulse
        self._began = time.time()
        self._lookout = Lookout()
        self._asked: signal.Signals | None = None
        self._stop_within_s = self._stop_at = 0.0
        self._tell_at_s = TELL_AFTER_S
        self._has_failed = self._has_killed = False

    def watch(self) -> NoReturn:
        """Watch until the process has ended, then exit with its exit code."""
        become_subreaper()
        while True:
            info = signal.sigtimedwait(self.SIGNALS, LOOK_EVERY_S)
            if info is not None and info.si_signo != signal.SIGCHLD:
                self._signalled(info)
            self._leave_if_ended()
            try:
                self._check_work()
            except Exception as error:
                # A guard that ends takes the run with it, and nothing is wrong with the run.
                self._look_failed(error)

    def _look_failed(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            self._print_lines(
                f"warning: watching this command failed: {type(error).__name__}: {error}"
            )
        if self._has_killed:
            os._exit(1)

    # Signals

    def _signalled(self, info: "signal.struct_siginfo") -> None:
        number = signal.Signals(info.si_signo)
        if info.si_code != _FROM_THE_KERNEL:  # else the child got it from the terminal, as we did
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)
        if number == signal.SIGUSR1:
            return
        now = time.monotonic()
        if self._asked is None:
            self._stop_within_s = STOP_WITHIN_S[number] + self._pulse.longer_stop_s
            self._asked, self._stop_at = number, now + self._stop_within_s
        else:
            self._stop_at = min(self._stop_at, now + AGAIN_WITHIN_S)

    # Ending

    def _leave_if_ended(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                self._leave(os.waitstatus_to_exitcode(status))

    def _leave(self, code: int) -> NoReturn:
        if self._asked is None:
            self._end_by_itself(code)
        if code < 0:
            if -code == signal.SIGKILL:
                self._print_lines(
                    "error: the process of this command was killed (SIGKILL)",
                    "hint: look for the kernel's out-of-memory message (dmesg)" + self._then(),
                )
            self._end_events(128 - code, f"the process was killed ({how_ended(code)})")
            code = 128 - code
        elif code:
            self._end_events(code, f"the command failed with exit code {code}")
        os._exit(code)

    def _kill(self) -> None:
        """Kill the child, and all processes that it has started."""
        self._has_killed = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        deadline = time.monotonic() + ORPHANS_END_S
        while self._bury() and time.monotonic() < deadline:
            time.sleep(0.02)  # those that see their parent's end stop by themselves
        deadline = time.monotonic() + ORPHANS_KILLED_S
        while (orphans := self._bury()) and time.monotonic() < deadline:
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        if folder := self._work().get("ray_folder"):
            shutil.rmtree(folder, ignore_errors=True)  # its keeper was killed as well

    def _bury(self) -> list[int]:
        """Reap the orphaned processes that have ended, and return the pids of the others."""
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return children_of(os.getpid())

    # Looking

    def _check_work(self) -> None:
        now = time.monotonic()
        if is_stopped(self._pid):
            return
        self._read_pulse(now)
        if self._asked is not None:
            if now >= self._stop_at:
                self._end_unstopped(self._asked)
            return
        quiet_s = self._lookout.quiet_s
        if quiet_s < QUIET_S:
            self._tell_at_s = TELL_AFTER_S
            return
        if call := running_one(self._pid, self._lookout.overdue()):
            self._end_overdue(call)
        limit_s = self._work().get("limit_s")
        if limit_s is not None and quiet_s >= limit_s:
            self._end_frozen(quiet_s)
        if quiet_s >= self._tell_at_s and self._holds_lock(now):
            self._tell_at_s *= 2
            self._tell_of_block(quiet_s)

    def _read_pulse(self, now: float) -> None:
        self._lookout.look(now, self._pulse.last_beat, self._pulse.executing())

    def _holds_lock(self, now: float) -> bool:
        """Whether the child cannot report the block itself, because its own watchdog thread does
        not run.
        """
        beat = self._pulse.last_thread_beat
        return beat is None or now - beat > QUIET_S

    def _stacks(self) -> str:
        for pause_s in ask_for_stacks(self._pulse):
            time.sleep(pause_s)
        return self._pulse.stack_text()

    def _tell_of_block(self, quiet_s: float) -> None:
        from palestra.fleet import author_import, blocking, executing_place, standing_at

        call = running_one(self._pid, self._lookout.executing)
        stacks = self._stacks()
        if call is not None and (started := author_import(call)) is not None:
            self._print_lines(
                f"{started.file} is still being imported after {quiet_s:.0f} s, of "
                f"{started.limit_s:g} s at most ({started.longer}){standing_at(executing_place(call, stacks))}"
            )
            return
        holder = blocking(call, stacks)
        self._print_lines(
            f"warning: {holder} for {quiet_s:.0f} s: nothing else of this command can run"
        )

    # What is said and done when the child is ended

    def _end_overdue(self, call: Executing) -> None:
        """Kill the child because of `call`, unless the call returns while its stack is being read."""
        from palestra.fleet import overrun, row_name, unfinished_import

        lasted_s = time.monotonic() - call.since
        stacks = self._stacks()
        error = overrun(call, stacks, lasted_s)
        unfinished = unfinished_import(call, stacks)
        self._read_pulse(time.monotonic())
        if call not in self._lookout.overdue():
            return
        self._kill()
        if unfinished is not None:
            self._give_up(unfinished.message, unfinished.hint)
        if error is None:
            self._give_up(f"the event loop has not run for {self._lookout.quiet_s:.0f} s")
        row = error.evidence.row
        rollout = f"{row_name(row)}: " if row is not None else ""
        recorded = self._record(error, lasted_s)
        self._give_up(f"{rollout}{error.message}", error.hint, recorded)

    def _end_by_itself(self, code: int) -> None:
        """When the code of a rollout has ended the process, record that rollout and exit.

        A process that ends in order executes no call any more.
        """
        if self._pulse.last_beat is None:
            return
        from palestra.fleet import process_end, row_name

        end = process_end(self._pulse, code)
        error = end.failure
        if error is not None and error.evidence.row is not None:
            recorded = self._record(error, time.monotonic() - end.since)
            message = f"{row_name(error.evidence.row)}: {error.message}"
            self._give_up(message, error.hint, recorded)
        if end.circumstances:
            message = f"the process of this command ended with {how_ended(code)}{end.circumstances}"
            self._leave_word(message, end.hint)
            self._give_up(message, end.hint)

    def _end_frozen(self, quiet_s: float) -> NoReturn:
        from palestra.fleet import blocking

        holder = blocking(running_one(self._pid, self._lookout.executing), self._stacks())
        self._kill()
        what = self._work().get("limit_of", "a row")
        hint = self._work().get("hint", "")
        self._give_up(f"{holder} for {quiet_s:.0f} s, which is as long as {what} may take", hint)

    def _record(self, error: "CallError", lasted_s: float) -> str:
        """Record the failed attempt of the killed child, and return the text to print about it."""
        from palestra.errors import PalestraError

        try:
            outcome = self._recorded(error, lasted_s)
        except (PalestraError, OSError) as problem:
            return f"warning: it could not be recorded: {problem}"
        return "" if outcome is None else f"it is recorded as {outcome.value}"

    def _recorded(self, error: "CallError", lasted_s: float) -> "Outcome | None":
        from palestra.rollouts import record_afterwards, record_stopped
        from palestra.schema import ReverifyCommand

        work = self._work()
        self._leave_word(error.message, error.hint, error)
        if work.get("reverified"):
            return record_stopped(Path(work["reverified"]), error)
        if not work.get("output"):
            return None
        result = record_afterwards(
            Path(work["output"]),
            error,
            max_attempts=work.get("max_attempts", 1),
            elapsed_s=lasted_s,
            reverify_command=ReverifyCommand.of(work.get("reverify_command")),
        )
        return None if result is None else result.outcome

    def _leave_word(self, message: str, hint: str, failure: "CallError | None" = None) -> None:
        """Write why the child's fleet has ended, for the commands that use it."""
        fields = self._work().get("fleet")
        if fields is None:
            return
        from palestra.fleet import RunFile, end_killed_fleet

        # The guard's own message must not be lost to a disk that is full.
        with contextlib.suppress(OSError):
            end_killed_fleet(RunFile(**fields), message, hint, failure)

    def _end_unstopped(self, stop_signal: signal.Signals) -> NoReturn:
        self._kill()
        self._print_lines(
            f"{stop_signal.name}: the command did not stop within {self._stop_within_s:g} s, so it was "
            "killed; what has ended is written" + self._then()
        )
        self._end_events(128 + stop_signal, f"killed, as it did not stop after {stop_signal.name}")
        os._exit(128 + stop_signal)

    def _give_up(self, message: str, hint: str = "", recorded: str = "") -> NoReturn:
        if "report" in self._work():
            from palestra.cli.verifying import show_locked

            show_locked(self._work(), message)
            sys.stdout.flush()
            os._exit(1)
        self._print_lines(f"error: {message}")
        if recorded:
            self._print_lines(recorded)
        from palestra.cli.console import in_words_called

        advice = in_words_called(hint or "the run can be continued")
        self._print_lines(f"hint: {advice}{self._then()}")
        self._end_events(1, message)
        os._exit(1)

    def _end_events(self, code: int, message: str) -> None:
        """Write the last event, that the command has ended, in place of the child that could not
        write it.
        """
        from palestra.cli.console import warn_of_setting
        from palestra.errors import PalestraError
        from palestra.rollouts import end_events, events_problem

        if target := self._work().get("events"):
            try:
                end_events(target, code=code, message=message, since=self._began)
            except (PalestraError, OSError) as problem:
                with contextlib.suppress(OSError):
                    warn_of_setting(events_problem(f"its last event is missing: {problem}"))

    def _work(self) -> dict[str, Any]:
        return _noted(self._pulse)

    def _then(self) -> str:
        next_command = self._work().get("again")
        return f"; {next_command}" if next_command else ""

    @staticmethod
    def _print_lines(*lines: str) -> None:
        from palestra.cli.console import notice

        with contextlib.suppress(OSError):
            for line in lines:
                notice(line)


def _load() -> None:
    """Import the modules of the run, and those that the guard needs to end a run."""
    with ending_imports_on_interrupt():
        import palestra.fleet
        import palestra.rollouts  # noqa: F401
