import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scripted_fleet import (
    NotingEnvironment,
    ScriptedModel,
    agent_of,
    called,
    counter,
    noting,
    respond,
    said,
    scripted,
    turn,
)

from palestra.errors import DeadlineExceeded, JudgeFailure, KnownCause, ModelError
from palestra.responses_api_agents.simple_agent.app import MANY_TURNS, SimpleAgent
from palestra.schema import (
    FunctionCallOutput,
    Response,
    ResponseCreateParams,
    RunRequest,
    encode_json,
)
from palestra.server import Session
from palestra.transport import call_asgi

PARAMS = ResponseCreateParams.model_validate(
    {"input": [{"role": "user", "content": "hello"}], "temperature": 0.5}
)


def outputs(response: Response) -> list[Any]:
    """What the model was given as the tools' outputs."""
    return [item.output for item in response.output if isinstance(item, FunctionCallOutput)]


def kinds(response: Response) -> list[str]:
    return [item.type for item in response.output]


def after_one_call(call: dict[str, Any]) -> tuple[Response, NotingEnvironment]:
    environment = noting()
    model = scripted(turn(call), turn(said("done")))
    return respond(agent_of(environment, model), PARAMS), environment


def test_a_rollout_is_seeded_played_and_verified_in_one_session() -> None:
    model = scripted(
        turn(called("increment_counter", '{"count": 4}')),
        turn(called("get_counter_value")),
        turn(said("nine")),
    )
    row = {"responses_create_params": {"input": "go"}, "initial_count": 5, "expected_count": 9}

    result = asyncio.run(agent_of(counter(), model).run(RunRequest.model_validate(row)))

    assert result.reward == 1.0
    assert outputs(result.response) == ['{"success":true}', '{"count":9}']


def test_a_message_without_calls_ends_the_loop_and_is_the_models_own_response() -> None:
    answer = turn(said("hi"))
    model = scripted(answer)

    assert respond(agent_of(noting(), model), PARAMS) == answer
    assert model.asked == [PARAMS]


@pytest.mark.parametrize("output", [(), ({"type": "reasoning", "summary": []},)])
def test_a_turn_with_neither_message_nor_call_ends_the_loop(output: Any) -> None:
    model = scripted(turn(*output))

    assert kinds(respond(agent_of(noting(), model), PARAMS)) == [item["type"] for item in output]


def test_an_incomplete_turn_ends_the_loop_and_its_calls_are_not_run() -> None:
    environment = noting()
    cut = turn(called("quick"), incomplete_details={"reason": "max_output_tokens"})

    response = respond(agent_of(environment, scripted(cut)), PARAMS)

    assert response.incomplete_details is not None
    assert environment.events == []


def test_the_last_allowed_step_ends_the_loop_and_its_calls_are_not_run() -> None:
    environment = noting()
    model = scripted(*[turn(called("quick"))] * 3)

    response = respond(agent_of(environment, model, max_steps=2), PARAMS)

    assert kinds(response) == ["function_call", "function_call_output", "function_call"]
    assert len(environment.events) == 1


def test_a_message_beside_a_call_does_not_end_the_loop() -> None:
    model = scripted(turn(said("let me see"), called("quick")), turn(said("done")))

    response = respond(agent_of(noting(), model), PARAMS)

    assert kinds(response) == ["message", "function_call", "function_call_output", "message"]


def test_the_response_is_the_last_turns_with_all_items_and_the_usage_of_all_turns() -> None:
    model = scripted(turn(called("quick")), turn(said("done"), id="last"))

    response = respond(agent_of(noting(), model), PARAMS)

    assert response.id == "last"
    assert response.usage is not None
    assert response.usage.total_tokens == 30
    assert response.final_text == "done"


def test_every_turn_sees_the_task_and_all_that_happened_since() -> None:
    model = scripted(turn(called("quick")), turn(called("quick")), turn(said("done")))

    respond(agent_of(noting(), model), PARAMS)

    assert [len(params.input) for params in model.asked] == [1, 3, 5]
    assert all(params.temperature == 0.5 for params in model.asked)


def test_what_was_received_is_never_changed() -> None:
    turns = [turn(called("quick")), turn(called("quick")), turn(said("done"))]
    before = [encode_json(value) for value in (PARAMS, *turns)]

    respond(agent_of(noting(), scripted(*turns)), PARAMS)

    assert [encode_json(value) for value in (PARAMS, *turns)] == before


def test_what_the_model_is_asked_survives_the_way_over_http() -> None:
    model = scripted(turn(said("hm"), called("quick")), turn(said("done")))

    respond(agent_of(noting(), model), PARAMS)

    items = orjson.loads(encode_json(model.asked[1]))["input"]
    assert [item.get("type") for item in items] == [
        None,
        "message",
        "function_call",
        "function_call_output",
    ]
    assert items[1] == said("hm")
    assert ResponseCreateParams.model_validate({"input": items}).input


def test_a_plain_text_input_becomes_the_users_message_once_there_is_more() -> None:
    model = scripted(turn(called("quick")), turn(said("done")))

    respond(agent_of(noting(), model), ResponseCreateParams(input="hello"))

    first = orjson.loads(encode_json(model.asked[1]))["input"][0]
    assert first == {"type": "message", "role": "user", "content": "hello"}


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "7", '"x"', "null", "\x00", "NaN"])
def test_arguments_that_are_no_json_object_go_back_to_the_model(arguments: str) -> None:
    response, environment = after_one_call(called("quick", arguments))

    assert "arguments of quick" in orjson.loads(outputs(response)[0])["error"]
    assert environment.events == []


