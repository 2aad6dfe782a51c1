"""`nemo_gym.base_responses_api_agent`: capture prefixes, routes, settings and metrics of agents."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import orjson
import pytest
from bare_apps import RESPONSE, client_of, server_of
from fastapi import Body, Request
from hosted_apps import run
from omegaconf import OmegaConf
from pydantic import ConfigDict

from palestra.compat.nemo_gym import base_responses_api_agent
from palestra.compat.nemo_gym.base_responses_api_agent import (
    AggregateMetricsRequest,
    BaseResponsesAPIAgentConfig,
    BaseRunRequest,
    NeMoGymResponse,
    NeMoGymResponseCreateParamsNonStreaming,
    SimpleResponsesAPIAgent,
)
from palestra.compat.nemo_gym.rollout_correlation import current_rollout_id
from palestra.compat.nemo_gym.server_utils import ServerClient
from palestra.fleet import Fleet

OBSERVED = {"observability_enabled": True}
TOKENS = {"token_id_capture": {"enabled": True}}
TOKENS_OF_ALL = {"token_id_capture": {"enabled": True, "all_agents": True}}
BODY = {"_ng_task_index": 4, "_ng_rollout_index": 1}


class Row(BaseRunRequest):
    model_config = ConfigDict(extra="allow")


class Agent(SimpleResponsesAPIAgent):
    config: BaseResponsesAPIAgentConfig

    async def responses(
        self,
        request: Request,
        body: NeMoGymResponseCreateParamsNonStreaming = Body(),  # noqa: B008 - as authors write it
    ) -> NeMoGymResponse:
        path = self.url_path_for_request("/v1/responses", request)
        said = [path, request.path_params.get("rollout_id"), current_rollout_id()]
        return NeMoGymResponse(**RESPONSE | {"id": orjson.dumps(said).decode()})

    async def run(self, body: Row) -> dict[str, Any]:
        return {"rollout": current_rollout_id()}


@pytest.mark.parametrize(
    ("tree", "settings", "prefix"),
    [
        ({}, {}, ""),
        ({"observability_enabled": False}, {}, ""),
        (OBSERVED, {}, "/ng-rollout/4-1"),
        (TOKENS, {}, ""),
        (TOKENS, {"token_id_capture": True}, "/ng-rollout/4-1/training-token-capture"),
        (TOKENS_OF_ALL, {}, "/ng-rollout/4-1/training-token-capture"),
        ({"token_id_capture": {"all_agents": True}}, {"token_id_capture": True}, ""),
        (OBSERVED | TOKENS, {}, "/ng-rollout/4-1"),
    ],
)
@pytest.mark.parametrize("make", [dict, OmegaConf.create])
def test_rollout_id_from_run_url_path_for_run_and_base_url_for_run_follow_the_capture_settings(
    make: Any, tree: dict[str, Any], settings: dict[str, Any], prefix: str
) -> None:
    agent = server_of(Agent, tree=make(tree), **settings)

    assert agent.rollout_id_from_run(BODY) == ("4-1" if prefix else None)
    assert agent.url_path_for_run("/v1/responses", BODY) == f"{prefix}/v1/responses"
    expected = f"http://h:1{prefix}" if prefix else "http://h:1/"
    assert agent.base_url_for_run("http://h:1/", BODY) == expected


@pytest.mark.parametrize(
    ("tree", "calls", "tokens"),
    [({}, False, False), (OBSERVED, True, False), (TOKENS_OF_ALL, False, True)],
)
def test_capture_is_enabled_by_the_configuration_alone(
    tree: dict[str, Any], calls: bool, tokens: bool
) -> None:
    agent = server_of(Agent, tree=tree)

    assert agent._model_call_capture_enabled() is calls
    assert agent._token_id_capture_enabled() is tokens


def test_rollout_id_from_run_is_none_for_a_mock_as_configuration() -> None:
    agent = server_of(Agent)
    assert agent.url_path_for_run("/v1/responses", BODY) == "/v1/responses"
    agent.server_client = MagicMock()
    assert agent.rollout_id_from_run(BODY) is None


@pytest.mark.parametrize(
    "request_",
    [
        None,
        MagicMock(),
        SimpleNamespace(path_params={}),
        SimpleNamespace(path_params={"rollout_id": MagicMock()}),
    ],
)
def test_url_path_for_request_is_unchanged_without_a_rollout_in_the_path(request_: Any) -> None:
    assert server_of(Agent).url_path_for_request("/verify", request_) == "/verify"


def test_resolve_model_base_url_reads_the_instance_from_the_module_when_called() -> None:
    agent = server_of(Agent, tree=TOKENS_OF_ALL)
    settings = OmegaConf.create({"host": "h", "port": 5})
    agent.server_client._build_server_base_url = ServerClient._build_server_base_url.__get__(agent)
    found = patch.object(
        base_responses_api_agent, "get_first_server_config_dict", return_value=settings
    )

    with found as asked:
        plain = agent.resolve_model_base_url("policy")
        captured = agent.resolve_model_base_url("policy", "4-1")

    assert plain == "http://h:5/v1"
    assert captured == "http://h:5/ng-rollout/4-1/training-token-capture/v1"
    assert asked.call_args.args[1] == "policy"
    with patch.object(Agent, "resolve_model_base_url", return_value="x"):
        assert agent.resolve_model_base_url("policy") == "x"


PREFIXES = ["", "/ng-rollout/4-1", "/ng-rollout/4-1/training-token-capture"]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_setup_webserver_serves_responses_below_the_prefix_with_the_rollout_id(
    prefix: str,
) -> None:
    client = client_of(server_of(Agent).setup_webserver())

    answer = client.post(f"{prefix}/v1/responses", json={"input": "q"}).json()

    rollout = "4-1" if prefix else None
    assert orjson.loads(answer["id"]) == [f"{prefix}/v1/responses", rollout, rollout]


AGENT = """
from nemo_gym.rollout_correlation import current_rollout_id

