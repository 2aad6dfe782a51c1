"""A script of its own that calls the servers of a running fleet, as NeMo Gym's quick start does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from field_fleets import running_fleet
from field_project import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

APP = """
from nemo_gym.base_resources_server import (
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)


class Echo(SimpleResourcesServer):
    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=0.25)


if __name__ == "__main__":
    Echo.run_webserver()
"""
CONFIG = """
echo:
  resources_servers:
    echo:
      entrypoint: app.py
      domain: other
"""
SCRIPT = """
import asyncio, sys
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient

BODY = {
    "responses_create_params": {"input": "hello"},
    "response": {
        "id": "r", "created_at": 0, "model": "m", "object": "response", "output": [],
        "parallel_tool_calls": False, "tool_choice": "auto", "tools": [],
    },
}

async def main():
    port = [int(word) for word in sys.argv[1:]]
    head = BaseServerConfig(host="127.0.0.1", port=port[0]) if port else None
    client = ServerClient.load_from_global_config(head)
    answer = await client.post(server_name="echo", url_path="/verify", json=BODY)
    answer.raise_for_status()
    print((await answer.json())["reward"])

asyncio.run(main())
"""


def script(work: Path, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "client.py", *words]
    return subprocess.run(
        command, cwd=work, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_script_finds_the_servers_of_a_running_fleet_by_its_head(tmp_path: Path) -> None:
    folder = tmp_path / "resources_servers" / "echo"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(APP)
    (tmp_path / "echo.yaml").write_text(CONFIG)
    (tmp_path / "client.py").write_text(SCRIPT)
    env = {**os.environ, "PALESTRA_RUN_DIR": str(tmp_path / "run")}

    with running_fleet(tmp_path, env, ["echo.yaml"]) as (override, _):
        port = override.partition("=")[2]
        by_address = script(tmp_path, env, port)
        (tmp_path / "env.yaml").write_text(f"head_server: {{port: {port}}}\n")
        by_env_yaml = script(tmp_path, env)

    assert by_address.stdout == "0.25\n", by_address.stderr
    assert by_env_yaml.stdout == "0.25\n", by_env_yaml.stderr


def test_a_script_without_a_fleet_is_told_where_none_answers(tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(SCRIPT)
    port = free_port()
    env = {**os.environ, "PALESTRA_RUN_DIR": str(tmp_path / "run")}

    done = script(tmp_path, env, str(port))

    assert "NoFleet" in done.stderr
    assert f"127.0.0.1:{port}" in done.stderr
