"""`environment_file`: an environment that is one Python file."""

import asyncio
from pathlib import Path

import pytest

from palestra.errors import ConfigError
from palestra.resources_servers.environment_file.app import (
    EnvironmentFileConfig,
    EnvironmentFileServer,
)
from palestra.schema import VerifyRequest
from palestra.server import Session
from palestra.transport import HttpClient, ServerClient

SIX_LINES = """from palestra import environment

@environment(data=[{"question": "2 + 2 = ?", "expected_answer": "4"}], prompt="{question}")
def verify(answer: str, expected_answer: str) -> float:
    return float(answer.strip() == expected_answer)
"""


def server_of(path: Path) -> EnvironmentFileServer:
    return EnvironmentFileServer(
        config=EnvironmentFileConfig(name="mine", path=path),
        server_client=ServerClient({}, HttpClient()),
    )


def answered(text: str) -> VerifyRequest:
    message = {"type": "message", "content": [{"type": "output_text", "text": text}]}
    response = {"id": "r", "created_at": 0, "model": "m", "output": [message]}
    params = {"input": "2 + 2 = ?"}
    return VerifyRequest.model_validate(
        {"responses_create_params": params, "response": response, "expected_answer": "4"}
    )


@pytest.mark.parametrize(("text", "reward"), [(" 4\n", 1.0), ("5", 0.0), ("", 0.0)])
def test_the_functions_return_value_is_the_reward(tmp_path: Path, text: str, reward: float) -> None:
    path = tmp_path / f"env_{abs(hash(text))}.py"
    path.write_text(SIX_LINES)

    result = asyncio.run(server_of(path).verify(answered(text), Session("s")))

    assert result.reward == reward


def test_a_file_without_an_environment_is_refused_at_start(tmp_path: Path) -> None:
    path = tmp_path / "no_environment.py"
    path.write_text("x = 1\n")

    with pytest.raises(ConfigError, match="must define exactly one environment; found: none"):
        asyncio.run(server_of(path).start())
