"""The main program of a server process: `python -m palestra.fleet.worker INSTANCE`.

The argument only helps people who read the list of processes. The process reads its work order from
the first line of standard input, and serves one instance on a socket that its parent bound. It
stops on a signal, or when standard input closes because the parent has ended.
"""

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

from palestra.config import config_from_tree
from palestra.errors import PalestraError
from palestra.fleet.build import (
    GLOBAL_DEBUG,
    build_server,
    profiler_for,
    server_client,
    start_server,
)
from palestra.fleet.garbage import rare_collections
from palestra.fleet.importing import start_timeout_of, starting_within
from palestra.fleet.orders import WorkOrder, refusal_line
from palestra.fleet.ray_clusters.place import RayPlace
from palestra.fleet.sockets import raise_descriptor_limit, serving
from palestra.fleet.task_dump import dumping_tasks
from palestra.fleet.watchdog import LagLog, Watchdog, watchdog_threshold_s
from palestra.server import Server
from palestra.system import Pulse, beating, make_current
from palestra.transport import Target

if TYPE_CHECKING:
    from palestra.fleet.server_profiles.attributed import ProfiledServer

STOP_GRACE_S = 2.0
VERBOSE = "verbose"
"""The setting that makes a server process log everything."""


async def serve(order: WorkOrder) -> None:
    """Build, start and serve the instance until SIGTERM or SIGINT arrives."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    instance = config_from_tree(order.tree).instance(order.instance)
    targets = {
        name: Target(name, server_type, tuple(urls))
        for name, (server_type, urls) in order.targets.items()
    }
    client = server_client(targets, order.tree, token=order.token)
    ray = RayPlace.decode(order.ray)
    ray.notice_import(order.tree)
    server = build_server(instance, client)
    await ray.connect(instance.folder)
    server.secure(secret=order.secret, token=order.token, worker=order.worker)
    profiler = profiler_for(order.tree, shared=False)
    served: Server | ProfiledServer = server
    if profiler is not None:
        served = profiler.start().over(server, name=order.process_name, token=order.token)
    try:
        app = await start_server(server, local=served)
        with dumping_tasks(server.palestra_in_flight.lines):
            async with (
                rare_collections(),
                beating(),
                _watched(order),
                serving(app, socket.socket(fileno=order.fd)),
            ):
                await stop.wait()
    finally:
        if profiler is not None:
            # Before the author's own `stop`, which may not end before the fleet ends this.
            profiler.finish()
        await server.shut_down()
        await client.http.aclose()
        await ray.leave()


def _watched(order: WorkOrder) -> contextlib.AbstractAsyncContextManager[object]:
    """Return a watchdog for this process. Its warnings are printed to standard error."""
    threshold_s = watchdog_threshold_s(order.tree)
    if threshold_s <= 0:
        return contextlib.nullcontext()
    lag_log = LagLog(_print_line)
    return Watchdog(lag_log, threshold_s=threshold_s)


def _log_requests() -> None:
    """Log successful requests too. Without a handler, Python prints warnings and errors only."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    transport = logging.getLogger("palestra.transport")
    transport.addHandler(handler)
    transport.setLevel(logging.INFO)


def _print_line(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def stop_with_parent() -> None:
    """End this process when standard input closes: first with SIGTERM, then by force."""

    def watch() -> None:
        # Not through sys.stdin: a thread that waits in it makes the interpreter abort at exit.
        while os.read(0, 65536):
            pass
        # For a call that takes the interpreter's lock after this line, and keeps it.
        faulthandler.dump_traceback_later(2 * STOP_GRACE_S, exit=True)
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(STOP_GRACE_S)
        if os.getpgrp() == os.getpid():
            # This process leads its own group: whatever it started goes with it.
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent watch").start()


def main() -> int:
    """Run the server. Return 0 after an orderly stop, and the error's exit code when the server
    could not start or run.
    """
    order = WorkOrder.decode(sys.stdin.buffer.readline())
    stop_with_parent()
    if order.tree.get(VERBOSE):
        logging.basicConfig(level=logging.DEBUG, format="%(levelname)s %(name)s %(message)s")
    elif order.tree.get(GLOBAL_DEBUG):
        _log_requests()
    raise_descriptor_limit()
    if order.pulse is not None:
        make_current(Pulse.opened(*order.pulse))
    try:
        import uvloop

        with starting_within(start_timeout_of(order.tree)):
            uvloop.run(serve(order))
    except PalestraError as error:
        sys.stderr.write(refusal_line(error) + "\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
