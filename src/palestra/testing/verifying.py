"""Verify one answer with one verifier, without a fleet."""

import asyncio
import contextlib
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, final

from palestra.config import ServerType, config_from_tree, load_config
from palestra.conformance import EnvironmentInterface, LoopGuard, PlayedAnswer, Player, door_of
from palestra.fleet import assembled, build_server, load_server_class, server_client
from palestra.sandbox import nurseries_kept
from palestra.schema import (
    JUDGE_REPLAY,
    TOOL_FAILURES,
    JsonObject,
    OutputItem,
    Response,
    read_jsonl,
    response_of,
)
from palestra.server import (
    VERIFY,
    AuthorsPlace,
    Environment,
    EnvironmentDefinition,
    ResourcesServer,
    class_of,
    is_servers_file,
    overran,
    server_class_of,
)
from palestra.testing.places import OF_ONE_TEST, config_of, data_file_of, entrypoint_of

EVERY_CPU_S: Final = 0.5
_LEAVING: Final = frozenset({__file__, contextlib.__file__})
"""The files whose code runs when the body ends."""


class LoopBlocked(BaseException):
    """Raised in code that blocks the event loop for too long. No `except Exception` catches it."""

    def place(self) -> AuthorsPlace:
        """Return the innermost frame in an author's file; without one, the innermost frame."""
        frames = [
            AuthorsPlace(frame.name, frame.filename, frame.lineno or 0)
            for frame in reversed(traceback.extract_tb(self.__traceback__))
            if frame.filename != __file__
        ]
        theirs = (frame for frame in frames if is_servers_file(frame.file))
        return next(theirs, frames[0] if frames else AuthorsPlace())


@final
class Interruption:
    """Raises `LoopBlocked` in code that blocks the event loop for `limit_s`.

    It does nothing outside the main thread, or when a profiler uses the same signal.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._is_watching = False
        """Outside the body, the signal would end the process."""

    def wake(self, _still_s: float) -> None:
        """Send the signal from the guard's thread. The CPU timer does not interrupt code that
        sleeps.
        """
        with self._lock:
            if self._is_watching:
                signal.pthread_kill(self._thread, signal.SIGPROF)

    @contextlib.contextmanager
    def watching(self, guard: LoopGuard) -> Iterator[None]:
        """Interrupt the body when it blocks the event loop for too long."""
        if not _is_unused():
            yield
            return

        def interrupt(_number: int, frame: FrameType | None) -> None:
            # Not while the body is being left: the handler and the timer would stay.
            is_leaving = frame is not None and frame.f_code.co_filename in _LEAVING
            if self._is_watching and not is_leaving and guard.still_s() >= self._limit_s:
                raise LoopBlocked

        signal.signal(signal.SIGPROF, interrupt)
        self._is_watching = True
        signal.setitimer(signal.ITIMER_PROF, EVERY_CPU_S, EVERY_CPU_S)
        try:
            yield
        finally:
            with self._lock:
                self._is_watching = False
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            # Ignored first: that drops a signal which is still on its way.
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)


def _is_unused() -> bool:
    """Whether no handler uses the signal, and this is the main thread, where a handler would run."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGPROF) == signal.SIG_DFL
    )


Subject = (
    ResourcesServer | type[ResourcesServer] | type[Environment] | Callable[..., Any] | str | Path
)
"""A server or its class, an `Environment` or a function with `@environment`, or the folder, the file
or the name of an environment."""

TIMEOUT_S = 60.0


def server_of(environment: Subject, **settings: Any) -> ResourcesServer:
    """Return the server to test; `settings`: values of its config."""
    if isinstance(environment, ResourcesServer):
        return environment
    configured = _configured(environment) if isinstance(environment, str | Path) else None
    if configured is not None and not settings:
        return configured
    cls: Any = _class_of(environment)
    config_model = cls.model_fields["config"].annotation
    config = config_model.model_validate({"name": "under_test", **settings})
    server: ResourcesServer = cls(config=config, server_client=server_client({}, {}))
    return server


