"""A one-file environment whose function does what the row says."""

import ctypes
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from palestra import environment

RETURNED_IN_THE_CHILD = 7.0


def backtrack() -> object:
    return re.match(r"(a+)+$", "a" * 40 + "b")


def swallow_every_signal() -> None:
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)


def spin() -> None:
    while True:
        pass


def return_in_both() -> float:
    return RETURNED_IN_THE_CHILD if os.fork() == 0 else 1.0


def leave_a_sleeper() -> None:
    if os.fork() == 0:
        time.sleep(60)


def close_output() -> None:
    os.close(1)
    sys.stdout.close()


def set_an_alarm() -> None:
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.05)


def fail() -> None:
    raise LookupError("no key")


KINDS: dict[str, Callable[[], Any]] = {
    "fine": lambda: 1.0,
    "regex": backtrack,
    "loop": spin,
    "deaf": lambda: (swallow_every_signal(), backtrack()),
    "sleep": lambda: time.sleep(60),
    "exit": lambda: os._exit(3),
    "sys exit": lambda: sys.exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "memory": lambda: bytearray(2**36),
    "raise": fail,
    "rubbish": lambda: {"reward": 1.0},
    "fork": return_in_both,
    "forked sleeper": leave_a_sleeper,
    "close output": close_output,
    "close everything": lambda: os.closerange(0, 1000),
    "chdir": lambda: os.chdir("/"),
    "where": lambda: float(Path.cwd() != Path("/")),
    "alarm": set_an_alarm,
}


@environment(data=[{"kind": "fine"}], prompt="{kind}")
def verify(kind: str) -> Any:
    returned = KINDS[kind]()
    return 1.0 if returned is None else returned
