"""Report the rollouts in flight of a running collection, even while its event loop is blocked.

A thread answers on a loopback port. A file in the run directory, which only its user can read,
contains the port and the nonce that a request must send.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import orjson

from palestra.rollouts.collect import Progress
from palestra.rollouts.pace import span_text
from palestra.schema import JsonDict, JsonObject
from palestra.system import run_dir
from palestra.transport import new_id

ASK_TIMEOUT_S: Final = 3.0
_LOCKS: Final = Path("/proc/locks")


@dataclass(frozen=True, slots=True)
class Announcement:
    """The address of one running collection. `started` is in seconds since the epoch."""

    pid: int
    port: int
    nonce: str
    output: str
    started: float


def in_flight(progress: Progress) -> list[JsonDict]:
    """Return the rollouts in flight, the oldest first. May be called on any thread."""
    now = time.monotonic()
    return [
        {
            "task": job.key.task,
            "rollout": job.key.rollout,
            "attempt": job.attempt,
            "agent": job.agent,
            "phase": job.phase,
            "awaiting": job.awaiting,
            "awaiting_s": round(now - job.since, 3),
            "age_s": round(now - job.started, 3),
        }
        for job in progress.jobs()
    ]


def in_flight_lines(progress: Progress) -> Iterator[str]:
    """Yield one log line for each rollout in flight, the oldest first."""
    for job in in_flight(progress):
        yield (
            f"{job['task']}:{job['rollout']} attempt {job['attempt']} of {job['agent']}, "
            f"{job['age_s']:.1f} s old: {job['phase']}, awaiting "
            f"{job['awaiting'] or 'its own code'} for {job['awaiting_s']:.1f} s"
        )


@contextlib.contextmanager
def announced(output: Path, progress: Progress, *, run: str = "") -> Iterator[None]:
    """Answer status requests about `progress` while the body runs.

    When no port or no file can be opened, the body runs all the same. `run`: the id under which the
    servers know the calls of this collection.
    """

    def payload_bytes() -> bytes:
        accounting = progress.accounting
        elapsed_s = time.monotonic() - progress.started
        pace = progress.read_pace()
        return orjson.dumps(
            {
                "run": run,
                "requested": accounting.requested,
                "scored": accounting.scored,
                "failed": accounting.failed,
                "mean_reward": accounting.mean_reward,
                "elapsed_s": round(elapsed_s, 1),
                "rate": pace.rate,
                "left_s": pace.left_s,
                "health": pace.health.value,
                "health_text": pace.sentence,
                "last_failure": progress.last_failure,
                "in_flight": in_flight(progress),
            }
        )

    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            stack.enter_context(_answering(output, payload_bytes))
        yield


@contextlib.contextmanager
def _answering(output: Path, report: Callable[[], bytes]) -> Iterator[None]:
    nonce = new_id()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        where = Announcement(
            os.getpid(), listening.getsockname()[1], nonce, str(output), time.time()
        )
        path = _write(where)
        answering = threading.Thread(
            target=_answer, args=(listening, nonce.encode(), report), daemon=True, name="in job"
        )
        answering.start()
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)  # wakes the thread, which `close` does not


def _answer(listening: socket.socket, nonce: bytes, report: Callable[[], bytes]) -> None:
    while True:
        try:
            asking, _ = listening.accept()
        except OSError:
            return
        with asking, contextlib.suppress(OSError):
            asking.settimeout(ASK_TIMEOUT_S)
            if asking.recv(len(nonce), socket.MSG_WAITALL) == nonce:
                asking.sendall(report())


def _write(where: Announcement) -> Path:
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{where.pid}.json"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(orjson.dumps(asdict(where)))
    return path


def _folder() -> Path:
    return run_dir() / "collections"


def announcements() -> list[Announcement]:
    """Return the collections of this user that run on this machine, the oldest first."""
    running: list[Announcement] = []
    for path in _folder().glob("*.json"):
        with contextlib.suppress(OSError, ValueError, TypeError):
            where = Announcement(**orjson.loads(path.read_bytes()))
            os.kill(where.pid, 0)
            running.append(where)
    return sorted(running, key=lambda where: where.started)


def why_unscored(
    report: JsonObject, task: int | str | None, rollout: int | None, *, has_failed: bool
) -> str:
    """Return why a rollout of a running collection has no score, in one clause, from its status
    report. `has_failed`: an attempt failed.
    """
    for job in report.get("in_flight") or ():
        if (job["task"], job["rollout"]) == (task, rollout):
            awaited = f"awaits {job['awaiting']}" if job["awaiting"] else "runs its own code"
            return (
                f"it has been in flight for {span_text(job['age_s'])}, in attempt {job['attempt']}: "
                f"phase {job['phase']}, where it {awaited} for {span_text(job['awaiting_s'])}"
            )
    return "it failed" if has_failed else "it has not started; the run is being collected"


def announcement_of(output: Path) -> Announcement | None:
    """Return the collection of this user that writes an output now; None without one."""
    running = announcements()
    return next((w for w in running if Path(w.output).absolute() == output.absolute()), None)


def is_being_written(output: Path) -> bool:
    """Whether a process of this machine holds the lock of an output. The lock itself is not touched:
    a run that is about to start would be refused.
    """
    with contextlib.suppress(OSError):
        inode = f":{output.stat().st_ino} "
        return any(inode in line and "WRITE" in line for line in _LOCKS.read_text().splitlines())
    return False


def ask_collection(where: Announcement) -> JsonDict | None:
    """Return the status report of a collection; None when it does not answer in time."""
    try:
        with socket.create_connection(
            ("127.0.0.1", where.port), timeout=ASK_TIMEOUT_S
        ) as connection:
            connection.sendall(where.nonce.encode())
            reply = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        answer: JsonDict = orjson.loads(reply)
    except (OSError, ValueError):
        return None
    return answer