def _configured(environment: str | Path) -> ResourcesServer | None:
    """Return the server of a folder, with the settings of its config; None when it has no config."""
    path = config_of(environment)
    if path is None:
        return None
    root = path.absolute().parents[3]
    config = load_config(config_paths=[str(path)], cwd=root, required=(), use_env_yaml=False)
    for instance in config.instances_of(ServerType.RESOURCES):
        server = build_server(instance, server_client({}, {}))
        if isinstance(server, ResourcesServer):
            return server
    return None


def _class_of(environment: Any) -> Any:
    if class_of(environment) is not None:
        return server_class_of(EnvironmentDefinition.of(environment))
    if not isinstance(environment, str | Path):
        return environment
    return load_server_class(entrypoint_of(environment))


def verify(
    environment: Subject,
    row: JsonObject,
    answer: str | OutputItem | Response,
    *,
    stored: bool = False,
    timeout_s: float = TIMEOUT_S,
) -> PlayedAnswer:
    """Verify an answer in its own session: seed, run its calls, verify; return the verdict.

    `stored`: only verify, as for a rollout whose session no longer exists. Author's code that does
    not return is interrupted after `timeout_s`; the failure names its function, file and line.
    """
    response = answer if isinstance(answer, Response) else response_of(answer)
    with nurseries_kept(OF_ONE_TEST):
        server = server_of(environment)
        try:
            return asyncio.run(_verified(server, row, response, timeout_s, stored=stored))
        except LoopBlocked as blocked:
            failure = overran(server.name, VERIFY, blocked.place(), timeout_s)
            return PlayedAnswer(None, timeout_s, timeout_s, failure=failure, timed_out=True)


async def _verified(
    server: ResourcesServer,
    row: JsonObject,
    response: Response,
    timeout_s: float,
    *,
    stored: bool,
) -> PlayedAnswer:
    name = server.name
    interruption = Interruption(timeout_s)
    async with (
        assembled(config_from_tree({}), (), {name: server}) as assembly,
        LoopGuard(interruption.wake, frozen_s=timeout_s) as guard,
    ):
        door: EnvironmentInterface = await door_of(assembly.client, name)
        player = Player(assembly.client, door, guard, timeout_s=timeout_s)
        with interruption.watching(guard):
            return await player.verify(row, response, stored=stored)


def assert_verifies(
    environment: Subject,
    row: JsonObject,
    answer: str | OutputItem | Response,
    reward: float,
) -> None:
    """Assert that an answer gets exactly this reward. The error has the actual reward, or why there
    is none.
    """
    _assert_reward(verify(environment, row, answer), reward)


def assert_recorded_rewards(folder: str | Path) -> None:
    """Assert that the recorded example rollouts of an environment get the same rewards again."""
    path = data_file_of(folder, "example_rollouts.jsonl")
    for line in read_jsonl(path):
        row = {**line.row, JUDGE_REPLAY: True}
        response = Response.model_validate(row.pop("response"))
        reward = row.pop("reward")
        verdict = verify(folder, row, response, stored=True)
        try:
            _assert_reward(verdict, reward)
        except AssertionError as error:
            raise AssertionError(f"{path.name} line {line.number}: {error}") from None


def _assert_reward(verdict: PlayedAnswer, reward: float) -> None:
    if verdict.failure is not None:
        raise AssertionError(f"no reward: {verdict.failure.message}")
    if verdict.timed_out:
        raise AssertionError(f"not verified within {TIMEOUT_S:g} s")
    if verdict.reward != reward:
        raise AssertionError(f"got {verdict.reward:g}, not {reward:g}{_broken_tools(verdict)}")


def _broken_tools(verdict: PlayedAnswer) -> str:
    """Return the errors of the tools that failed, as text; empty when no tool failed."""
    faults = (verdict.reported or {}).get(TOOL_FAILURES) or []
    raised = [f"{fault['tool']} raised {fault['type']}: {fault['message']}" for fault in faults]
    return f" (its tools broke: {'; '.join(raised)})" if raised else ""
