"""Sandboxes with the interface that existing environments use: create, exec, upload, download,
status, close.

`palestra.sandbox` runs them. Each sandbox is one conversation with the program `sandbox_shell`,
which runs the author's commands. Its files last until the sandbox is closed. There are no images:
commands see this machine's programs, read-only.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

import orjson
from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palestra.compat.nemo_gym.global_config import get_global_config_dict
from palestra.config import ConfigTree
from palestra.errors import CallError, ConfigError
from palestra.sandbox import (
    Conversation,
    ConversationEnded,
    Limits,
    SandboxResult,
    SandboxSettings,
    Stop,
    conversing,
)
from palestra.sandbox import Sandbox as Door
from palestra.schema import JsonDict, JsonObject

DEFAULT_PROVIDER: Final = "auto"


class SandboxError(RuntimeError):
    """A sandbox could not be started or used."""


class SandboxStatus(StrEnum):
    """The state of a sandbox: created, running or closed."""

    CREATED = "created"
    RUNNING = "running"
    CLOSED = "closed"


class SandboxResources(BaseModel):
    """The resource limits of a sandbox."""

    model_config = ConfigDict(extra="allow")

    cpu: float | None = None
    memory_mib: int | None = None
    disk_gib: int | None = None
    gpu: int | None = None


class SandboxSpec(BaseModel):
    """The specification of a sandbox: image, resources, environment variables, working directory."""

    model_config = ConfigDict(extra="allow")

    image: str | None = None
    resources: Any = None
    env: dict[str, str] = Field(default_factory=dict)
    metadata: JsonDict = Field(default_factory=dict)
    workdir: str | None = None


class SandboxExecResult(BaseModel):
    """The result of a command. The exit code has several names, for existing code."""

    model_config = ConfigDict(extra="allow")

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    timed_out: bool = False

    @property
    def return_code(self) -> int:
        """The command's exit code."""
        return self.exit_code

    @property
    def returncode(self) -> int:
        """The command's exit code."""
        return self.exit_code

    @property
    def output(self) -> str:
        """Standard output followed by standard error."""
        return self.stdout + self.stderr

    @property
    def ok(self) -> bool:
        """Whether the command's exit code is 0."""
        return self.exit_code == 0


PROVIDERS: Final[Mapping[str, str]] = {
    "auto": "auto",
    "local": "auto",
    "palestra": "auto",
    "bubblewrap": "bubblewrap",
    "process": "process",
    "http": "http",
}
"""The backend for each provider name. `auto` chooses one that isolates."""

DEFAULT_TIMEOUT_S: Final = 600.0
GRACE_S: Final = 30.0
"""Longest time to stop a command after its timeout and to receive its result, in seconds."""

CHUNK_BYTES: Final = 4 << 20
MOST_OUTPUT_BYTES: Final = 4 << 20
"""Largest size of a command's standard output, and also of its standard error; the rest is cut."""

LONGEST_S: Final = 86_400.0
DEFAULT_MEMORY_MIB: Final = 2048
PROCESSES: Final = 256
SYSTEM: Final = (
    "/bin",
    "/usr/bin",
    "/usr/local/bin",
    "/usr/libexec",
    "/usr/share",
    "/etc/alternatives",
)
"""The folders of the machine's programs, which commands may read besides a sandbox's usual files.
"""


