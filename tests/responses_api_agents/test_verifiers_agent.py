"""Small environments of the `verifiers` library, rolled out against a scripted model of ours.

Where the library is not installed (it holds back versions of ours) only the conversion is tested:
`pip install palestra 'verifiers>=0.3,<0.4' pytest pytest-timeout hypothesis` into an environment of
its own runs the rest.
"""

import asyncio
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
from scripted_fleet import MODEL, ScriptedModel, called, nobody, said, scripted, turn

from palestra.errors import CallError, ModelError, RowError, VerifierError
from palestra.responses_api_agents.verifiers_agent.app import (
    VerifiersAgent,
    VerifiersAgentConfig,
    VerifiersRunRequest,
)
from palestra.responses_api_agents.verifiers_agent.conversion import (
    input_of,
    response_of,
    sampling_of,
)
from palestra.responses_api_agents.verifiers_agent.rows import main, row_of, rows_of
from palestra.schema import (
    AggregateMetricsRequest,
    Response,
    ResponseCreateParams,
    VerifyResponse,
)
from palestra.server import ModelReference, Session
from palestra.transport import HttpClient, ServerClient, Target

USER = {"role": "user", "content": "2 + 2 = ?"}
ENVIRONMENT = """
import verifiers as vf
from datasets import Dataset

QUESTIONS = [{"question": "2 + 2 = ?", "answer": "4"}, {"question": "3 + 3 = ?", "answer": "6"}]


def add(first: int, second: int) -> int:
    \"\"\"Add two numbers.\"\"\"
    return first + second


async def right(completion, answer) -> float:
    return float(completion[-1]["content"] == answer)


async def brief(completion) -> float:
    return 0.25


async def infinite(completion) -> float:
    return float("inf")


class Failing(vf.SingleTurnEnv):
    async def setup_state(self, state):
        raise vf.InfraError("the sandbox is gone")


def load_environment(kind="single", reward="right"):
    data = Dataset.from_list(QUESTIONS)
    functions = [right, brief] if reward == "right" else [infinite]
    rubric = vf.Rubric(funcs=functions, weights=[1.0, 0.0][: len(functions)])
    system = "Answer with a number."
    if kind == "failing":
        return Failing(dataset=data, rubric=rubric)
    if kind == "tools":
        return vf.ToolEnv(dataset=data, tools=[add], rubric=rubric, max_turns=5)
    return vf.SingleTurnEnv(dataset=data, rubric=rubric, system_prompt=system)
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("verifiers")
    (tmp_path / "sums_env.py").write_text(ENVIRONMENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "sums_env", raising=False)
    return "sums-env"


def loaded(**arguments: Any) -> Any:
    verifiers: ModuleType = pytest.importorskip("verifiers")
    return verifiers.load_environment("sums-env", **arguments)


def agent_of(model: ScriptedModel, **env_args: Any) -> VerifiersAgent:
    config = VerifiersAgentConfig(
        name="agent",
        env_id="sums-env",
        env_args=env_args,
        model_server=ModelReference(type="responses_api_models", name=MODEL),
    )
    targets = {MODEL: Target(MODEL, "responses_api_models", local=model)}
    return VerifiersAgent(config=config, server_client=ServerClient(targets, HttpClient()))


def run(agent: VerifiersAgent, row: dict[str, Any]) -> VerifyResponse:
    async def rollout() -> VerifyResponse:
        async with asyncio.timeout(50):
            await agent.start()
            return await agent.run(VerifiersRunRequest.model_validate(row))

    return asyncio.run(rollout())


def first_row(**arguments: Any) -> dict[str, Any]:
    return next(rows_of(loaded(**arguments)))


@pytest.mark.slow
def test_a_single_turn_is_asked_of_our_model_and_scored_by_the_rubric(environment: str) -> None:
    model = scripted(turn(said("4")))
    row = first_row()
    row["responses_create_params"]["temperature"] = 0.5

    result = run(agent_of(model), row)

    assert result.reward == 1.0
    assert result.response.final_text == "4"
    assert result.response.usage is not None
    assert result.response.usage.total_tokens == 15
    assert result.model_extra is not None
    assert (result.model_extra["right"], result.model_extra["brief"]) == (1.0, 0.25)
    assert model.asked[0].temperature == 0.5
    assert [item.role for item in model.asked[0].input] == ["system", "user"]


@pytest.mark.slow
def test_the_librarys_signal_handlers_do_not_stay(environment: str) -> None:
    before = signal.getsignal(signal.SIGTERM)

    run(agent_of(scripted(turn(said("4")))), {"responses_create_params": {"input": "?"}})

    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
def test_a_wrong_or_empty_answer_is_scored_and_no_failure(environment: str) -> None:
    assert run(agent_of(scripted(turn(said("5")))), first_row()).reward == 0.0
    assert run(agent_of(scripted(turn(said("")))), first_row()).reward == 0.0


@pytest.mark.slow
def test_tools_are_offered_run_and_recorded(environment: str) -> None:
    model = scripted(turn(called("add", '{"first": 2, "second": 2}')), turn(said("4")))

    result = run(agent_of(model, kind="tools"), first_row(kind="tools"))

    assert result.reward == 1.0
    kinds = [item.type for item in result.response.output]
    assert kinds == ["function_call", "function_call_output", "message"]
    assert result.response.output[1].output == "4"
    assert [tool.name for tool in model.asked[0].tools] == ["add"]


class Unreachable(ScriptedModel):
    """A model server whose endpoint is down."""

    async def responses(self, body: ResponseCreateParams, session: Session) -> Response:
        raise ModelError("the endpoint is down")


@pytest.mark.slow
def test_a_model_that_gave_no_answer_is_a_failure_and_not_a_reward_of_zero(
    environment: str,
) -> None:
    model = Unreachable(config=scripted().config, server_client=nobody(), turns=[])

    with pytest.raises(CallError, match="the endpoint is down"):
        run(agent_of(model), first_row())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [({"kind": "failing"}, "InfraError"), ({"reward": "infinite"}, "reward is inf")],
)
def test_an_environment_that_fails_gives_no_reward(
    environment: str, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(VerifierError, match=problem):
        run(agent_of(scripted(turn(said("4"))), **arguments), first_row(**arguments))


@pytest.mark.slow
def test_the_command_writes_the_datasets_rows(environment: str, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"

    main([environment, str(out), "--args", '{"kind": "tools"}'])

    (first, second) = map(orjson.loads, out.read_text().splitlines())
    assert first["responses_create_params"]["input"] == [USER]
    assert second["verifiers"] == {"example_id": 1, "answer": "6"}


def test_a_row_holds_the_prompt_and_what_the_rubric_needs() -> None:
    example = {"prompt": [{**USER, "name": None}], "answer": "4", "info": None, "question": "?"}

    row = row_of({**example, "example_id": 7})

    assert row["responses_create_params"] == {"input": [USER]}
    assert row["verifiers"] == {"example_id": 7, "answer": "4"}


def test_a_rows_input_becomes_a_chat() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA"}
    parts = [{"type": "input_text", "text": "look"}, image]
    items = [{"role": "developer", "content": "brief"}, {"role": "user", "content": parts}]
    params = ResponseCreateParams.model_validate(
        {"input": items, "max_output_tokens": 9, "temperature": 0.0}
    )

    given = input_of(params, {"answer": "4"})

    assert given["answer"] == "4"
    assert given["prompt"][0] == {"role": "system", "content": "brief"}
    assert [part["type"] for part in given["prompt"][1]["content"]] == ["text", "image_url"]
    assert sampling_of(params) == {"max_tokens": 9, "temperature": 0.0}


def test_calls_of_a_rows_input_become_messages() -> None:
    call = {"call_id": "c", "name": "add", "arguments": "{}"}
    items = [
        USER,
        {"type": "function_call", **call},
        {"type": "function_call_output", "call_id": "c", "output": "4"},
    ]

    prompt = input_of(ResponseCreateParams.model_validate({"input": items}), {})["prompt"]

    assert [message["role"] for message in prompt] == ["user", "assistant", "tool"]
    assert prompt[1]["tool_calls"][0]["function"] == {"name": "add", "arguments": "{}"}
    assert (prompt[2]["tool_call_id"], prompt[2]["content"]) == ("c", "4")


@pytest.mark.parametrize(
    ("item", "pointer"),
    [
        ({"type": "reasoning", "summary": []}, "/input/0"),
        (
            {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]},
            "/input/0/content/0",
        ),
    ],
)
def test_what_the_library_lacks_is_refused(item: dict[str, Any], pointer: str) -> None:
    with pytest.raises(RowError) as caught:
        input_of(ResponseCreateParams.model_validate({"input": [item]}), {})

    assert caught.value.evidence.problems[0].pointer == pointer


def test_what_a_row_adds_to_requests_is_sampling_too() -> None:
    params = ResponseCreateParams.model_validate(
        {
            "input": "q",
            "reasoning": {"effort": "low"},
            "metadata": {
                "extra_body": '{"top_k": 5}',
                "chat_template_kwargs": '{"enable_thinking": false}',
            },
        }
    )

    assert sampling_of(params) == {
        "reasoning_effort": "low",
        "top_k": 5,
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_unknown_token_counts_and_refusals_stay_what_they_are() -> None:
    message = {"role": "assistant", "content": None, "refusal": "no"}

    response = response_of({"completion": [message]}, model="m")

    assert response.usage is None
    assert [part.type for part in response.output[0].content] == ["refusal"]


def test_a_completion_becomes_a_responses_items() -> None:
    call = {"id": "c", "name": "add", "arguments": "{}"}
    completion = [
        {"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "4"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": [{"type": "text", "text": "four"}]},
    ]

    response = response_of({"completion": completion, "is_truncated": True}, model="m")

    kinds = [item.type for item in response.output]
    assert kinds == ["reasoning", "function_call", "function_call_output", "message", "message"]
    assert response.final_text == "four"
    assert response.incomplete_details is not None
    assert response.status == "incomplete"


def test_metrics_are_aggregated_without_an_environment() -> None:
    rows = [
        {"reward": float(number), "_ng_task_index": 0, "_ng_rollout_index": number}
        for number in range(2)
    ]
    request = AggregateMetricsRequest.model_validate({"verify_responses": rows})

    found = asyncio.run(agent_of(scripted()).aggregate_metrics(request))

    assert found.key_metrics["mean/reward"] == 0.5
