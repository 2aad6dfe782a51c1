"""Run the Ray cluster of one fleet: `python -m palestra.fleet.ray_clusters.keeper FOLDER PID`.

The cluster uses this machine only. It ends when the fleet's process, PID, has ended for whatever
reason, or on SIGTERM.
"""

import os
import select
import shutil
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from palestra.fleet.ray_clusters.place import ADDRESS, AUTH_MODE
from palestra.system import write_whole

OBJECTS_BYTES: Final = 512 * 2**20
"""The size of Ray's object store in bytes. Each process that uses Ray maps all of it, and a
server's worker may map 4 GiB in total. Objects that do not fit are spilled to disk."""
TRIES: Final = 3


def main(folder: Path, fleet_pid: int) -> None:
    """Start the cluster, write its address into `folder`, and stop when the fleet ends."""
    fleet = os.pidfd_open(fleet_pid)
    ray = _started(folder)
    stopped, stop = os.pipe()
    # After Ray, which takes this signal for itself.
    signal.signal(signal.SIGTERM, lambda *_: os.write(stop, b"."))
    address = ray.get_runtime_context().gcs_address
    # Ray asks for a token, unless its user says otherwise; who joins must do the same.
    write_whole(folder / ADDRESS, f"{address} {os.environ.get(AUTH_MODE, '')}".encode())
    poll = select.poll()
    poll.register(fleet, select.POLLIN)
    poll.register(stopped, select.POLLIN)
    poll.poll()
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


def _started(folder: Path) -> Any:
    """Start a cluster on this machine; return the `ray` module, connected to it."""
    ray: Any = import_module("ray")
    for attempt in range(TRIES):
        try:
            ray.init(
                address="local",
                include_dashboard=False,
                object_store_memory=OBJECTS_BYTES,
                log_to_driver=False,
                logging_level="warning",
                _temp_dir=str(folder),
            )
            break
        except Exception:  # on a busy machine, its daemons do not always get their turn in time
            if attempt == TRIES - 1:
                raise
            ray.shutdown()
    return ray


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