class AsyncSandbox:
    """One sandbox. Arguments, in any order: the settings or name of a provider, and a
    `SandboxSpec`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        arguments = [*args, *kwargs.values()]
        spec = next((value for value in arguments if isinstance(value, SandboxSpec)), None)
        self.spec = spec or SandboxSpec()
        named_providers = [value for value in arguments if isinstance(value, str | Mapping)]
        self.provider_config = resolve_provider_config(
            named_providers[0] if named_providers else None
        )
        self._open: AsyncExitStack | None = None
        self._conversation: Conversation | None = None
        self._turn = asyncio.Lock()

    @classmethod
    async def create(cls, *args: Any, **kwargs: Any) -> Self:
        """Create a sandbox and start it."""
        sandbox = cls(*args, **kwargs)
        await sandbox.start()
        return sandbox

    async def start(self, spec: SandboxSpec | None = None, **_how: Any) -> Self:
        """Start the sandbox. Raises SandboxError: the provider is unknown or does not work on this
        machine.
        """
        self.spec = spec or self.spec
        door = Door(_settings(self.provider_config))
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(door)
                program = conversing(Path(__file__).with_name("sandbox_shell.py").read_bytes())
                conversation = door.converse(program, limits=_limits(self.spec), rests=True)
                self._conversation = await stack.enter_async_context(conversation)
            except (ConfigError, CallError) as error:
                raise SandboxError(f"{error.message} ({error.hint})") from error
            self._open = stack.pop_all()
        return self

    async def exec(
        self,
        command: str | list[str],
        *_options: Any,
        timeout_s: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        **how: Any,
    ) -> SandboxExecResult:
        """Run a shell command, or a program with its arguments.

        When the command ends or times out, all processes that it started are killed. Commands run
        one after another. A command that exceeds the sandbox's limits ends the sandbox.
        """
        limit_s = timeout_s or how.get("timeout") or how.get("timeout_sec") or DEFAULT_TIMEOUT_S
        order = {
            "do": "run",
            "argv": ["bash", "-c", command] if isinstance(command, str) else list(command),
            "cwd": self._path_inside(cwd or "."),
            "env": {**self.spec.env, **(env or {})},
            "timeout_s": limit_s,
            "output_bytes": MOST_OUTPUT_BYTES,
        }
        try:
            answer, data = await self._ask(order, within_s=limit_s + GRACE_S)
        except _Ended as ended:
            return SandboxExecResult(exit_code=ended.result.exit_code or 1, stderr=str(ended))
        if "error" in answer:
            return SandboxExecResult(exit_code=127, stderr=answer["error"])
        out, err = data[: answer["stdout_bytes"]], data[answer["stdout_bytes"] :]
        return SandboxExecResult(
            stdout=out.decode("utf-8", "replace"),
            stderr=err.decode("utf-8", "replace"),
            exit_code=answer["exit_code"],
            timed_out=answer["timed_out"],
        )

    async def upload(self, source: Any, target: str, **_how: Any) -> None:
        """Write a file, given as a path or as bytes, to `target` in the sandbox."""
        content = source if isinstance(source, bytes) else None
        data = await asyncio.to_thread(Path(source).read_bytes) if content is None else content
        for start in range(0, len(data) or 1, CHUNK_BYTES):
            order = {"do": "write", "path": self._path_inside(target), "more": start > 0}
            await self._file(order, data[start : start + CHUNK_BYTES])

    async def download(self, source: str, target: Any = None, **_how: Any) -> bytes:
        """Return the bytes of the sandbox's file `source`, and write them to `target` if given."""
        chunks: list[bytes] = []
        while not chunks or len(chunks[-1]) == CHUNK_BYTES:
            offset = sum(map(len, chunks))
            order = {
                "do": "read",
                "path": self._path_inside(source),
                "offset": offset,
                "most": CHUNK_BYTES,
            }
            chunks.append(await self._file(order))
        data = b"".join(chunks)
        if target is not None:
            await asyncio.to_thread(Path(target).write_bytes, data)
        return data

    upload_file = upload
    download_file = download

    async def status(self) -> SandboxStatus:
        """Return whether the sandbox is running or closed."""
        return SandboxStatus.CLOSED if self._conversation is None else SandboxStatus.RUNNING

    async def close(self) -> None:
        """Remove the sandbox and kill everything in it. Repeated calls have no further effect."""
        stack, self._open, self._conversation = self._open, None, None
        if stack is not None:
            await stack.aclose()

    stop = close

    async def __aenter__(self) -> Self:
        if self._conversation is None:
            await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _path_inside(self, path: str) -> str:
        """Return `path` with a relative path put below the sandbox's working directory."""
        return path if path.startswith("/") else f"{self.spec.workdir or '.'}/{path}"

    async def _file(self, order: JsonObject, content: bytes = b"") -> bytes:
        answer, data = await self._ask(order, content, within_s=DEFAULT_TIMEOUT_S)
        if "error" in answer:
            raise SandboxError(answer["error"])
        return data

    async def _ask(
        self, order: JsonObject, content: bytes = b"", *, within_s: float
    ) -> tuple[JsonDict, bytes]:
        async with self._turn:
            conversation = self._conversation
            if conversation is None:
                raise SandboxError("the sandbox is not started")
            try:
                answer = await conversation.ask(
                    orjson.dumps(order) + b"\n" + content, within_s=within_s
                )
            except ConversationEnded:
                result = await conversation.end()
                await self.close()
                raise _Ended(result) from None
            except asyncio.CancelledError:
                # It may still be at work, and would answer the wrong one next.
                await self.close()
                raise
        head, _, data = answer.partition(b"\n")
        return orjson.loads(head), data


