"""What `serve-model` says of the server that it started, and how it comes by the key."""

import asyncio

import pytest
from typer.testing import CliRunner

from palestra.cli.main import app
from palestra.cli.serving import key_from, pointing_lines
from palestra.errors import ConfigError
from palestra.responses_api_models.local_servers import Serving


def pointed(key_variable: str) -> list[str]:
    async def run() -> list[str]:
        serving = Serving(
            base_url="http://h:1/v1",
            model="m",
            what="vLLM",
            pid=1,
            started_s=1.0,
            ending=asyncio.get_running_loop().create_future(),  # type: ignore[arg-type]
        )
        return pointing_lines(serving, key_variable)

    return asyncio.run(run())


def test_without_a_key_none_is_named() -> None:
    assert pointed("") == [
        "+policy_base_url=http://h:1/v1",
        "+policy_model_name=m",
        "+policy_api_key=EMPTY",
        "or: --model vllm:m@http://h:1/v1",
    ]


def test_a_key_is_named_by_its_variable_as_a_shell_takes_it() -> None:
    assert pointed("MY_KEY")[2:] == [
        "'+policy_api_key=${oc.env:MY_KEY}'",
        "or: --model vllm:m@http://h:1/v1 '+policy_api_key=${oc.env:MY_KEY}'",
    ]


def test_a_key_is_read_from_the_environment() -> None:
    assert key_from("MY_KEY", {"MY_KEY": "sk-1"}) == "sk-1"
    assert key_from("", {}) == ""
    with pytest.raises(ConfigError, match="MY_KEY: there is no such environment variable"):
        key_from("MY_KEY", {"MY_KEY": ""})


@pytest.mark.parametrize("server", [["vllm", "m"], ["llama-cpp"]])
def test_a_key_is_no_argument(server: list[str]) -> None:
    found = CliRunner().invoke(app, ["serve-model", *server, "--api-key", "sk-a-secret"])

    assert found.exit_code == 2
    assert "No such option" in found.output
