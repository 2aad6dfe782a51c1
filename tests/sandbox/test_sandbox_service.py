"""The sandbox over HTTP: the same results, and failures that are nobody's wrong program."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import orjson
import pytest
from escaping import isolating, nothing_left

from palestra.cli.serving_sandbox import serve_sandbox
from palestra.errors import ConfigError, InfraError
from palestra.sandbox import (
    Conversation,
    ConversationEnded,
    Limits,
    Program,
    PythonSession,
    Sandbox,
    SandboxResult,
    SandboxSettings,
    Stop,
    conversing,
)
from palestra.sandbox.http_client import HttpBackend
from palestra.sandbox.service import SandboxService
from palestra.serving.listener import serving
from palestra.serving.sockets import listen
from palestra.transport import call_asgi

T = TypeVar("T")
PLAIN = SandboxSettings(backend="process")
REVERSE = (
    b"from frames import Channel\nchannel = Channel()\n"
    b"while (m := channel.receive()) is not None:\n"
    b"    if m == b'die': raise SystemExit(5)\n"
    b"    channel.send(m[::-1])\n"
)


def over_http(
    work: Callable[[Sandbox], Awaitable[T]],
    *,
    served: Sandbox | None = None,
    token: str = "",
    used_token: str | None = None,
) -> T:
    """What `work` gives with a sandbox that is a service in this process."""

    async def main() -> T:
        own = served or Sandbox(PLAIN)
        service = SandboxService(own, token=token)
        sock = listen("127.0.0.1", 0)
        settings = SandboxSettings(
            host="127.0.0.1",
            port=sock.getsockname()[1],
            token=token if used_token is None else used_token,
        )
        async with own, serving(service.app(), sock), Sandbox(settings) as sandbox:
            result = await work(sandbox)
        await service.aclose()
        return result

    result = asyncio.run(main())
    assert nothing_left()
    return result


def test_a_program_is_run_by_the_service() -> None:
    program = Program.python("print(input(), open('x').read())", files={"x": b"\xc3\xa9"})

    result = over_http(lambda sandbox: sandbox.run(program, stdin="in"), token="t")

    assert (result.stdout, result.exit_code) == ("in é\n", 0)


def test_limits_travel_and_so_does_what_stopped_it() -> None:
    result = over_http(
        lambda sandbox: sandbox.run(
            Program.python("while True: print('x' * 1000)"), limits=Limits(output_kib=10)
        )
    )

    assert result.stopped_by is Stop.OUTPUT
    assert len(result.stdout) == 10 * 1024


def test_a_conversation_is_held_over_http() -> None:
    async def talk(sandbox: Sandbox) -> SandboxResult:
        async with sandbox.converse(conversing(REVERSE)) as conversation:
            assert await conversation.ask(b"abc", within_s=20) == b"cba"
            assert await conversation.ask(b"", within_s=20) == b""
            with pytest.raises(ConversationEnded):
                await conversation.ask(b"die", within_s=20)
            return await conversation.end()

    assert over_http(talk).exit_code == 5


def test_a_python_session_is_held_over_http() -> None:
    async def cells(sandbox: Sandbox) -> str | None:
        session = PythonSession(sandbox)
        await session.execute("x = 41")
        result = await session.execute("x + 1")
        await session.aclose()
        return result.result

    assert over_http(cells) == "42"


def test_without_its_token_the_service_does_nothing() -> None:
    with pytest.raises(ConfigError, match="asks for its token"):
        over_http(lambda sandbox: sandbox.run(Program(("x",))), token="right", used_token="wrong")


def test_a_service_whose_sandbox_fails_is_a_failure_of_the_sandbox() -> None:
    async def fails(sandbox: Sandbox) -> None:
        with pytest.raises(InfraError, match=r"answers 503.*the disk is full"):
            await sandbox.run(Program(("x",)))

    over_http(fails, served=Sandbox(backend=Broken()))


def test_a_service_that_is_gone_is_a_failure_of_the_sandbox() -> None:
    async def main() -> None:
        backend = HttpBackend("127.0.0.1", 1)
        with pytest.raises(InfraError):
            await backend.run(Program(("x",)), b"", Limits())
        await backend.aclose()

    asyncio.run(main())


def test_who_goes_away_takes_the_program_along() -> None:
    async def leaves(sandbox: Sandbox) -> None:
        running = asyncio.ensure_future(sandbox.run(Program(("x",))))
        async with asyncio.timeout(20):
            await broken.entered.wait()
            running.cancel()
            await asyncio.wait({running})
            await broken.left.wait()

    broken = Broken(waits=True)
    over_http(leaves, served=Sandbox(backend=broken))


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{}",
        b'{"argv": ["x"], "limits": {"cpu_s": -1}}',
        b'{"argv": ["x"], "limits": {}, "files": {"/etc/x": ""}}',
        b'{"argv": ["x"], "limits": {}, "stdin": "no base64!"}',
    ],
)
def test_a_request_that_makes_no_sense_is_refused(body: bytes) -> None:
    service = SandboxService(Sandbox(backend=Broken()))

    reply = asyncio.run(call_asgi(service.app(), "POST", "/run", body=body))

    assert reply.status == 422
    assert orjson.loads(reply.body)["error"]


def test_a_conversation_that_nobody_continues_is_ended() -> None:
    async def main() -> None:
        broken = Broken()
        service = SandboxService(Sandbox(backend=broken), idle_s=0.01)
        reply = await call_asgi(
            service.app(), "POST", "/conversations", body=b'{"argv": ["x"], "limits": {}}'
        )
        assert reply.status == 200
        async with asyncio.timeout(20):
            await broken.left.wait()
        path = f"/conversations/{orjson.loads(reply.body)['id']}"
        assert (await call_asgi(service.app(), "POST", path, body=b"x")).status == 410
        await service.aclose()

    asyncio.run(main())


def test_something_else_on_that_port_is_no_service() -> None:
    async def app(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def main() -> None:
        sock = listen("127.0.0.1", 0)
        settings = SandboxSettings(host="127.0.0.1", port=sock.getsockname()[1])
        async with serving(app, sock):
            with pytest.raises(ConfigError, match="is no palestra sandbox service"):
                await Sandbox(settings).start()

    asyncio.run(main())


def test_serving_others_takes_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PALESTRA_SANDBOX_TOKEN", raising=False)

    with pytest.raises(ConfigError, match="no token to protect it"):
        serve_sandbox("0.0.0.0", 0, token="", at_once=0, backend="process")


@pytest.mark.slow
def test_the_command_serves_until_it_is_stopped() -> None:
    isolating()
    command = [sys.executable, "-m", "palestra.cli.main", "sandbox", "serve", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-c", "from palestra.cli.main import main; main()", *command[3:]],
        stderr=subprocess.PIPE,
        text=True,
    ) as service:
        assert service.stderr is not None
        line = service.stderr.readline()
        assert "sandbox (bubblewrap) ready at 127.0.0.1:" in line
        environ = {
            "NEMO_SKILLS_SANDBOX_HOST": "127.0.0.1",
            "NEMO_SKILLS_SANDBOX_PORT": line.split(":")[1].split(";")[0],
        }

        async def use() -> str:
            async with Sandbox(environ=environ) as sandbox:
                return (await sandbox.run(Program.python("print(6 * 7)"))).stdout

        assert asyncio.run(use()) == "42\n"
        service.send_signal(2)
        assert service.wait(20) == 0


class Broken:
    """A back end that fails, or never answers."""

    name = "broken"
    isolates = True

    def __init__(self, *, waits: bool = False) -> None:
        self._waits = waits
        self.entered = asyncio.Event()
        self.left = asyncio.Event()

    async def run(self, program: Program, stdin: bytes, limits: Limits) -> SandboxResult:
        self.entered.set()
        try:
            if self._waits:
                await asyncio.Event().wait()
            raise InfraError("the disk is full")
        finally:
            self.left.set()

    @asynccontextmanager
    async def converse(self, program: Program, limits: Limits) -> AsyncIterator[Conversation]:
        try:
            yield self
        finally:
            self.left.set()

    async def ask(self, message: bytes, *, within_s: float) -> bytes:
        raise ConversationEnded

    async def end(self) -> SandboxResult:
        return SandboxResult(stdout="", stderr="", exit_code=0)

    async def aclose(self) -> None:
        pass
