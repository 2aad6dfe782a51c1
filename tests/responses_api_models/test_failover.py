"""Several endpoints behind one model server, over real sockets that say captured words."""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from endpoint_fakes import (
    VLLM,
    FakeEndpoint,
    fake_endpoints,
    reply,
    vllm_model,
    vllm_says,
)

from palestra.errors import CallError, CredentialsRejected, DeadlineExceeded, ModelError
from palestra.responses_api_models.vllm_model.app import VLLMModel
from palestra.schema import Response, ResponseCreateParams
from palestra.server import Session
from palestra.transport import (
    CallContext,
    ConnectionFailed,
    HttpClient,
    HttpReply,
    calling,
)

Story = Callable[[VLLMModel, list[FakeEndpoint]], Awaitable[Any]]


def play(
    story: Story,
    *,
    count: int = 2,
    say: Callable[[dict[str, Any]], HttpReply] = vllm_says,
    **settings: Any,
) -> Any:
    """Run `story` with a model server in front of some fakes."""

    async def run() -> Any:
        http = HttpClient()
        try:
            async with fake_endpoints(count, say) as fakes, asyncio.timeout(20):
                urls = [fake.url for fake in fakes]
                return await story(vllm_model(http, base_url=urls, **settings), fakes)
        finally:
            await http.aclose()

    return asyncio.run(run())


async def ask(server: VLLMModel, session: str = "s") -> Response:
    return await server.responses(ResponseCreateParams(input=session), Session(session))


async def ask_at_once(server: VLLMModel, count: int) -> list[Response]:
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(ask(server, f"s{number}")) for number in range(count)]
    return [task.result() for task in asked]


def sessions_at(fake: FakeEndpoint) -> list[str]:
    """Of chats alone: an endpoint is also asked what it can do."""
    chats = [each["body"] for each in fake.asked if "add_generation_prompt" not in each["body"]]
    return [body["messages"][0]["content"] for body in chats if body]


async def until_waiting(fake: FakeEndpoint, count: int) -> None:
    while fake.waiting < count:
        fake.someone_waits.clear()
        await fake.someone_waits.wait()


def test_every_turn_of_a_session_goes_to_the_same_endpoint_and_sessions_spread() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        for _ in range(3):
            await ask_at_once(server, 20)
        where = defaultdict(set)
        for fake in fakes:
            for session in sessions_at(fake):
                where[session].add(fake.url)
        assert {len(urls) for urls in where.values()} == {1}
        assert [len(fake.asked) for fake in fakes] == [30, 30]

    play(story)


def test_an_endpoint_that_dies_mid_run_costs_no_request(caplog: pytest.LogCaptureFixture) -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> list[Response]:
        fakes[0].held.clear()
        asking = asyncio.create_task(ask_at_once(server, 60))
        await until_waiting(fakes[0], 30)
        await fakes[0].die()
        found = await asking
        assert server.server_client.retries.retries == 30
        assert len(sessions_at(fakes[1])) == 60
        return found

    with caplog.at_level(logging.WARNING):
        found = play(story)

    assert len(found) == 60
    (said,) = [line for line in caplog.messages if "is not used" in line]
    assert "its 30 sessions move to http://127.0.0.1:" in said


def test_an_endpoint_that_came_back_gets_sessions_again() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        dead, alive = fakes
        await dead.die()
        await ask_at_once(server, 4)
        assert len(alive.asked) == 4
        await dead.rise()
        left = server._model_endpoints.all[0]
        left.left_until = 0.0  # as if its pause were over
        await ask(server, "trial")
        assert sessions_at(dead) == ["trial"]
        assert left.failures == 0

    play(story)


def test_where_one_endpoint_is_busy_the_other_answers_at_once() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        fakes[0].say = lambda _: reply(429, b"slow down", **{"retry-after": "30"})
        started = time.monotonic()
        for number in range(6):
            await ask(server, f"s{number}")
        assert time.monotonic() - started < 5
        assert [len(fake.asked) for fake in fakes] == [1, 6]

    play(story)


def test_when_all_are_busy_the_shortest_wait_that_was_asked_for_is_kept() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        busy = [reply(429, b"", **{"retry-after": "0.3"}), reply(*VLLM["chat"])]
        for fake in fakes:
            fake.say = lambda _, left=list(busy): left.pop(0)
        started = time.monotonic()
        await ask(server)
        assert time.monotonic() - started >= 0.3

    play(story)


def test_the_shortest_wait_counts_whoever_asked_for_it() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        for fake, wait in zip(fakes, ["0.3", "60"], strict=True):
            busy = [reply(429, b"", **{"retry-after": wait}), reply(*VLLM["chat"])]
            fake.say = lambda _, left=busy: left.pop(0)
        await ask(server)  # `play` waits 20 s at most
        assert [len(fake.asked) for fake in fakes] == [2, 1]

    play(story)


def test_a_session_goes_back_to_its_endpoint_after_an_error() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        await ask(server)
        said = [reply(500, b"once"), reply(*VLLM["chat"])]
        fakes[0].say = lambda _: said.pop(0)
        await ask(server)
        await ask(server)
        assert [len(fake.asked) for fake in fakes] == [3, 1]

    play(story)


