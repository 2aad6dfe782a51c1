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
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from palestra.config import config_from_tree
from palestra.errors import PalestraError, refusal_line
from palestra.fleet.build import (
    GLOBAL_DEBUG,
    PROFILE_WITHIN_S,
    PROFILING,
    build_server,
    profiler_for,
    server_client,
    start_server,
    starting,
    stop_server,
)
from palestra.fleet.child import STOP_S
from palestra.fleet.garbage import rare_collections
from palestra.fleet.importing import start_timeout_of, starting_within
from palestra.fleet.orders import WorkOrder
from palestra.fleet.ray_clusters.place import RayPlace
from palestra.fleet.sockets import serving
from palestra.fleet.task_dump import dumping_tasks
from palestra.fleet.watchdog import LagLog, Watchdog, watchdog_threshold_s
from palestra.server import Server
from palestra.system import (
    Pulse,
    beating,
    exit_quickly,
    make_current,
    raise_descriptor_limit,
)
from palestra.transport import Target

if TYPE_CHECKING:
    from palestra.fleet.server_profiles.attributed import ProfiledServer

STOP_GRACE_S = 2.0
VERBOSE = "verbose"
"""The setting that makes a server process log everything."""


async def serve(order: WorkOrder) -> None:
    """Build, start and serve the instance until SIGTERM or SIGINT arrives.

    Until the server is built, SIGTERM ends the process at once: an import may last minutes, and
    nothing has to be stopped yet.
    """
    instance = replace(
        config_from_tree(order.tree).instance(order.instance),
        setting_files={key: Path(file) for key, file in order.setting_files.items()},
        file=Path(order.file) if order.file else None,
        setting_references=order.setting_references,
    )
    targets = {
        name: Target(name, server_type, tuple(urls))
        for name, (server_type, urls) in order.targets.items()
    }
    client = server_client(targets, order.tree, token=order.token)
    ray = RayPlace.decode(order.ray)
    ray.notice_import(order.tree)
    with starting(instance.name):
        server = build_server(instance, client)
    await ray.connect(instance.folder)
    server.secure(secret=order.secret, token=order.token, worker=order.worker)
    profiler = profiler_for(order.tree, shared=False)
    served: Server | ProfiledServer = server
    if profiler is not None:
        served = profiler.start().over(server, name=order.process_name, token=order.token)
    try:
        with _until_signalled():
            with starting(instance.name):
                app = await start_server(server, local=served)
            with dumping_tasks(server.palestra_in_flight.lines):
                async with (
                    rare_collections(),
                    beating(),
                    _watched(order),
                    serving(app, socket.socket(fileno=order.fd)),
                ):
                    await asyncio.Event().wait()
    finally:
        if profiler is not None:
            # Before the author's own `stop`, which may not end before the fleet ends this.
            profiler.finish()
        await stop_server(server, STOP_S)
        await client.http.aclose()
        await ray.leave()


@contextlib.contextmanager
def _until_signalled() -> Iterator[None]:
    """Cancel the body at the first SIGTERM or SIGINT, also while the server starts."""
    task, stopped = asyncio.current_task(), asyncio.Event()
    assert task is not None  # noqa: S101  # it runs on the event loop

    def stop() -> None:
        # A parent that ends sends one signal, and `stop_with_parent` another.
        if not stopped.is_set():
            stopped.set()
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        yield
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
        task.uncancel()


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


def stop_with_parent(*, grace_s: float) -> None:
    """End this process when standard input closes: first with SIGTERM, and by force after `grace_s`
    seconds.
    """

    def watch() -> None:
        # Not through sys.stdin: a thread that waits in it makes the interpreter abort at exit.
        while os.read(0, 65536):
            pass
        # For a call that takes the interpreter's lock after this line, and keeps it.
        faulthandler.dump_traceback_later(grace_s + STOP_GRACE_S, exit=True)
        # Where this process leads its own group, whatever it started goes with it.
        send = os.killpg if os.getpgrp() == os.getpid() else os.kill
        send(os.getpid(), signal.SIGTERM)
        threading.Event().wait(grace_s)
        send(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True, name="parent watch").start()


def main() -> int:
    """Run the server. Return 0 after an orderly stop, and the error's exit code when the server
    could not start or run.
    """
    exit_quickly()
    order = WorkOrder.decode(sys.stdin.buffer.readline())
    profile_s = PROFILE_WITHIN_S if order.tree.get(PROFILING) else 0.0
    stop_with_parent(grace_s=STOP_GRACE_S + profile_s)
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
