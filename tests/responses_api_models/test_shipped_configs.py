"""The configs that come with the servers fit the servers they name."""

from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

import palestra.responses_api_models
from palestra.fleet import load_server_class
from palestra.server import ModelServer
from palestra.transport import HttpClient, ServerClient

FOLDER = Path(palestra.responses_api_models.__file__).parent

POLICY = {
    "policy_base_url": "http://127.0.0.1:8000/v1",
    "policy_api_key": "EMPTY",
    "policy_model_name": "smollm2",
    "policy_provider": "groq",
    "policy_rollouts": "rollouts.jsonl",
}


def settings_of(server: str) -> dict[str, Any]:
    text = OmegaConf.load(FOLDER / server / "configs" / f"{server}.yaml")
    resolved: Any = OmegaConf.to_container(OmegaConf.merge(POLICY, text), resolve=True)
    (settings,) = resolved["policy_model"]["responses_api_models"].values()
    assert isinstance(settings, dict)
    return settings


SERVERS = sorted(path.parent.parent.name for path in FOLDER.glob("*/configs/*.yaml"))


@pytest.mark.parametrize("server", SERVERS)
def test_a_shipped_config_makes_its_server(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "gsk-1")
    settings = settings_of(server)
    made = load_server_class(FOLDER / server / settings.pop("entrypoint"))
    client = ServerClient({}, HttpClient())

    found = made.model_validate(
        {"config": {"name": "policy_model", **settings}, "server_client": client}
    )

    assert isinstance(found, ModelServer)
    assert found.name == "policy_model"


def test_vllm_model_expects_a_reasoning_parser_unless_told_otherwise() -> None:
    assert settings_of("vllm_model")["uses_reasoning_parser"] is True
