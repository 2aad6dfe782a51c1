"""What is not known of an endpoint is asked for again, and is never taken for something it lacks."""

import asyncio
import time
from typing import Any

import pytest
from test_vllm_turns import converse, params, states
from token_fakes import CALL_AS_WRITTEN, Clock, FakeHosts, FakeVLLM, on_clock, token_model

from palestra.errors import CredentialsRejected, InfraError
from palestra.responses_api_models.vllm_model.app import VLLMModel
from palestra.responses_api_models.vllm_model.known import LONGEST_PAUSE_S, PATIENCE_S
from palestra.schema import Response
from palestra.server import Session
from palestra.transport import CallContext, calling

CHAT, RENDER = "/v1/chat/completions", "/v1/chat/completions/render"


def model_of(http: Any, clock: Clock | None = None, **settings: Any) -> VLLMModel:
    return on_clock(token_model(http, **settings), clock or Clock())


def second_turn(model: VLLMModel, first: Response, session: str = "s") -> Response:
    items: list[Any] = [{"role": "user", "content": "Weather?"}]
    items += [item.model_dump() for item in first.output]
    items.append({"role": "user", "content": "Go on."})
    return asyncio.run(model.responses(params(input=items), Session(session)))


@pytest.mark.parametrize("status", [0, 401, 403, 429, 500, 503])
def test_an_endpoint_that_cannot_say_whether_it_returns_ids_is_waited_for(status: int) -> None:
    http, clock = FakeVLLM(["Cold."], refusing={CHAT: status}), Clock()
    model = model_of(http, clock)

    with pytest.raises(InfraError, match="not known yet whether it returns token ids") as failed:
        asyncio.run(model.check())
    http.refusing.clear()
    clock.now += LONGEST_PAUSE_S

    assert failed.value.retriable
    assert "token ids: with each answer" in asyncio.run(model.check())


def test_a_rejected_key_is_told_as_that_by_the_first_turn() -> None:
    model = model_of(FakeVLLM(["Cold."], refusing={CHAT: 401}))

    with pytest.raises(CredentialsRejected):
        asyncio.run(model.responses(params(), Session("s")))


def test_a_render_endpoint_that_was_busy_at_first_is_used_later() -> None:
    http = FakeVLLM([CALL_AS_WRITTEN, "Cold."], refusing={RENDER: 503})
    model = model_of(http)
    assert "not known yet whether it takes token ids: POST" in asyncio.run(model.check())
    (first,) = converse(model, params(), 1)
    http.refusing.clear()

    assert states([second_turn(model, first)]) == [("continued", "")]


@pytest.mark.parametrize(("status", "waited_s"), [(503, PATIENCE_S / 2), (403, 0.0)])
def test_a_turn_that_depends_on_what_stays_unknown_fails_as_infrastructure(
    status: int, waited_s: float
) -> None:
    clock = Clock()
    http = FakeVLLM([CALL_AS_WRITTEN, "Cold."], refusing={RENDER: status})
    model = model_of(http, clock)
    (first,) = converse(model, params(), 1)

    with pytest.raises(InfraError, match=f"answered {status}") as failed:
        second_turn(model, first)

    assert failed.value.retriable
    assert waited_s <= clock.now <= PATIENCE_S


def test_nobody_waits_beyond_the_deadline_of_a_rollout() -> None:
    clock = Clock()
    http = FakeVLLM([CALL_AS_WRITTEN, "Cold."], refusing={RENDER: 503})
    model = model_of(http, clock)
    (first,) = converse(model, params(), 1)

    with (
        calling(CallContext(deadline=time.monotonic() + 0.5)),
        pytest.raises(InfraError, match="not known yet"),
    ):
        second_turn(model, first)

    assert clock.now < 1.0


@pytest.mark.slow
def test_what_stays_unknown_is_asked_for_ever_more_seldom() -> None:
    clock = Clock()
    http = FakeVLLM(["Cold."] * 2000, refusing={RENDER: 503})
    model = model_of(http, clock)

    async def ask_for_an_hour() -> None:
        while clock.now < 3600:
            await model.responses(params(), Session("s"))
            clock.now += 2

    asyncio.run(ask_for_an_hour())

    assert 3600 / LONGEST_PAUSE_S < len(http.asked(RENDER)) < 3600 / LONGEST_PAUSE_S + 10


