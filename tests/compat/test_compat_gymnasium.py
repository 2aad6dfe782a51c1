"""`resources_servers.gymnasium`: folders of the field that take turns, alone and in a fleet."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from bare_apps import RESPONSE, client_of, server_of
from hosted_apps import HEAD

from palestra import rollouts
from palestra.compat import aliases
from palestra.config import load_config
from palestra.errors import ConfigError, KnownCause
from palestra.fleet import Fleet
from palestra.settings import CollectSettings, InputFile

GUESS = '''
from typing import Any, Optional
from nemo_gym.openai_utils import NeMoGymResponse
from resources_servers.gymnasium import GymnasiumServer, extract_text


class GuessEnv(GymnasiumServer):
    """Guess a number; the answer says whether it is higher."""

    async def reset(self, metadata: dict, session_id: Optional[str] = None) -> tuple[Optional[str], dict]:
        self.session_state[session_id] = 0
        return "Guess my number.", {"tries": 0}

    async def step(
        self, action: NeMoGymResponse, metadata: dict, session_id: Optional[str] = None
    ) -> tuple[Optional[str], float, bool, bool, dict]:
        self.session_state[session_id] += 1
        tries = self.session_state[session_id]
        guess = int(extract_text(action))
        if guess == metadata["number"]:
            return None, 1.0, True, False, {"tries": tries}
        return "Higher." if guess < metadata["number"] else "Lower.", -0.25, False, tries == 3, {"tries": tries}


if __name__ == "__main__":
    GuessEnv.run_webserver()
'''
MODEL = """
class Counting(SimpleResponsesAPIModel):
    config: BaseResponsesAPIModelConfig
    async def responses(self, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        turns = sum(getattr(item, "role", "") == "assistant" for item in body.input)
        text = NeMoGymResponseOutputText(text=str(turns + 1))
        item = NeMoGymResponseOutputMessage(content=[text])
        return NeMoGymResponse(id="r", created_at=0, model="m", output=[item])
"""

OWN_AGENT = """
from responses_api_agents.simple_agent.app import SimpleAgent
class Own(SimpleAgent): ...
"""


def turn(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
    return {**RESPONSE, "output": [{**message, "content": [part]}]}


def guess_env() -> Any:
    aliases.install()
    names: dict[str, Any] = {"__name__": "guess"}
    exec(GUESS, names)  # as the field's tests import it
    return names["GuessEnv"]


def test_gymnasium_server_plays_an_episode_on_a_bare_app() -> None:
    client = client_of(server_of(guess_env()).setup_webserver())
    row = {"responses_create_params": {"input": "q"}, "verifier_metadata": {"number": 2}}

    opening = client.post("/reset", json=row).json()
    steps = [client.post("/step", json={"response": turn(text)}).json() for text in "12"]
    result = client.post("/verify", json={**row, "response": turn("2")}).json()

    assert opening == {"observation": "Guess my number.", "info": {"tries": 0}}
    assert steps[0] == {
        "observation": "Higher.",
        "reward": -0.25,
        "terminated": False,
        "truncated": False,
        "info": {"tries": 1},
    }
    assert (steps[1]["observation"], steps[1]["terminated"]) == (None, True)
    assert (result["reward"], result["terminated"], result["info"]) == (0.75, True, {"tries": 2})


def test_gymnasium_server_finds_the_episode_below_a_rollout_prefix() -> None:
    client = client_of(server_of(guess_env()).setup_webserver())

    client.post("/reset", json={"number": 1})
    step = client.post("/ng-rollout/0-0/step", json={"response": turn("1"), "number": 1}).json()

    assert step["reward"] == 1.0


@pytest.mark.parametrize("path", ["/step", "/verify"])
def test_gymnasium_server_refuses_a_session_without_an_episode(path: str) -> None:
    client = client_of(server_of(guess_env()).setup_webserver())
    row = {"responses_create_params": {"input": "q"}, "response": turn("1")}

    assert client.post(path, json=row).status_code == 409


def collect(root: Path, agent: str, number: int = 1) -> None:
    """Collect one rollout with the agent of this folder, after the checks of a collection."""
    for folder, source in (
        ("resources_servers/guess", GUESS),
        ("responses_api_models/counting", HEAD + MODEL),
        ("responses_api_agents/own_agent", OWN_AGENT),
    ):
        (root / folder).mkdir(parents=True)
        (root / folder / "app.py").write_text(source)
    references = {
        "resources_server": {"type": "resources_servers", "name": "guess"},
        "model_server": {"type": "responses_api_models", "name": "counting"},
    }
    tree = {
        "guess": {"resources_servers": {"guess": {"entrypoint": "app.py"}}},
        "counting": {"responses_api_models": {"counting": {"entrypoint": "app.py"}}},
        "player": {"responses_api_agents": {agent: {"entrypoint": "app.py", **references}}},
    }
    inputs, output = root / "tasks.jsonl", root / "run.jsonl"
    inputs.write_text(json.dumps({"responses_create_params": {"input": "q"}, "number": number}))
    settings = CollectSettings(
        inputs=(InputFile(inputs),),
        output_jsonl_fpath=output,
        agent_name="player",
        disable_aggregation=True,
    )

    async def run() -> None:
        config = load_config(extra=tree, cwd=root, use_env_yaml=False)
        async with asyncio.timeout(30), Fleet(config) as fleet:
            ready = rollouts.prepare(settings, agents={"player"}, semantics={}, version="1")
            routes = map(rollouts.AgentRoute.of, config.instances_of("responses_api_agents"))
            await rollouts.check_rows(ready, fleet.client, routes)
            await rollouts.run(ready, settings, fleet.client)

    asyncio.run(run())


def rows_in(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_simple_agent_before_a_gymnasium_server_is_refused_before_the_first_rollout(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError, match="gymnasium_agent in place of simple_agent") as refusal:
        collect(tmp_path, "simple_agent")

    assert refusal.value.cause is KnownCause.NO_EPISODE


def test_an_own_agent_that_begins_no_episode_has_nothing_to_verify_again(tmp_path: Path) -> None:
    collect(tmp_path, "own_agent")

    [failure] = rows_in(tmp_path / "run_failures.jsonl")
    assert failure["_ng_failure_class"] == "environment_error"
    assert failure["cause"] == KnownCause.NO_EPISODE
    assert "gymnasium_agent" in failure["hint"]
    assert "reverify" not in failure["hint"]
    assert failure.get("response") is None


@pytest.mark.parametrize("number", [1, 3, 9])
def test_gymnasium_agent_plays_a_folder_of_the_field_in_a_fleet(
    number: int, tmp_path: Path
) -> None:
    collect(tmp_path, "gymnasium_agent", number)

    [row] = rows_in(tmp_path / "run.jsonl")
    tries = min(number, 3)
    is_right = number <= 3
    assert row["info"] == {"tries": tries}
    assert row["reward"] == (1.0 - 0.25 * (tries - 1) if is_right else -0.75)
    assert (row["terminated"], row["truncated"]) == (is_right, not is_right)


def test_resources_servers_gymnasium_of_a_project_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "resources_servers" / "gymnasium"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("class GymnasiumServer: ...\n")
    code = (
        "from palestra.compat.aliases import install; install()\n"
        "from resources_servers.gymnasium import GymnasiumServer\n"
        "print(GymnasiumServer.__module__)\n"
    )
    import subprocess
    import sys

    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert ended.stdout.split() == ["resources_servers.gymnasium"]


def test_resources_servers_gymnasium_has_the_names_that_folders_of_the_field_import() -> None:
    aliases.install()
    names: dict[str, Any] = {}

    exec(
        "from resources_servers.gymnasium import (EnvResetRequest, EnvResetResponse, EnvStepRequest, "
        "EnvStepResponse, GymnasiumServer, extract_text)",
        names,
    )

    assert list(names["EnvResetResponse"].model_fields) == ["observation", "info"]
    assert list(names["EnvStepResponse"].model_fields) == [
        "observation",
        "reward",
        "terminated",
        "truncated",
        "info",
    ]
