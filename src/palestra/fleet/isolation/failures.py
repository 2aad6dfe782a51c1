"""Convert a worker's end into the error of the call that it was running."""

from typing import Final

from palestra.config import ServerType
from palestra.errors import CallError, CallEvidence, DeadlineExceeded, Hop, InfraError, add_hop
from palestra.fleet.isolation.link import Ending, Hung, WorkerEnded
from palestra.sandbox import CRASHES
from palestra.server import TIME_LIMIT, overran
from palestra.system import how_ended
from palestra.transport import fault_of

MEMORY_MIB: Final = 4096
"""The address space in MiB that an author's code may use, beyond what its worker used at the start.
"""
LEAST_S: Final = 1.0
"""A call that ran for fewer seconds is not blamed: the rollout had used up its time before, or the
machine was too busy to run the call."""
_INSIDE: Final = "or set isolated=False, to run it inside the server's process"


def failure_of(server: str, path: str, ending: Ending) -> CallError:
    """Return the error of the call whose code ended its worker.

    The worker is added to the error as a hop of its own. A tool that ends its worker has not
    answered the model, while a tool that raises has.
    """
    return add_hop(_failure(server, path, ending), Hop(f"{server} (worker process)"))


def _failure(server: str, path: str, ending: Ending) -> CallError:
    match ending:
        case Hung(_, ran_s) if ran_s < LEAST_S:
            return DeadlineExceeded(
                f"{server}{path} was not done after the {ran_s:.1f} s that its rollout had left "
                "when its turn came",
                hint=f"raise {TIME_LIMIT}, or run fewer rollouts at once on this machine",
            )
        case Hung(place, ran_s):
            return overran(server, path, place, ran_s)
        case WorkerEnded(code, place) if code is not None and -code in CRASHES:
            return fault_of(ServerType.RESOURCES, path)(
                f"{server}{path} crashed its process by {how_ended(code)}{place.in_sentence()}",
                hint="a crash comes from native code: look at the C extensions that this line "
                "calls",
                evidence=CallEvidence(traceback=str(place)),
            )
        case WorkerEnded(code) if code is None or code >= 0:
            how = "closed its connection to the server" if code is None else how_ended(code)
            return fault_of(ServerType.RESOURCES, path)(
                f"{server}{path} ended its worker process ({how})",
                hint="look for os._exit, os.close or a library that ends the process",
            )
        case WorkerEnded(code):
            return InfraError(
                f"{server}{path}: its worker process was killed from outside, by "
                f"{how_ended(code or 0)}",
                hint="look for the kernel's out-of-memory message (dmesg)",
            )
        case _:
            return InfraError(f"{server}{path}: its worker process was stopped")


def out_of_memory(server: str, path: str) -> CallError:
    """Return the error of a call that needed more memory than its worker may use."""
    return fault_of(ServerType.RESOURCES, path)(
        f"{server}{path} took more than {MEMORY_MIB} MiB of memory",
        hint=f"use less memory, {_INSIDE} without a limit",
    )
