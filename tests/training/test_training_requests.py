"""What is asked for is checked whole, before anything of it is queued."""

from pathlib import Path
from typing import Any

import pytest
from training_world import request, requests, trainer

from palestra.config import load_config
from palestra.errors import BadInput, ConfigError, InputDataError
from palestra.fleet import EMBEDDED, Fleet
from palestra.training import ClientSettings, RolloutClient, RolloutRequest

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("priority", "high", "priority is 'high'; it must be a whole number"),
        ("task", None, "task_id is None; it must be a whole number or a text"),
        ("task", 1.5, "task_id is 1.5"),
        ("task", "", "task_id is ''"),
        ("task", True, "task_id is True"),
        ("rollout", -1, "rollout_index is -1; it must be a whole number, at least 0"),
        ("rollout", "0", "rollout_index is '0'"),
        ("seed", "x", "seed is 'x'; it must be a whole number, or None"),
        ("deadline_s", -1, "deadline_s is -1; it must be a finite number of seconds above 0"),
        ("deadline_s", float("nan"), "deadline_s is nan"),
        ("sampling", "hot", "sampling is 'hot'; it must be a mapping"),
        ("group_id", [1], r"group_id is \[1\]"),
    ],
)
async def test_a_request_that_cannot_be_queued_leaves_the_client_as_it_was(
    field: str, value: Any, told: str
) -> None:
    async with trainer(lambda key, attempt: 1.0) as (client, agent, _):
        runs_already = client.submit([request(7)])
        wrong = request(**{"task": 1, field: value})

        with pytest.raises(InputDataError, match=told):
            client.submit([request(2), wrong])

        assert len(await runs_already.gather()) == 1
        assert len(await client.submit(requests(3)).gather()) == 3
        assert len(agent.begun) == 4


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([{"row": {}}], r"requests\[0\] is {'row': {}}"),
        (request(), "requests is RolloutRequest"),
        (None, "requests is None"),
    ],
)
async def test_what_is_no_list_of_requests_is_told_so(asked: Any, told: str) -> None:
    async with trainer(lambda key, attempt: 1.0) as (client, _, _):
        with pytest.raises(InputDataError, match=told):
            client.submit(asked)


@pytest.mark.parametrize("row", [None, "text", {}, {"responses_create_params": None}])
async def test_what_is_no_row_is_told_so(row: Any) -> None:
    wrong = type(request())(row=row, task_id=1)

    async with trainer(lambda key, attempt: 1.0) as (client, _, _):
        with pytest.raises(InputDataError, match="1 of the rollouts asked for cannot be run"):
            client.submit([wrong])


@pytest.mark.parametrize("version", ["7", None, -1, 2.5, True])
async def test_a_version_that_is_none_does_not_become_the_clients(version: Any) -> None:
    async with trainer(lambda key, attempt: 1.0) as (client, _, _):
        with pytest.raises(ConfigError, match="the weight version is"):
            await client.set_weight_version(version)

        await client.set_weight_version(1)
        assert len(await client.submit(requests(2)).gather()) == 2


@pytest.mark.parametrize("keys", ["zz", 3, [(1,)], [None]])
async def test_what_is_no_list_of_keys_cancels_nothing(keys: Any) -> None:
    async with trainer(lambda key, attempt: 1.0) as (client, _, _):
        batch = client.submit(requests(2))
        with pytest.raises(BadInput, match="keys is"):
            batch.cancel(keys)

        assert len(await batch.gather()) == 2


@pytest.mark.parametrize("size", [0, "2", 2.0])
async def test_the_size_of_groups_is_a_whole_number(size: Any) -> None:
    async with trainer(lambda key, attempt: 1.0) as (client, _, _):
        with pytest.raises(ConfigError, match="the size of groups is"):
            await anext(aiter(client.submit(requests(1, 2)).groups(size)))


async def test_a_submission_has_a_deadline_in_the_future() -> None:
    async with trainer(lambda key, attempt: 1.0) as (client, _, _):
        with pytest.raises(ConfigError, match="deadline_s is nan"):
            client.submit(requests(1), deadline_s=float("nan"))


ENVIRONMENT = """
from palestra.schema import SeedSessionRequest, SeedSessionResponse, VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer

class Seed(SeedSessionRequest):
    kind: str

class X(ResourcesServer):
    async def seed_session(self, body: Seed) -> SeedSessionResponse:
        return SeedSessionResponse()

    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        return self.reply(body, 1.0)
"""
FLEET = """
policy_model:
  responses_api_models:
    openai_model: {openai_base_url: "http://127.0.0.1:9/v1", openai_api_key: k, openai_model: m}
x: {resources_servers: {x: {}}}
agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: x}
      model_server: {type: responses_api_models, name: policy_model}
"""


async def test_a_row_that_its_environment_would_reject_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "resources_servers/x"
    folder.mkdir(parents=True)
    (folder / "app.py").write_text(ENVIRONMENT)
    (tmp_path / "fleet.yaml").write_text(FLEET)
    fleet = Fleet(load_config(config_paths=["fleet.yaml"]), default_placement=EMBEDDED)
    good = RolloutRequest(row={**request().row, "kind": "a"}, task_id=1)

    async with RolloutClient(fleet, ClientSettings(memory_reserve=0.0)) as client:
        with pytest.raises(InputDataError, match=r"0.*\"kind\" is a required.*x/seed_session"):
            client.submit([request(0), good])
        assert (await client.health()).queued == 0
        client.submit([good]).cancel()