class _Ended(SandboxError):
    """The sandbox ended during a request to it."""

    def __init__(self, result: SandboxResult) -> None:
        why = {
            Stop.MEMORY: "it used more memory than it may",
            Stop.CPU: "it used all its CPU time",
            Stop.FILES: "it made more files than it may",
            Stop.PROCESSES: "it started more processes than it may",
        }
        how_it_ended = f"it ended with exit code {result.exit_code}"
        if result.stopped_by is not None:
            how_it_ended = why.get(result.stopped_by, f"it was stopped ({result.stopped_by})")
        super().__init__(f"the sandbox is gone: {how_it_ended}")
        self.result = result


def _settings(provider: JsonObject) -> SandboxSettings:
    name = _provider_name(provider)
    if name not in PROVIDERS:
        provider_names = ", ".join(PROVIDERS)
        raise SandboxError(f"unknown sandbox provider {name!r}; known: {provider_names}")
    fields = SandboxSettings.model_fields.keys() - {"backend"}
    values = {key: provider[key] for key in fields if provider.get(key) is not None}
    values.setdefault("read_only", [path for path in SYSTEM if Path(path).exists()])
    try:
        return SandboxSettings.model_validate({"backend": PROVIDERS[name], **values})
    except ValidationError as error:
        raise SandboxError(f"settings of sandbox provider {name!r}: {error}") from error


def _limits(spec: SandboxSpec) -> Limits:
    resources = spec.resources
    resource_fields = (
        resources.model_dump() if isinstance(resources, BaseModel) else dict(resources or {})
    )
    memory_mib = int(resource_fields.get("memory_mib") or DEFAULT_MEMORY_MIB)
    return Limits(
        cpu_s=LONGEST_S,
        wall_s=LONGEST_S,
        memory_mib=max(64, memory_mib),
        processes=PROCESSES,
        output_kib=2 * (CHUNK_BYTES + MOST_OUTPUT_BYTES) // 1024,
        file_mib=max(64, memory_mib),
        tmp_mib=max(64, memory_mib),
    )


class Sandbox:
    """An `AsyncSandbox` with blocking methods, for threads without an event loop."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._inner = AsyncSandbox(*args, **kwargs)
        self._runner = asyncio.Runner()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._runner.run(method(*args, **kwargs))

        return call

    def __enter__(self) -> Self:
        self._runner.run(self._inner.start())
        return self

    def __exit__(self, *_why: object) -> None:
        self._runner.run(self._inner.close())
        self._runner.close()


def resolve_provider_config(provider: Any = None, global_config_dict: Any = None) -> JsonDict:
    """Return the settings of a provider. `provider`: the settings, or the name of a config section.

    Default: the configuration's `sandbox` section, or empty settings.
    """
    global_config = get_global_config_dict() if global_config_dict is None else global_config_dict
    if isinstance(provider, str):
        provider_config = global_config.get(provider)
        return _plain(provider_config) if provider_config is not None else {"provider": provider}
    if provider is None:
        return _plain(global_config.get("sandbox") or {})
    return _plain(provider)


def resolve_provider_metadata(provider: Any = None, global_config_dict: Any = None) -> JsonDict:
    """Return the labels that every sandbox of a provider gets."""
    metadata = resolve_provider_config(provider, global_config_dict).get("metadata")
    return dict(metadata) if isinstance(metadata, Mapping) else {}


def _provider_name(settings: ConfigTree) -> str:
    """Return the name of the provider that `settings` belong to."""
    for key in ("provider", "type", "name"):
        if isinstance(settings.get(key), str):
            return str(settings[key])
    if len(settings) == 1:
        return str(next(iter(settings)))
    return DEFAULT_PROVIDER


def _plain(value: Any) -> JsonDict:
    if isinstance(value, DictConfig):
        value = OmegaConf.to_container(value, resolve=True)
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return {str(key): inner for key, inner in dict(value).items()}
