"""The moment in which interrupted code is left: the signal's default would end the process."""

import signal
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

from palestra.conformance import LoopGuard
from palestra.testing.verifying import Interruption

LATE_WAKE = textwrap.dedent(
    """
    import signal, threading, time
    from palestra.conformance import LoopGuard
    from palestra.testing.verifying import Interruption

    send, is_sending = signal.pthread_kill, threading.Event()

    def send_late(*order):
        is_sending.set()
        time.sleep(0.3)
        send(*order)

    signal.pthread_kill = send_late
    interruption = Interruption(60.0)
    waking = threading.Thread(target=interruption.wake, args=(1.0,))
    with interruption.watching(LoopGuard(interruption.wake, frozen_s=60.0)):
        waking.start()
        is_sending.wait()
    waking.join()
    """
)


@pytest.mark.slow
def test_a_signal_that_comes_late_does_not_end_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE_WAKE], check=False, timeout=60, capture_output=True
    )

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_signal_while_the_body_is_left_leaves_no_handler_and_no_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_timer, limit_s = signal.setitimer, 0.01
    guard = LoopGuard(lambda _: None, frozen_s=60.0)

    def set_timer_and_interrupt(which: int, first_s: float, *every_s: float) -> Any:
        if first_s == 0.0:
            signal.raise_signal(signal.SIGPROF)
        return set_timer(which, first_s, *every_s)

    monkeypatch.setattr(signal, "setitimer", set_timer_and_interrupt)
    with Interruption(limit_s).watching(guard):
        while guard.still_s() < limit_s:
            time.sleep(limit_s)

    assert signal.getsignal(signal.SIGPROF) == signal.SIG_DFL
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
