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

from palestra.cli.serving import serve_sandbox
from palestra.errors import ConfigError, InfraError
from palestra.fleet.sockets import listen, serving
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
from palestra.settings import SandboxArgs
from palestra.transport import call_asgi

T = TypeVar("T")
HERE = {"host": "127.0.0.1:6000"}
TALK = b'{"argv": ["x"], "limits": {}}'
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
    lease_s: float = 60.0,
    seen: Callable[[str], None] = len,  # type: ignore[assignment]  # nobody looks
) -> T:
    """What `work` gives with a sandbox that is a service in this process.

    `seen` is told the method of each request.
    """

    async def main() -> T:
        own = served or Sandbox(PLAIN)
        service = SandboxService(own, token=token, lease_s=lease_s, idle_s=lease_s)
        sock = listen("127.0.0.1", 0)
        settings = SandboxSettings(
            backend="http",
            host="127.0.0.1",
            port=sock.getsockname()[1],
            token=token if used_token is None else used_token,
        )

        async def app(scope, receive, send) -> None:
            seen(scope["method"])
            await service.app()(scope, receive, send)

        async with own, service, serving(app, sock), Sandbox(settings) as sandbox:
            return await work(sandbox)

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
        b'{"argv": [], "limits": {}}',
        b'{"argv": ["x", "a\\u0000"], "limits": {}}',
        b'{"argv": ["x"], "limits": {}, "env": {"a=b": ""}}',
        b'{"argv": ["x"], "limits": {}, "files": {"a": "", "a/b": ""}}',
    ],
)
def test_a_request_that_makes_no_sense_is_refused(body: bytes) -> None:
    service = SandboxService(Sandbox(backend=Broken()))

    reply = asyncio.run(call_asgi(service.app(), "POST", "/run", body=body, headers=HERE))

    assert reply.status == 422
    assert orjson.loads(reply.body)["error"]


def test_a_program_that_cannot_be_executed_is_the_requests_fault() -> None:
    async def main() -> None:
        async with Sandbox(PLAIN) as sandbox, SandboxService(sandbox) as service:
            app, kind = service.app(), {"content-type": "application/octet-stream", **HERE}
            path = await begun(service, b'{"argv": ["no-such-program"], "limits": {}}')
            replies = [
                await call_asgi(app, "POST", path, body=b"x", headers=kind),
                await call_asgi(app, "POST", path, body=b"x", headers=kind),
                await call_asgi(app, "DELETE", path, headers=HERE),
            ]
            assert [reply.status for reply in replies] == [422, 422, 422]
            assert all(b"no-such-program" in reply.body for reply in replies)

    asyncio.run(main())


@pytest.mark.parametrize("rests", [b"true", b"false"])
def test_a_conversation_that_nobody_continues_is_ended(rests: bytes) -> None:
    async def main() -> None:
        broken = Broken()
        sandbox = Sandbox(SandboxSettings(at_once=1), backend=broken)
        async with SandboxService(sandbox, lease_s=0.01, idle_s=0.01) as service:
            body = TALK[:-1] + b', "rests": ' + rests + b"}"
            path = await begun(service, body)
            async with asyncio.timeout(20):
                await broken.left.wait()
            kind = {"content-type": "application/octet-stream", **HERE}
            asked = call_asgi(service.app(), "POST", path, body=b"x", headers=kind)
            assert (await asked).status == 410
            await begun(service, body)

    asyncio.run(main())


async def begun(service: SandboxService, body: bytes = TALK) -> str:
    """The path of a conversation that a client began, of whom nothing else is heard."""
    async with asyncio.timeout(20):
        reply = await call_asgi(service.app(), "POST", "/conversations", body=body, headers=HERE)
    assert reply.status == 200
    return f"/conversations/{orjson.loads(reply.body)['id']}"


