"""The engine as our process sees it: started, called as long as it lives, stopped."""

import asyncio
import contextlib
import importlib.util
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self, TypeVar, final

from palestra.errors import ConfigError, InfraError, ServerDied
from palestra.fleet import Child, Ending
from palestra.responses_api_models.local_model.engine import READY, EngineOrder

logger = logging.getLogger("palestra.local_model")

ENGINE = Path(__file__).with_name("engine.py")

Answer = TypeVar("Answer")


class EngineDied(InfraError):
    """The engine's process is gone and is not started again: no retry can help."""

    retriable = False
    ending: Ending | None = None
    """How the process ended: for a client in this process, which tells it as a server's end."""


def require_engine(module: str = "xllamacpp") -> None:
    """Raises ConfigError, naming what to install, when llama.cpp is not there."""
    if importlib.util.find_spec(module) is None:
        raise ConfigError(
            f"the local model runs on {module}, which is not installed",
            hint="pip install 'palestra[local]'",
        )


@final
class RunningEngine:
    """One engine process. Make it with `start`."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.ending: asyncio.Task[Ending] = asyncio.create_task(
            child.ended(), name=f"end of {child.name}"
        )
        """Done when the process has ended."""
        self.pid = child.pid
        self.url = ""

    @classmethod
    async def start(
        cls,
        name: str,
        order: EngineOrder,
        *,
        timeout_s: float,
        command: tuple[str, ...] = (sys.executable, "-P", str(ENGINE)),
    ) -> Self:
        """Start an engine and wait until it answers.

        Raises ServerDied, with its last lines, when it ends before that, or is not ready in
        time; nothing is left running then.
        """
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        level = logging.INFO if order.verbose else logging.DEBUG

        def on_line(_name: str, line: str) -> None:
            if line.startswith(READY) and not ready.done():
                ready.set_result(line.removeprefix(READY))
            else:
                logger.log(level, "%s | %s", name, line)

        child = await Child.spawn(name, list(command), order=order.as_line(), on_line=on_line)
        engine = cls(child)
        try:
            engine.url = await engine._until(ready, timeout_s)
        except BaseException:
            await engine.stop()
            raise
        return engine

    async def _until(self, ready: asyncio.Future[str], timeout_s: float) -> str:
        either: set[asyncio.Future[Any]] = {ready, self.ending}
        await asyncio.wait(either, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if ready.done():
            return ready.result()
        if self.ending.done():
            raise self.ending.result().as_error(before_ready=True)
        raise ServerDied(
            f"{self._child.name} was not ready within {timeout_s:.0f} s",
            hint="raise start_timeout_s; a busy machine may need half a minute to load the model",
        )

    async def call(self, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """What `send` returns, unless the engine ends first. Raises `EngineDied` then."""
        if self.ending.done():
            raise self._died()
        sending = asyncio.ensure_future(send())
        try:
            either: set[asyncio.Future[Any]] = {sending, self.ending}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            answered = sending.done() and sending.exception() is None
            if self.ending.done() and not answered:
                raise self._died()
            return await sending
        finally:
            if not sending.done():
                sending.cancel()
                await asyncio.wait({sending})

    def _died(self) -> EngineDied:
        if self.ending.cancelled():
            return EngineDied(f"{self._child.name}: the model was stopped")
        ending = self.ending.result()
        last = "".join(f"\n  | {line}" for line in ending.last_lines) or " (it printed nothing)"
        died = EngineDied(
            f"{self._child.name}: the model's process {self.pid} ended with {ending.how}; "
            f"its last lines:{last}",
            hint="it is not started again: start the run anew. After SIGKILL, look for the "
            "kernel's out-of-memory message (dmesg)",
        )
        died.ending = ending
        return died

    async def stop(self) -> None:
        """End the process; twice does no harm."""
        self.ending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.ending
        await self._child.stop()