class Told(SimpleResponsesAPIAgent):
    config: BaseResponsesAPIAgentConfig
    async def responses(self, request: Request, body: NeMoGymResponseCreateParamsNonStreaming = Body()) -> NeMoGymResponse:
        path = self.url_path_for_request("/v1/responses", request)
        said = f"{path} {request.path_params.get('rollout_id')} {current_rollout_id()}"
        return NeMoGymResponse(id=said, created_at=0, model="m", output=[])
    async def run(self, body: BaseRunRequest) -> dict:
        return {"skip": self.config.skip_verification, "reward": self.config.skip_verification_reward,
                "tokens": self.config.token_id_capture}
"""


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_handler_of_a_hosted_agent_finds_the_rollout_id_as_on_a_bare_app(
    prefix: str, tmp_path: Path
) -> None:
    async def check(fleet: Fleet) -> None:
        reply = await fleet.client.post("told", f"{prefix}/v1/responses", json={"input": "q"})
        rollout = "4-1" if prefix else None
        assert (await reply.json())["id"] == f"{prefix}/v1/responses {rollout} {rollout}"

    run(tmp_path, {"responses_api_agents/told": AGENT}, check)


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({}, {"skip": True, "reward": 0.5, "tokens": False}),
        (
            {"skip_verification": False, "skip_verification_reward": 0.25},
            {"skip": False, "reward": 0.25, "tokens": False},
        ),
    ],
)
def test_top_level_keys_fill_the_settings_that_an_agent_does_not_set(
    settings: dict[str, Any], fields: dict[str, Any], tmp_path: Path
) -> None:
    async def check(fleet: Fleet) -> None:
        row = {"responses_create_params": {"input": "q"}}
        reply = await fleet.client.post("told", "/run", json=row)
        assert await reply.json() == fields

    top_level = {"skip_verification": True, "skip_verification_reward": 0.5}
    apps = {"responses_api_agents/told": AGENT}
    run(tmp_path, apps, check, settings, top_level=top_level)


def test_the_settings_of_an_agent_verify_and_capture_no_tokens_by_default() -> None:
    config = BaseResponsesAPIAgentConfig(name="a")

    assert (config.skip_verification, config.skip_verification_reward) == (False, 0.0)
    assert config.token_id_capture is False


def test_run_has_the_rollout_of_its_body_as_the_current_one() -> None:
    client = client_of(server_of(Agent).setup_webserver())
    row = {"responses_create_params": {"input": "q"}, **BODY, "_ng_attempt_index": 1}

    assert client.post("/run", json=row).json() == {"rollout": "4-1-a1"}


def test_aggregate_metrics_are_empty_with_a_warning_when_verification_is_skipped() -> None:
    agent = server_of(Agent, skip_verification=True)
    rows = AggregateMetricsRequest(verify_responses=[{"reward": 1.0}])

    with pytest.warns(RuntimeWarning, match="skip"):
        metrics = asyncio.run(agent.aggregate_metrics(rows))

    assert metrics.model_dump() == {
        "group_level_metrics": [],
        "agent_metrics": {},
        "key_metrics": {},
    }