def test_a_conversation_has_its_place_from_its_beginning_to_its_end() -> None:
    async def two(sandbox: Sandbox) -> None:
        async def hold() -> None:
            async with sandbox.converse(Program(("x",))) as conversation:
                assert await conversation.ask(b"m", within_s=20) == b"m"
                await all_came.wait()

        async with asyncio.timeout(20):
            await asyncio.gather(hold(), hold())

    def came(_method: str) -> None:
        requests.append(_method)
        if len(requests) == 4:  # what the service is, two that would begin, and one message
            all_came.set()

    requests: list[str] = []
    echo, all_came = Echo(), asyncio.Event()
    over_http(two, served=Sandbox(SandboxSettings(at_once=1), backend=echo), seen=came)

    assert (echo.begun, echo.most) == (2, 1)


def test_a_program_that_rests_has_a_place_only_while_it_answers() -> None:
    async def two(sandbox: Sandbox) -> None:
        async with (
            asyncio.timeout(20),
            sandbox.converse(Program(("x",)), rests=True) as one,
            sandbox.converse(Program(("x",)), rests=True) as other,
        ):
            assert await one.ask(b"1", within_s=20) == b"1"
            assert await other.ask(b"2", within_s=20) == b"2"

    over_http(two, served=Sandbox(SandboxSettings(at_once=1), backend=Echo()))


@pytest.mark.slow
def test_waiting_for_a_place_does_not_count_to_a_conversations_wall_time() -> None:
    limits = Limits(wall_s=0.5)

    async def one_after_another(sandbox: Sandbox) -> list[bytes]:
        async def hold(message: bytes) -> bytes:
            async with sandbox.converse(conversing(REVERSE), limits=limits) as conversation:
                answer = await conversation.ask(message, within_s=20)
                await asyncio.sleep(0.3)
                return answer

        return list(await asyncio.gather(*(hold(b"%d1" % number) for number in range(4))))

    served = Sandbox(SandboxSettings(backend="process", at_once=1))

    assert over_http(one_after_another, served=served) == [b"10", b"11", b"12", b"13"]


@pytest.mark.slow
@pytest.mark.parametrize("rests", [True, False])
def test_a_client_that_is_there_keeps_its_conversation_however_long_it_says_nothing(
    rests: bool,
) -> None:
    async def silent(sandbox: Sandbox) -> bytes:
        async with (
            asyncio.timeout(20),
            sandbox.converse(Program(("x",)), rests=rests) as conversation,
        ):
            for _ in range(6):  # twice the lease
                await renewals.acquire()
            return await conversation.ask(b"m", within_s=20)

    renewals = asyncio.Semaphore(0)
    answer = over_http(
        silent,
        served=Sandbox(backend=Echo()),
        lease_s=0.6,
        seen=lambda method: renewals.release() if method == "PUT" else None,
    )

    assert answer == b"m"


def test_who_goes_away_while_waiting_for_a_place_waits_no_longer() -> None:
    async def leaves(sandbox: Sandbox) -> None:
        async def hold() -> None:
            async with sandbox.converse(Program(("x",))):
                pass

        async with asyncio.timeout(20):
            async with sandbox.converse(Program(("x",))):
                await posted.acquire()
                waiting = asyncio.ensure_future(hold())
                await posted.acquire()
                waiting.cancel()
                await asyncio.wait({waiting})
            await hold()

    echo, posted = Echo(), asyncio.Semaphore(0)
    served = Sandbox(SandboxSettings(at_once=1), backend=echo)
    over_http(leaves, served=served, seen=lambda how: posted.release() if how == "POST" else None)

    assert (echo.begun, echo.running) == (2, 0)


def test_who_goes_away_while_a_program_begins_takes_it_along() -> None:
    async def leaves(sandbox: Sandbox) -> None:
        async def hold() -> None:
            async with sandbox.converse(Program(("x",))):
                pass

        beginning = asyncio.ensure_future(hold())
        async with asyncio.timeout(20):
            await broken.entered.wait()
            beginning.cancel()
            await asyncio.wait({beginning})
            await broken.left.wait()

    broken = Broken(waits=True)
    over_http(leaves, served=Sandbox(backend=broken))


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:6000", "127.0.0.1.evil.example", "10.0.0.7", "[::1"]
)
def test_without_a_token_only_this_machines_own_names_are_answered_to(host: str) -> None:
    assert status_of("GET", "/", {"host": host}) == 421


