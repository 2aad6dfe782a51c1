"""One sandbox as a conversation with the program `shell`, which runs commands in a lasting folder."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import orjson

from palestra.compat.nemo_gym.sandbox.providers.base import (
    RUNTIME_FAILED,
    SANDBOX_FAILED,
    TIMED_OUT,
    SandboxError,
    SandboxExecResult,
    SandboxSpec,
    SandboxStatus,
    inside,
)
from palestra.sandbox import (
    Conversation,
    ConversationEnded,
    Limits,
    Sandbox,
    SandboxResult,
    Stop,
    conversing,
)
from palestra.schema import JsonDict, JsonObject

GRACE_S: Final = 30.0
"""Longest time to stop a command after its timeout and to receive its result, in seconds."""

CHUNK_BYTES: Final = 4 << 20
COPY_S: Final = 600.0
MOST_OUTPUT_BYTES: Final = 4 << 20
"""Largest size of a command's standard output, and also of its standard error; the rest is cut, and
the standard error says so."""

_EXIT_CODES: Final = {errno.ENOENT: 127, errno.EACCES: 126, errno.ENOEXEC: 126}
"""The exit codes, as in a shell, of programs that cannot be started."""

_COMMANDS_FAULT: Final[Mapping[Stop, str]] = {
    Stop.MEMORY: "it used more memory than it may",
    Stop.CPU: "it used all its CPU time",
    Stop.FILES: "it made more files than it may",
    Stop.PROCESSES: "it started more processes than it may",
}
KILLED: Final = 137
"""The exit code, as in a shell, of a killed program."""


class SandboxEnded(SandboxError):
    """The sandbox ended during a request to it."""

    def __init__(self, result: SandboxResult) -> None:
        how_it_ended = f"it ended with exit code {result.exit_code}"
        if result.stopped_by is not None:
            how_it_ended = _COMMANDS_FAULT.get(
                result.stopped_by, f"it was stopped ({result.stopped_by})"
            )
        super().__init__(f"the sandbox is gone: {how_it_ended}")
        self.is_commands_fault = result.stopped_by in _COMMANDS_FAULT


class ShellSession:
    """A sandbox that runs one command at a time."""

    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec
        self._open: AsyncExitStack | None = None
        self._conversation: Conversation | None = None
        self._turn = asyncio.Lock()
        self._failure: str = ""

    @contextlib.asynccontextmanager
    async def running_in(self, sandbox: Sandbox, limits: Limits) -> AsyncIterator[None]:
        """Run the session's program within the context."""
        program = conversing(Path(__file__).with_name("shell.py").read_bytes())
        async with sandbox.converse(program, limits=limits, rests=True) as conversation:
            self._conversation = conversation
            yield

    def keep(self, stack: AsyncExitStack) -> None:
        """Hold the context of `running_in` open until `close`."""
        self._open = stack

    @property
    def status(self) -> SandboxStatus:
        """Whether the sandbox runs, was closed, or ended with an error."""
        if self._failure:
            return SandboxStatus.ERROR
        return SandboxStatus.STOPPED if self._conversation is None else SandboxStatus.RUNNING

    async def close(self) -> None:
        """Remove the sandbox and kill everything in it. Repeated calls have no further effect."""
        stack, self._open, self._conversation = self._open, None, None
        if stack is not None:
            await stack.aclose()

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str],
        timeout_s: float,
    ) -> SandboxExecResult:
        """Run a command to its end or to its time limit."""
        order = {
            "do": "run",
            "argv": ["bash", "-c", command] if isinstance(command, str) else list(command),
            "cwd": self._inside(cwd or "."),
            "env": {**self._spec.env, **env},
            "timeout_s": timeout_s,
            "output_bytes": MOST_OUTPUT_BYTES,
        }
        try:
            answer, data = await self._ask(order, within_s=timeout_s + GRACE_S)
        except SandboxEnded as failure:
            if failure.is_commands_fault:
                return SandboxExecResult("", str(failure), KILLED)
            return SandboxExecResult(None, str(failure), RUNTIME_FAILED, SANDBOX_FAILED)
        except SandboxError as error:
            return SandboxExecResult(None, str(error), RUNTIME_FAILED, SANDBOX_FAILED)
        if "error" in answer:
            return _not_started(command, answer)
        return _result(answer, data, timeout_s)

    async def upload(self, source: Path, target: str) -> None:
        """Write a file of this machine to `target`."""
        data = await asyncio.to_thread(source.read_bytes)
        for start in range(0, len(data) or 1, CHUNK_BYTES):
            order = {"do": "write", "path": self._inside(target), "more": start > 0}
            await self._file(order, data[start : start + CHUNK_BYTES])

    async def download(self, source: str, target: Path) -> None:
        """Write the sandbox's file `source` to `target`."""
        chunks: list[bytes] = []
        while not chunks or len(chunks[-1]) == CHUNK_BYTES:
            offset = sum(map(len, chunks))
            order = {
                "do": "read",
                "path": self._inside(source),
                "offset": offset,
                "most": CHUNK_BYTES,
            }
            chunks.append(await self._file(order))
        await asyncio.to_thread(target.parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread(target.write_bytes, b"".join(chunks))

    def _inside(self, path: str) -> str:
        return inside(path, self._spec)

    async def _file(self, order: JsonObject, content: bytes = b"") -> bytes:
        answer, data = await self._ask(order, content, within_s=COPY_S)
        if "error" in answer:
            raise SandboxError(answer["error"])
        return data

    async def _ask(
        self, order: JsonObject, content: bytes = b"", *, within_s: float
    ) -> tuple[JsonDict, bytes]:
        async with self._turn:
            conversation = self._conversation
            if conversation is None:
                raise SandboxError(self._failure or "the sandbox is closed")
            try:
                answer = await conversation.ask(
                    orjson.dumps(order) + b"\n" + content, within_s=within_s
                )
            except ConversationEnded:
                failure = SandboxEnded(await conversation.end())
                self._failure = str(failure)
                await self.close()
                raise failure from None
            except asyncio.CancelledError:
                # It may still be at work, and would answer the wrong one next.
                self._failure = "the sandbox is gone: a request to it was cancelled"
                await self.close()
                raise
        head, _, data = answer.partition(b"\n")
        return orjson.loads(head), data


def _not_started(command: str | Sequence[str], answer: JsonObject) -> SandboxExecResult:
    """Return the result of a command that could not be started."""
    code = None if isinstance(command, str) else _EXIT_CODES.get(answer["errno"])
    if code is None:  # the sandbox's own shell, or its folder
        return SandboxExecResult(None, answer["error"], RUNTIME_FAILED, SANDBOX_FAILED)
    return SandboxExecResult("", answer["error"], code)


def _result(answer: JsonObject, data: bytes, timeout_s: float) -> SandboxExecResult:
    streams = data[: answer["stdout_bytes"]], data[answer["stdout_bytes"] :]
    stdout, stderr = (text.decode("utf-8", "replace") for text in streams)
    for name, written_bytes in answer["cut"].items():
        stderr += f"\n{name} was cut: {MOST_OUTPUT_BYTES} of {written_bytes} bytes are kept\n"
    if not answer["timed_out"]:
        return SandboxExecResult(stdout, stderr, answer["exit_code"])
    message = f"the command was stopped at its time limit of {timeout_s:g} s"
    return SandboxExecResult(
        stdout, f"{stderr.rstrip()}\n{message}".lstrip(), RUNTIME_FAILED, TIMED_OUT
    )