def test_many_turns_at_once_ask_once() -> None:
    http = FakeVLLM(["Cold."] * 20, refusing={RENDER: 503})
    model = model_of(http)

    async def ask_at_once() -> None:
        async with asyncio.TaskGroup() as turns:
            for index in range(20):
                turns.create_task(model.responses(params(), Session(str(index))))

    asyncio.run(ask_at_once())

    assert len(http.asked(RENDER)) == 1


def test_an_endpoint_that_was_down_at_first_is_asked_when_it_is_back() -> None:
    down = dict.fromkeys(["/v1/models", "/version", "/tokenize", CHAT, RENDER, "/server_info"], 0)
    hosts = FakeHosts({"one": FakeVLLM(["Hi."]), "two": FakeVLLM(["Hi."], refusing=down)})
    clock = Clock()
    model = model_of(hosts, clock, base_url=hosts.urls)
    assert "without http://two/v1" in asyncio.run(model.check())
    hosts.hosts["two"].refusing.clear()
    clock.now += LONGEST_PAUSE_S

    said = asyncio.run(model.check())

    assert said.count("later prompts: sent as ids") == 2


def test_each_endpoint_is_known_by_itself() -> None:
    """The one that takes ids splices, although the other one does not."""
    one = FakeVLLM([CALL_AS_WRITTEN, "Cold."])
    two = FakeVLLM([CALL_AS_WRITTEN, "Cold."], takes_ids=False)
    hosts = FakeHosts({"one": one, "two": two})
    model = model_of(hosts, base_url=hosts.urls)

    async def talk(session: str) -> Response:
        return await model.responses(params(), Session(session))

    firsts = {session: asyncio.run(talk(session)) for session in ("a", "b")}
    found = {
        model.base_url_for(session): states([second_turn(model, first, session)])[0][0]
        for session, first in firsts.items()
    }

    assert found == {"http://one/v1": "continued", "http://two/v1": "broken"}


def test_an_endpoint_of_which_too_little_is_known_is_taken_to_be_like_the_others() -> None:
    said = [CALL_AS_WRITTEN, "Cold."]
    hosts = FakeHosts({"one": FakeVLLM([*said]), "two": FakeVLLM([*said])})
    clock = Clock()
    model = model_of(hosts, clock, base_url=hosts.urls)
    home = "one" if model.base_url_for("s") == "http://one/v1" else "two"
    hosts.hosts[home].refusing[RENDER] = 503
    asyncio.run(model.check())
    (first,) = converse(model, params(), 1)
    hosts.hosts[home].refusing.clear()

    assert states([second_turn(model, first)]) == [("continued", "")]
    assert clock.now == 0


def test_an_endpoint_that_is_not_like_the_others_does_not_have_them_asked_anew() -> None:
    said = [CALL_AS_WRITTEN, "Cold."]
    hosts = FakeHosts({"one": FakeVLLM([*said]), "two": FakeVLLM([*said])})
    model = model_of(hosts, base_url=hosts.urls)
    home, other = ("one", "two") if model.base_url_for("s") == "http://one/v1" else ("two", "one")
    hosts.hosts[home].refusing[RENDER] = 503
    asyncio.run(model.check())
    (first,) = converse(model, params(), 1)
    hosts.hosts[home].refusing[RENDER] = 404

    assert states([second_turn(model, first)])[0][0] == "broken"
    assert not model._known_capabilities.now(f"http://{other}/v1").unanswered


def test_an_endpoint_that_takes_no_ids_any_more_falls_back_and_is_asked_anew() -> None:
    http = FakeVLLM([CALL_AS_WRITTEN, "Cold.", "Cold."])
    model = model_of(http)
    asyncio.run(model.check())
    (first,) = converse(model, params(), 1)
    http.takes_ids = False

    second = second_turn(model, first)

    assert states([second])[0][0] == "broken"
    assert "sent as text" in asyncio.run(model.check())