def test_a_server_error_is_tried_again_elsewhere() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        fakes[0].say = lambda _: reply(500, b"EngineCore encountered an issue")
        await ask(server)
        assert [len(fake.asked) for fake in fakes] == [1, 1]

    play(story)


def test_a_request_that_kills_one_endpoint_after_the_other_is_stopped() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> int:
        def die(_: dict[str, Any]) -> HttpReply:
            raise ConnectionResetError

        for fake in fakes:
            fake.say = die
        with pytest.raises(ModelError, match="3 connections broke over this request") as caught:
            await ask(server)
        assert not caught.value.retriable
        return sum(len(fake.asked) for fake in fakes)

    # A connection that breaks on its first use is not tried twice on the same endpoint.
    assert play(story, count=5) == 3


def test_endpoints_that_are_all_gone_are_named_when_the_time_is_up() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> CallError:
        for fake in fakes:
            await fake.die()
        with (
            calling(CallContext(deadline=time.monotonic() + 0.3)),
            pytest.raises(ConnectionFailed) as caught,
        ):
            await ask(server)
        return caught.value

    failure = play(story)
    assert "127.0.0.1" in failure.message
    assert failure.evidence.hops[0].url.endswith("/v1/chat/completions")


def test_an_endpoint_that_rejects_the_key_is_named() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        fakes[0].say = lambda _: reply(401, {"error": "Unauthorized"})
        with pytest.raises(CredentialsRejected) as caught:
            await ask(server)
        assert fakes[0].url in caught.value.message

    play(story)


def test_a_slow_endpoint_ends_with_the_rollouts_time_and_keeps_its_sessions() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        fakes[0].held.clear()
        with (
            calling(CallContext(deadline=time.monotonic() + 0.2)),
            pytest.raises(DeadlineExceeded) as caught,
        ):
            await ask(server)
        assert fakes[0].url in caught.value.evidence.hops[0].url
        assert server.base_url_for("s") == fakes[0].url

    play(story)


def test_a_rollout_that_is_cancelled_closes_its_request() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        fakes[0].held.clear()
        asking = asyncio.create_task(ask(server))
        await until_waiting(fakes[0], 1)
        asking.cancel()
        await asyncio.wait({asking})
        fakes[0].held.set()
        await fakes[0].closed_by_peer.wait()

    play(story)


@pytest.mark.slow  # it is silent for ten seconds
def test_a_host_that_died_without_a_word_loses_its_requests_to_the_others() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        fakes[0].mute = True
        asking = asyncio.create_task(ask(server))
        await until_waiting(fakes[0], 1)
        endpoint = server._model_endpoints.all[0]
        endpoint.strikes = 2
        with calling(CallContext(deadline=time.monotonic() + 0.1)):
            await server._upstream.ask_whether_alive(server._model_endpoints, endpoint)
        await asking
        assert sessions_at(fakes[1]) == ["s"]

    play(story)


@pytest.mark.parametrize("count", [1, 2])
def test_a_request_without_a_deadline_is_not_waited_for_without_an_end(count: int) -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        for fake in fakes:
            fake.mute = True
        with pytest.raises(DeadlineExceeded, match=r"no answer within 0\.2 s") as caught:
            await ask(server)
        assert "request_timeout_s" in caught.value.hint

    play(story, count=count, request_timeout_s=0.2)


def test_a_rollouts_own_deadline_is_not_said_to_be_a_setting() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        fakes[0].mute = True
        with (
            calling(CallContext(deadline=time.monotonic() + 0.2)),
            pytest.raises(DeadlineExceeded) as caught,
        ):
            await ask(server)
        assert not caught.value.hint

    play(story, count=1)


def test_an_endpoint_that_is_slow_but_lives_keeps_its_requests() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        endpoint = server._model_endpoints.all[0]
        endpoint.strikes = 2
        await server._upstream.ask_whether_alive(server._model_endpoints, endpoint)
        assert (endpoint.strikes, endpoint.failures) == (0, 0)

    play(story)


def test_turns_of_one_endpoint_share_one_connection() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        for _ in range(5):
            for session in ("s", "t"):
                await ask(server, session)
        assert [fake.connections for fake in fakes] == [1, 1]

    play(story)


def test_the_check_names_the_endpoint_that_does_not_answer() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        await fakes[1].die()
        said = await server.check()
        assert f"{fakes[0].url} is reachable and serves smollm2; without " in said
        assert fakes[1].url in said
        found = await ask_at_once(server, 4)
        assert (len(found), Counter(sessions_at(fakes[0])).total()) == (4, 4)

    play(story)


def test_the_check_fails_where_no_endpoint_answers() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        for fake in fakes:
            await fake.die()
        with pytest.raises(ConnectionFailed):
            await server.check()

    play(story)


def test_several_endpoints_are_watched_from_start_to_stop() -> None:
    async def story(server: VLLMModel, fakes: list[FakeEndpoint]) -> None:
        await server.start()
        assert any(task.get_name() == "endpoints of policy_model" for task in asyncio.all_tasks())
        await server.stop()
        assert not any(
            task.get_name() == "endpoints of policy_model" for task in asyncio.all_tasks()
        )

    play(story)