@pytest.mark.parametrize(
    "call", [called("quick", '{"volume": 3}'), called("broken"), called("verify")]
)
def test_what_a_tool_cannot_do_goes_back_to_the_model(call: dict[str, Any]) -> None:
    response, _ = after_one_call(call)

    assert "error" in orjson.loads(outputs(response)[0])
    assert response.final_text == "done"


def test_a_tool_that_does_not_exist_goes_back_to_the_model() -> None:
    response, _ = after_one_call(called("fly me/to the moon"))

    assert "there is no tool named 'fly me/to the moon'; tools: " in outputs(response)[0]


@pytest.mark.slow
@given(name=st.text(min_size=1), arguments=st.text())
def test_no_call_a_model_writes_ends_the_rollout(name: str, arguments: str) -> None:
    response, _ = after_one_call(called(name, arguments))

    assert response.final_text == "done"


def test_calls_of_one_turn_run_in_order_unless_they_are_independent() -> None:
    calls = [called("slow", call_id="1"), called("quick", call_id="2")]

    def events(**settings: Any) -> tuple[list[Any], list[str]]:
        environment = noting()
        model = scripted(turn(*calls), turn(said("done")))
        response = respond(agent_of(environment, model, **settings), PARAMS)
        return outputs(response), environment.events

    assert events() == (["slow", "quick"], ["slow starts", "slow ends", "quick"])
    assert events(independent_tool_calls=True) == (
        ["slow", "quick"],
        ["slow starts", "quick", "slow ends"],
    )


def test_a_failure_of_the_model_server_ends_the_rollout_with_its_own_error() -> None:
    class Failing(ScriptedModel):
        async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
            raise ModelError("out of memory")

    model = Failing(config=scripted().config, server_client=scripted().server_client, turns=[])

    with pytest.raises(ModelError, match="out of memory"):
        respond(agent_of(noting(), model), PARAMS)


def calls_without_an_end(count: int) -> ScriptedModel:
    calls = [turn(called("quick", call_id=str(n))) for n in range(count)]
    return scripted(*calls, turn(said("done")))


def test_many_turns_without_a_limit_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    agent = agent_of(noting(), calls_without_an_end(2 * MANY_TURNS))

    respond(agent, PARAMS)

    [record] = caplog.records
    assert f"has called the model {MANY_TURNS} times" in record.getMessage()
    assert "max_steps" in record.getMessage()


def test_many_turns_below_a_limit_are_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    agent = agent_of(noting(), calls_without_an_end(MANY_TURNS), max_steps=2 * MANY_TURNS)

    respond(agent, PARAMS)

    assert not caplog.records


def error_at_the_deadline(turns: int, *, hangs_s: float, first_s: float = 0.02) -> DeadlineExceeded:
    """The error of a rollout whose model calls a tool `turns` times, then awaits its deadline."""

    class Late(ScriptedModel):
        async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
            self.calls += 1
            if self.calls > turns:
                await asyncio.sleep(hangs_s)
                raise DeadlineExceeded("http://127.0.0.1:9: no answer within 0.0 s")
            await asyncio.sleep(first_s if self.calls == 1 else 0.02)
            return Response.model_validate(turn(called("quick", call_id=str(self.calls))))

        calls: int = 0

    model = Late(config=scripted().config, server_client=scripted().server_client, turns=[])
    with pytest.raises(DeadlineExceeded) as late:
        respond(agent_of(noting(), model), PARAMS)
    return late.value


def test_a_loop_without_an_end_is_reported_with_its_calls_and_the_limit_to_set() -> None:
    late = error_at_the_deadline(3, hangs_s=0)

    assert late.cause is KnownCause.STILL_GOING
    assert "3 model calls and 3 tool calls were made" in late.message
    assert "max_turns" in late.hint


def test_a_model_that_hangs_after_some_turns_is_reported_as_slow() -> None:
    late = error_at_the_deadline(2, hangs_s=0.3)

    assert late.cause is not KnownCause.STILL_GOING


def test_a_slow_call_before_some_quick_turns_is_reported_as_slow() -> None:
    late = error_at_the_deadline(3, hangs_s=0, first_s=0.3)

    assert late.cause is not KnownCause.STILL_GOING


def test_a_failure_beneath_a_tool_ends_the_rollout_also_among_independent_calls() -> None:
    class Judged(NotingEnvironment):
        async def quick(self, word: str = "") -> str:
            raise ModelError("the judge is gone")

        quick._palestra_tool = True  # type: ignore[attr-defined]  # what @tool does

    environment = Judged(config=noting().config, server_client=noting().server_client)
    model = scripted(turn(called("slow", call_id="1"), called("quick", call_id="2")))

    with pytest.raises(JudgeFailure, match="judge"):
        respond(agent_of(environment, model, independent_tool_calls=True), PARAMS)


def test_the_loop_alone_answers_over_http() -> None:
    agent: SimpleAgent = agent_of(noting(), scripted(turn(called("quick")), turn(said("done"))))
    body = encode_json(PARAMS)

    reply = asyncio.run(call_asgi(agent.asgi_app(), "POST", "/v1/responses", body=body))

    assert reply.status == 200, reply.body
    assert kinds(Response.model_validate_json(reply.body)) == [
        "function_call",
        "function_call_output",
        "message",
    ]


def test_a_step_limit_of_zero_is_refused() -> None:
    with pytest.raises(ValidationError, match="max_steps"):
        agent_of(noting(), scripted(), max_steps=0)