@pytest.mark.parametrize("host", ["localhost:6000", "127.0.0.1:6000", "[::1]:6000", "LOCALHOST"])
def test_this_machines_own_names_are_answered_to(host: str) -> None:
    assert status_of("GET", "/", {"host": host}) == 200


def test_with_a_token_any_name_of_the_machine_will_do() -> None:
    given = {"host": "node7.cluster", "authorization": "Bearer t"}

    assert status_of("GET", "/", given, token="t") == 200


@pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("path", ["/run", "/conversations", "/conversations/x"])
def test_a_body_that_a_page_elsewhere_could_send_is_refused(path: str, kind: str) -> None:
    assert status_of("POST", path, {**HERE, "content-type": kind}) == 415


def status_of(method: str, path: str, headers: dict[str, str], *, token: str = "") -> int:
    service = SandboxService(Sandbox(backend=Broken()), token=token)
    call = call_asgi(service.app(), method, path, body=TALK, headers=headers)
    return asyncio.run(call).status


def test_a_service_that_does_not_isolate_must_be_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        own = Sandbox(PLAIN)
        sock = listen("127.0.0.1", 0)
        where = {"host": "127.0.0.1", "port": sock.getsockname()[1]}
        service = SandboxService(own)
        async with own, service, serving(service.app(), sock):
            with pytest.raises(ConfigError, match="does not isolate"):
                await Sandbox(SandboxSettings.model_validate(where)).start()
            for asked in ({"backend": "http"}, {"allow_process": True}):
                caplog.clear()
                async with Sandbox(SandboxSettings.model_validate(where | asked)) as sandbox:
                    assert not (await sandbox.start()).isolates
                assert "does not isolate" in caplog.text

    asyncio.run(main())


def test_something_else_on_that_port_is_no_service() -> None:
    async def app(scope, receive, send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    async def main() -> None:
        sock = listen("127.0.0.1", 0)
        settings = SandboxSettings(host="127.0.0.1", port=sock.getsockname()[1])
        async with serving(app, sock):
            with pytest.raises(ConfigError, match="is not a palestra sandbox service"):
                await Sandbox(settings).start()

    asyncio.run(main())


def test_serving_others_takes_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PALESTRA_SANDBOX_TOKEN", raising=False)

    with pytest.raises(ConfigError, match="without a token to protect it"):
        serve_sandbox(SandboxArgs(host="0.0.0.0", port=0))


def test_serving_without_isolation_takes_a_token_on_loopback_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PALESTRA_SANDBOX_TOKEN", raising=False)

    with pytest.raises(ConfigError, match=r"without isolation.*without a token"):
        serve_sandbox(SandboxArgs(port=0, backend="process"))


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
    async def converse(
        self, program: Program, limits: Limits, *, rests: bool
    ) -> AsyncIterator[Conversation]:
        self.entered.set()
        try:
            if self._waits:
                await asyncio.Event().wait()
            yield self
        finally:
            self.left.set()

    async def ask(self, message: bytes, *, within_s: float) -> bytes:
        raise ConversationEnded

    async def end(self) -> SandboxResult:
        return SandboxResult(stdout="", stderr="", exit_code=0)

    async def aclose(self) -> None:
        pass


class Echo:
    """A back end whose programs say what they are told."""

    name = "echo"
    isolates = True

    def __init__(self) -> None:
        self.begun = 0
        self.running = 0
        self.most = 0

    @asynccontextmanager
    async def converse(
        self, program: Program, limits: Limits, *, rests: bool
    ) -> AsyncIterator[Conversation]:
        self.begun += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            yield self
        finally:
            self.running -= 1

    async def ask(self, message: bytes, *, within_s: float) -> bytes:
        return message

    async def end(self) -> SandboxResult:
        return SandboxResult(stdout="", stderr="", exit_code=0)

    async def aclose(self) -> None:
        pass
