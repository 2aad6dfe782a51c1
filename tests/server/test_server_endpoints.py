"""What an endpoint reads from a method's signature, and what becomes of its failures."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pytest
from pydantic import BaseModel, Field
from starlette.requests import Request

from author_servers import TASK, ask, error_of, server_of, turn
from palestra.errors import CallError, ConfigError, JudgeFailure, RowError, VerifierError
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer, Session
from palestra.server.endpoints import Endpoint
from palestra.server.sessions import SessionStore
from palestra.transport import call_asgi


class Body(BaseModel):
    word: str
    times: int = 1


def endpoint(method: Callable[..., Any], **kwargs: Any) -> Endpoint:
    """One endpoint whose own failures are verifier errors."""
    return Endpoint(
        method,
        path="/path",
        server="env",
        sessions=SessionStore(),
        on_error=lambda path, error: (
            error if isinstance(error, CallError) else VerifierError(f"{path} raised {error!r}")
        ),
        **kwargs,
    )


def invoked(method: Callable[..., Any], body: Any, session_id: str = "s", **kwargs: Any) -> Any:
    return asyncio.run(endpoint(method, **kwargs).invoke(body, session_id=session_id))


async def with_body(body: Body) -> Any:
    return body


async def with_session(body: Body, session: Session) -> Any:
    return body.word, session.id


async def only_session(its: Session) -> str:
    return its.id


async def nothing() -> str:
    return "nothing wanted"


async def unannotated(body) -> Any:
    return body


def in_plain_python(body: Body) -> str:
    return body.word * body.times


def test_a_body_is_validated_against_the_annotated_model() -> None:
    assert invoked(with_body, {"word": "a"}) == Body(word="a")


def test_an_object_of_the_model_is_handed_over_as_it_is() -> None:
    body = Body(word="a")
    assert invoked(with_body, body) is body


def test_an_object_of_another_model_is_read_field_by_field() -> None:
    class Row(BaseModel, extra="allow"):
        times: int = 3

    assert invoked(with_body, Row.model_validate({"word": "a"})) == Body(word="a")


def test_a_session_is_filled_in_wherever_it_is_asked_for() -> None:
    assert invoked(with_session, {"word": "a"}) == ("a", "s")
    assert invoked(only_session, {}) == "s"


def test_a_method_may_want_nothing_or_the_json_as_it_came() -> None:
    assert invoked(nothing, {"a": 1}) == "nothing wanted"
    assert invoked(unannotated, {"a": [1]}) == {"a": [1]}


def test_a_plain_function_serves_too() -> None:
    assert invoked(in_plain_python, {"word": "ab", "times": 2}) == "abab"


def test_two_bodies_are_refused_when_the_server_is_made() -> None:
    async def two(body: Body, other: Body) -> None: ...

    with pytest.raises(ConfigError, match="env/path: body and other cannot both be the body"):
        endpoint(two)


def test_the_schema_of_the_body_is_its_model_s() -> None:
    schema = endpoint(with_body).body_schema()

    assert schema is not None
    assert schema["required"] == ["word"]
    assert endpoint(nothing).body_schema() is None


class Asking(ResourcesServer):
    """Takes the HTTP request under a name of its own choosing."""

    async def seed_session(self, its_request: Request, body: Body, session: Session) -> Any:
        header = its_request.headers.get("x-test")
        return {"header": header, "word": body.word, "session": len(session.id)}

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)


def test_a_method_that_wants_the_request_is_served_by_the_app_alone() -> None:
    server = server_of(Asking)
    reply = ask(server, "/seed_session", {"word": "a"}, headers={"x-test": "1"})

    assert orjson.loads(reply.body) == {"header": "1", "word": "a", "session": 32}
    assert server.typed_endpoint("/seed_session") is None
    assert server.typed_endpoint("/verify") is not None


# Failures


class Strict(VerifyRequest):
    expected: str
    weights: dict[str, float] = Field(min_length=1)


class Scored(ResourcesServer):
    """Rewards with whatever the row says, or raises it."""

    async def verify(self, body: Strict) -> Any:
        return {"reward": float(body.expected)}


def test_a_422_lists_every_offending_field() -> None:
    reply = ask(server_of(Scored), "/verify", {"response": {"id": 1}, "weights": {"a": "x"}})
    error = error_of(reply)

    assert reply.status == 422
    assert (error["type"], error["layer"]) == ("data_error", "data/schema")
    assert {problem["pointer"] for problem in error["problems"]} == {
        "/responses_create_params",
        "/response/id",
        "/response/created_at",
        "/response/model",
        "/response/output",
        "/expected",
        "/weights/a",
    }
    assert "(and 2 more)" in error["message"]


def test_a_missing_field_is_named_without_repeating_what_it_was_looked_for_in() -> None:
    with pytest.raises(RowError) as caught:
        invoked(with_body, {"times": 12345})

    assert caught.value.message == "env/path rejects the body: /word: Field required"


def test_a_body_that_is_no_json_is_a_422() -> None:
    reply = ask(server_of(Scored), "/verify", b"{not json")

    assert reply.status == 422
    assert "env/verify: the body is not JSON" in error_of(reply)["message"]


def test_a_long_value_is_not_repeated_whole_in_the_error() -> None:
    with pytest.raises(RowError) as caught:
        invoked(with_body, {"word": ["x" * 10_000]})
    assert len(caught.value.message) < 300


def test_a_body_that_is_an_object_is_not_dumped_into_the_error() -> None:
    class Row(BaseModel, extra="allow"):
        note: str = "its own business"

    with pytest.raises(RowError) as caught:
        invoked(with_body, {"word": Row(inner={"deep": "inside"})})
    assert caught.value.message.endswith("Input should be a valid string, got an object")


def test_an_author_s_exception_is_a_verifier_error_with_the_author_s_frames(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR, logger="palestra.server"):
        reply = ask(server_of(Scored), "/verify", turn(expected="four", weights={"a": 1}))
    error = error_of(reply)

    assert reply.status == 500
    assert (error["type"], error["layer"]) == ("verifier_error", "verifier/runtime")
    says = "env/verify raised ValueError: could not convert string to float: 'four'"
    assert error["message"] == says
    assert [line.rpartition(" in ")[2] for line in error["traceback"].splitlines()] == ["verify"]
    assert __file__ in error["traceback"]
    assert says in caplog.text


def test_no_traceback_is_nested_in_the_message() -> None:
    error = error_of(ask(server_of(Scored), "/verify", turn(expected="x", weights={"a": 1})))

    assert "\n" not in error["message"]
    assert "Traceback" not in str(error)
    assert "palestra/server" not in error["traceback"]


@pytest.mark.parametrize(
    "reward", [float("nan"), float("inf"), None, "1.0", [1.0], {"value": 1}, 1 + 2j]
)
def test_a_reward_that_is_no_finite_number_is_a_verifier_error(reward: Any) -> None:
    class Odd(ResourcesServer):
        async def verify(self, body: VerifyRequest) -> Any:
            return self.reply(body, reward)

    reply = ask(server_of(Odd), "/verify", turn())

    assert reply.status == 500
    assert error_of(reply)["type"] == "verifier_error"
    assert error_of(reply)["message"].startswith("env/verify returned ")


@pytest.mark.parametrize("part", [float("nan"), float("-inf"), np.float32("inf")])
def test_a_component_of_a_reward_that_is_not_finite_is_a_verifier_error(part: Any) -> None:
    class Odd(ResourcesServer):
        async def verify(self, body: VerifyRequest) -> Any:
            return self.reply(body, 1.0, reward_components={"fine": None, "odd": part})

    error = error_of(ask(server_of(Odd), "/verify", turn()))

    assert error["type"] == "verifier_error"
    assert error["message"].startswith("env/verify returned the component 'odd'")


@pytest.mark.parametrize("result", [None, {}, "1.0", 1.0, {"reward": float("nan")}])
def test_a_result_without_a_reward_is_a_verifier_error(result: Any) -> None:
    class Odd(ResourcesServer):
        async def verify(self, body: VerifyRequest) -> Any:
            return result

    assert error_of(ask(server_of(Odd), "/verify", turn()))["type"] == "verifier_error"


@pytest.mark.parametrize("reward", [0, 1, -2.5, True])
def test_any_finite_number_is_a_reward(reward: float) -> None:
    class Fine(ResourcesServer):
        async def verify(self, body: VerifyRequest) -> Any:
            return {"reward": reward}

    assert orjson.loads(ask(server_of(Fine), "/verify", turn()).body)["reward"] == reward


def test_a_failure_that_the_author_chose_passes_through_unchanged() -> None:
    class Judged(ResourcesServer):
        async def verify(self, body: VerifyRequest) -> Any:
            raise JudgeFailure("no verdict", hint="ask again") from ValueError("empty")

    error = error_of(ask(server_of(Judged), "/verify", turn()))

    assert (error["type"], error["message"], error["hint"]) == (
        "judge_error",
        "no verdict",
        "ask again",
    )


def test_what_seeding_raises_is_the_environments_and_not_the_verifiers() -> None:
    class Odd(Scored):
        async def seed_session(self, body: Any, *args: Any, **kwargs: Any) -> Any:
            raise LookupError("no such board")

    error = error_of(ask(server_of(Odd), "/seed_session", {}))

    assert (error["type"], error["layer"]) == ("environment_error", "verifier/runtime")
    assert error["traceback"].endswith(" in seed_session")


def test_an_answer_that_is_no_json_is_the_author_s_bug() -> None:
    class Odd(ResourcesServer):
        async def verify(self, body: VerifyRequest) -> Any:
            return self.reply(body, 1.0, tags={1, 2})

    error = error_of(ask(server_of(Odd), "/verify", turn()))

    assert error["type"] == "verifier_error"
    assert "set is not JSON" in error["message"] or "not JSON serializable" in error["message"]


class Failing(ResourcesServer):
    """Its verify fails in every way."""

    async def verify(self, body: VerifyRequest, session: Session) -> Any:
        how = (body.model_extra or {}).get("how")
        if how == "raise":
            raise ValueError
        return {"reward": None if how == "no reward" else 1.0}


@pytest.mark.parametrize("how", ["raise", "no reward", "reward"])
def test_verify_ends_the_session_however_it_ends(how: str) -> None:
    server = server_of(Failing)

    async def rollout() -> int:
        seed, verify = server.typed_endpoint("/seed_session"), server.typed_endpoint("/verify")
        assert seed is not None
        assert verify is not None
        await seed.invoke(TASK, session_id="s")
        with contextlib.suppress(CallError):
            await verify.invoke(turn(how=how), session_id="s")
        return len(server._palestra_sessions)

    assert asyncio.run(rollout()) == 0


def test_reply_keeps_the_row_and_adds_what_is_reported() -> None:
    class Reporting(ResourcesServer):
        async def verify(self, body: VerifyRequest) -> VerifyResponse:
            return self.reply(body, 0.5, note="half right")

    sent = turn(_ng_task_index=3)
    found = orjson.loads(ask(server_of(Reporting), "/verify", sent).body)

    assert found == {**sent, "reward": 0.5, "note": "half right"}


def test_every_endpoint_is_in_the_openapi_document() -> None:
    app = server_of(Scored).asgi_app()
    document = orjson.loads(asyncio.run(call_asgi(app, "GET", "/openapi.json")).body)
    schema = document["paths"]["/verify"]["post"]["requestBody"]["content"]["application/json"]

    assert {"/", "/verify", "/seed_session", "/aggregate_metrics"} <= document["paths"].keys()
    assert "expected" in schema["schema"]["properties"]
