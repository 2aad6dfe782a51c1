"""`Sandbox`: an `AsyncSandbox` with blocking methods."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from palestra.compat.nemo_gym.sandbox.providers.base import (
    SandboxEndpoint,
    SandboxExecResult,
    SandboxHandle,
    SandboxProvider,
    SandboxSpec,
    SandboxStatus,
)
from palestra.compat.nemo_gym.sandbox.sandboxes import DEFAULT_TIMEOUT_S, AsyncSandbox
from palestra.schema import JsonDict

Value = TypeVar("Value")


class Sandbox:
    """An `AsyncSandbox` with blocking methods. It runs in a thread of its own, so a running event
    loop does not matter.
    """

    def __init__(
        self, provider: Mapping[str, Any] | SandboxProvider, spec: SandboxSpec | None = None
    ) -> None:
        self._sandbox = AsyncSandbox(provider, spec)
        self._thread = _LoopThread()

    @property
    def provider(self) -> SandboxProvider:
        """The provider of the sandbox."""
        return self._sandbox.provider

    @property
    def spec(self) -> SandboxSpec | None:
        """The spec of the sandbox."""
        return self._sandbox.spec

    @property
    def handle(self) -> SandboxHandle:
        """The provider's reference to the sandbox. Raises RuntimeError: the sandbox does not run."""
        return self._sandbox.handle

    @property
    def sandbox_id(self) -> str:
        """The provider's name of the sandbox. Raises RuntimeError: the sandbox does not run."""
        return self._sandbox.sandbox_id

    def start(self, spec: SandboxSpec | None = None) -> Self:
        """Create the sandbox. Raises the errors of `AsyncSandbox.start`."""
        self._thread.run(self._sandbox.start(spec))
        return self

    def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        user: str | int | None = None,
    ) -> SandboxExecResult:
        """Run a shell command. Raises RuntimeError: the sandbox does not run."""
        return self._thread.run(
            self._sandbox.exec(command, cwd=cwd, env=env, timeout_s=timeout_s, user=user)
        )

    def upload(self, source_path: str | Path, target_path: str) -> None:
        """Copy a file of this machine into the sandbox."""
        self._thread.run(self._sandbox.upload(source_path, target_path))

    def download(self, source_path: str, target_path: str | Path) -> None:
        """Copy a file of the sandbox to this machine."""
        self._thread.run(self._sandbox.download(source_path, target_path))

    def status(self) -> SandboxStatus:
        """Return the state of the sandbox."""
        return self._thread.run(self._sandbox.status())

    def endpoint(self, port: int) -> SandboxEndpoint:
        """Return the route to a port of the sandbox."""
        return self._thread.run(self._sandbox.endpoint(port))

    def pty(self, *arguments: Any, **options: Any) -> Any:
        """Open a terminal in the sandbox. Raises NotImplementedError: the provider has none."""
        return self._thread.run(self._sandbox.pty(*arguments, **options))

    def serialize(self) -> JsonDict:
        """Return a descriptor for `connect`, as JSON values."""
        return self._sandbox.serialize()

    @classmethod
    def connect(
        cls, descriptor: Mapping[str, Any], *, provider: Mapping[str, Any] | SandboxProvider
    ) -> Self:
        """Return a sandbox that runs already. Raises the errors of `AsyncSandbox.connect`."""
        thread = _LoopThread()
        try:
            inner = thread.run(AsyncSandbox.connect(descriptor, provider=provider))
        except BaseException:
            thread.close()
            raise
        sandbox = cls(inner.provider, inner.spec)
        sandbox._sandbox, sandbox._thread = inner, thread
        return sandbox

    def stop(self) -> None:
        """Remove the sandbox and close its provider. Repeated calls have no further effect."""
        try:
            self._thread.run(self._sandbox.stop())
        finally:
            self._thread.close()

    def __enter__(self) -> Self:
        try:
            self._thread.run(self._sandbox.__aenter__())
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()


class _LoopThread:
    """A thread with an event loop. It starts with the first work. After `close`, it runs only while
    it has work.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Run `work` in the thread and return its result."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._loop.run_forever, name="sandbox", daemon=True
            )
            self._thread.start()
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            if self._is_closed:
                self.close()

    def close(self) -> None:
        """End the thread."""
        self._is_closed = True
        loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
