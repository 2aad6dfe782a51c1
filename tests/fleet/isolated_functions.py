"""A one-file environment whose function does what the row says."""

import ctypes
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from author_deeds import (
    backtrack,
    backtrack_deaf,
    close_output,
    fail,
    leave_a_sleeper,
    set_an_alarm,
    spin,
)
from palestra import environment

RETURNED_IN_THE_CHILD = 7.0


def return_in_both() -> float:
    return RETURNED_IN_THE_CHILD if os.fork() == 0 else 1.0


KINDS: dict[str, Callable[[], Any]] = {
    "fine": lambda: 1.0,
    "regex": backtrack,
    "loop": spin,
    "deaf": backtrack_deaf,
    "sleep": lambda: time.sleep(60),
    "exit": lambda: os._exit(3),
    "sys exit": lambda: sys.exit(3),
    "segfault": lambda: ctypes.string_at(0),
    "memory": lambda: bytearray(2**36),
    "raise": fail,
    "rubbish": lambda: ["reward", 1.0],
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
