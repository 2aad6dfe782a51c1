"""`palestra eval --model PROVIDER:NAME@URL`, against local servers that behave like each dialect."""

import json
from pathlib import Path

import pytest
from cli_world import World

from dialect_server import KEY, MODEL, dialect_server
from palestra.responses_api_models.providers import PROVIDERS

ENVIRONMENT = """
from palestra import environment

@environment(data=[{"city": "Paris"}], prompt="How is the weather in {city}?")
def verify(answer: str) -> float:
    return float(answer == "sunny")
"""
ASKED = ("--max-attempts", "1", "--output", "out/rollouts.jsonl")


def evaluated(world: World, provider: str, variable: str, dialect: str) -> list[float]:
    """The rewards of an evaluation of a provider's model."""
    world.write("weather.py", ENVIRONMENT)
    with dialect_server(dialect) as server:
        world.environment[variable] = KEY
        url = server.url.removesuffix("/v1") if provider == "azure" else server.url
        model = f"{provider}:{MODEL}@{url}"
        done = world.run("palestra", "eval", "weather.py", "--model", model, *ASKED)
    assert done.code == 0, done.err
    assert KEY not in done.out + done.err
    return [row["reward"] for row in world.rows("out/rollouts.jsonl")]


@pytest.mark.slow
@pytest.mark.parametrize("provider", ["openai", "anthropic", "groq", "ollama", "vllm", "azure"])
def test_a_model_of_each_dialect_is_evaluated_by_its_name(world: World, provider: str) -> None:
    row = PROVIDERS[provider]

    assert evaluated(world, provider, row.key_variable, row.dialect) == [1.0]


@pytest.mark.slow
def test_a_provider_of_env_yaml_is_evaluated_by_its_name(world: World) -> None:
    world.write(
        "env.yaml", "model_providers: {corp: {key_variable: CORP_KEY, dialect: messages}}\n"
    )

    assert evaluated(world, "corp", "CORP_KEY", "messages") == [1.0]


def test_a_missing_key_is_named_before_anything_starts(world: World) -> None:
    world.write("weather.py", ENVIRONMENT)
    before = world.files()

    refused = world.run("palestra", "eval", "weather.py", "--model", "groq:m").refused()

    assert "--model groq:m needs a key, and GROQ_API_KEY is not set" in refused
    assert "set GROQ_API_KEY" in refused
    assert world.files() == before


def test_a_judge_without_a_key_is_refused_in_its_own_words(world: World) -> None:
    refused = world.run(
        *("palestra", "eval", "equivalence_llm_judge", "--model", "local", "--judge", "xai:m")
    ).refused()

    assert "--judge xai:m needs a key, and XAI_API_KEY is not set" in refused
    assert "++judge_api_key" in refused


@pytest.mark.slow
def test_a_judge_is_asked_and_not_the_policy(world: World) -> None:
    with dialect_server("messages") as judge, dialect_server("chat") as policy:
        world.environment |= {"ANTHROPIC_API_KEY": KEY, "GROQ_API_KEY": KEY}
        done = world.run(
            *("palestra", "eval", "equivalence_llm_judge", "--limit", "1", *ASKED),
            *("--model", f"groq:{MODEL}@{policy.url}"),
            *("--judge", f"anthropic:{MODEL}@{judge.url}"),
        )

    assert [path for path, _, _ in policy.requests] == ["/v1/chat/completions"]
    assert {path for path, _, _ in judge.requests} == {"/v1/messages"}, done.err


def test_the_models_that_messages_name_are_masked_of_keys(world: World, tmp_path: Path) -> None:
    world.write("weather.py", ENVIRONMENT)
    world.environment["GROQ_API_KEY"] = "gsk-a-secret-of-the-tests"

    done = world.run(
        *("palestra", "eval", "weather.py", "--model", "groq:m@http://127.0.0.1:9/v1"),
        *("--patience", "0.1", *ASKED),
    )

    assert done.code != 0
    assert "gsk-a-secret" not in done.out + done.err
    assert not any("gsk-a-secret" in json.dumps(row) for row in _rows(world))


def _rows(world: World) -> list[object]:
    return [path.read_text() for path in world.folder.rglob("*.json*") if path.is_file()]
