"""What authors' functions do, good and bad."""

import os
import re
import signal
import sys
import time


def backtrack() -> object:
    return re.match(r"(a+)+$", "a" * 40 + "b")


def spin() -> None:
    while True:
        pass


def backtrack_deaf() -> None:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    backtrack()


def fail() -> None:
    raise LookupError("no key")


def leave_a_sleeper() -> None:
    if os.fork() == 0:
        time.sleep(60)


def close_output() -> None:
    os.close(1)
    sys.stdout.close()


def set_an_alarm() -> None:
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
