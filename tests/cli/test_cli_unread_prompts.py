"""A prompt that no model ever read gets no reward, however careless its verifier is."""

import json

import pytest
from cli_world import FakeEndpoint, World, without_engine

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CARELESS = """
from palestra import environment

@environment(data=[{"n": 1}], prompt="PROMPT {n}")
def check(answer: str, n: int) -> float:
    return 1.0
"""
REFUSAL = {
    "error": {
        "message": "This model's maximum context length is 2048 tokens. However, your messages "
        "resulted in 750030 tokens. Please reduce the length of the messages.",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
}


def evaluated(world: World, *model: str, prompt: str) -> tuple[int, list[dict[str, object]], str]:
    """The exit code of an evaluation, its failures, and what it said."""
    world.write("careless.py", CARELESS.replace("PROMPT", prompt))
    done = world.run(
        "palestra", "eval", "careless.py", *model, "--output", "out/h.jsonl", "--progress", "none"
    )
    assert not (world.folder / "out/h.jsonl").exists() or not world.rows("out/h.jsonl")
    return done.code, world.rows("out/h_failures.jsonl"), done.err + done.out


@pytest.mark.parametrize("kind", ["openai:tiny", "vllm"])
def test_a_prompt_that_the_endpoint_refuses_for_its_length_is_a_data_error(
    world: World, fake: FakeEndpoint, kind: str
) -> None:
    fake.status, fake.body = 400, REFUSAL
    model = f"vllm:tiny@{fake.url}" if kind == "vllm" else kind

    code, [failure], said = evaluated(world, "--model", model, *fake.policy, prompt="hello")

    assert (code, failure["attempt"]) == (1, 1)
    assert failure["_ng_failure_class"] == "data_error"
    assert failure["_ng_failure_layer"] == "data/schema"
    assert (failure["_ng_failure_terminal"], failure["retriable"]) == (True, False)
    assert "the prompt has 750,030 tokens, the model takes 2,048" in str(failure["message"])
    assert "(data_error 1)" in said


@pytest.mark.skipif(bool(without_engine()), reason="the local model's engine is not here")
def test_a_row_of_megabytes_is_a_data_error_of_the_local_model(world: World) -> None:
    code, [failure], _ = evaluated(world, "--model", "local", prompt="word " * 600_000)

    assert code == 1
    assert failure["_ng_failure_class"] == "data_error"
    assert "the model takes 2,048" in str(failure["message"])


def test_diagnosis_names_the_rows_and_not_the_model(world: World, fake: FakeEndpoint) -> None:
    fake.status, fake.body = 400, REFUSAL
    evaluated(world, "--model", "openai:tiny", *fake.policy, prompt="hello")

    done = world.run("palestra", "diagnose", "out/h", "--json")

    [found] = json.loads(done.out)["findings"]
    assert (found["cause"], found["layer"]) == ("data.prompt-too-long", "data/schema")
