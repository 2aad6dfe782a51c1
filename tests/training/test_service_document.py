"""The programs of docs/topics/rollout-service.md run, with stand-ins for trainers' classes."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from contract_world import client_of, service_over
from outcome_samples import completed
from training_world import ToldAgent, answer, request, requests, said

from palestra.training import Completed, Group, RolloutClient

pytestmark = pytest.mark.anyio
DOCUMENT = Path(__file__).resolve().parents[2] / "docs/topics/rollout-service.md"
ROW = {"responses_create_params": {"input": "1 + 1 ="}}


def program(heading: str, **names: Any) -> dict[str, Any]:
    """The names that the program under a heading makes."""
    pattern = rf"^## {heading}\n\n```python\n(.*?)^```$"
    found = re.search(pattern, DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    exec(compile(found[1], str(DOCUMENT), "exec"), names)
    return names


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """A module of a trainer that is not installed here, with its parents."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:count]), ModuleType(parts[0]))
    vars(sys.modules[name]).update(members)


def conversation(key: Any, attempt: int) -> dict[str, Any]:
    return answer(0.5, said((1, 2), (3, 4), (-0.1, -0.2)))


def the_client(client: RolloutClient) -> Any:
    async def entered() -> RolloutClient:
        return client

    return entered


async def outcomes_of(count: int) -> list[Any]:
    async with client_of(ToldAgent(conversation)) as client:
        return await client.submit(requests(1, count)).gather()


async def test_a_trainer_of_ones_own_trains_over_http() -> None:
    trained: list[list[float]] = []
    async with service_over(client_of(ToldAgent(lambda *_: 1.0))) as url:
        names = program("Your own trainer")
        await names["train"](url, [ROW, ROW], lambda _, rewards: trained.append(rewards))

    assert trained == [[1.0] * 4] * 6


async def test_a_program_with_curl_takes_groups(tmp_path: Path) -> None:
    shown = re.search(r"^```sh\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    assert shown is not None
    asked = [{"row": ROW, "task_id": 0, "rollout_index": index} for index in range(2)]
    (tmp_path / "batch.json").write_text(json.dumps({"requests": asked}))
    async with service_over(client_of(ToldAgent(lambda *_: 1.0)), token="right") as url:
        names = os.environ | {"SERVICE": url, "PALESTRA_ROLLOUTS_TOKEN": "right"}
        shell = await asyncio.create_subprocess_exec(
            "sh", "-e", "-c", shown[1], cwd=tmp_path, env=names
        )
        status = await asyncio.wait_for(shell.wait(), 30)

    group, end = map(json.loads, (tmp_path / "groups.jsonl").read_text().splitlines())
    assert (status, end["outcome"]) == (0, "stream_end")
    assert [member["reward"] for member in group["outcomes"]] == [1.0, 1.0]


async def test_several_fleets_are_trained_on_as_shown() -> None:
    agents = [ToldAgent(lambda *_: 1.0) for _ in range(2)]
    trained: list[list[float]] = []
    async with service_over(client_of(agents[0])) as one, service_over(client_of(agents[1])) as two:
        hosts = [url.removeprefix("http://") for url in (one, two)]
        train_on_all = program("Several fleets")["train_on_all"]
        await train_on_all(hosts, requests(4, 4), lambda _, rewards: trained.append(rewards))

    assert trained == [[1.0] * 4] * 4
    assert all(agent.begun for agent in agents)


async def test_verifiers_and_prime_rl_get_their_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "prime_rl.transport.types", TrainingExample=SimpleNamespace)
    names = program("prime-rl and verifiers")
    async with client_of(ToldAgent(conversation)) as client:
        outputs = await names["step"](client, [ROW, ROW], 2)
    group = Group(0, await outcomes_of(2))

    assert outputs["reward"] == [0.5] * 4
    assert outputs["example_id"] == [0, 0, 1, 1]
    assert outputs["prompt"][0] == [{"role": "user", "content": "q"}]
    assert outputs["completion"][0][0]["content"] == "hello"
    assert outputs["state"][0]["trajectory"][0]["tokens"]["completion_ids"] == [3, 4]
    example = names["packed"](group)[0]
    assert (example.prompt_ids, example.completion_ids) == ([1, 2], [3, 4])
    assert (example.completion_mask, example.advantage) == ([1, 1], 0.0)


async def test_openrlhf_gets_what_its_executor_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "openrlhf.utils.agent", AgentExecutorBase=object)
    async with client_of(ToldAgent(conversation)) as client:
        executor = program("OpenRLHF", the_client=the_client(client))["AgentExecutor"]()
        sampling = SimpleNamespace(temperature=0.7, top_p=1.0, top_k=-1, max_tokens=9)
        found = await executor.execute("1 + 1 =", json.dumps(ROW), sampling, 100, None, None)

    assert found["observation_tokens"] == [1, 2, 3, 4]
    assert found["action_ranges"] == [(2, 4)]
    assert found["rollout_log_probs"] == [0.0, 0.0, -0.1, -0.2]
    assert found["reward"] == 0.5


async def test_slimes_sample_is_filled_in() -> None:
    status = SimpleNamespace(TRUNCATED="truncated", COMPLETED="completed")
    sample = SimpleNamespace(group_index=3, index=7, metadata={"row": ROW}, Status=status)
    async with client_of(ToldAgent(conversation)) as client:
        generate = program("slime", the_client=the_client(client))["generate"]
        found = await generate(None, sample, {"temperature": 1.0})

    assert (found.tokens, found.response_length) == ([1, 2, 3, 4], 2)
    assert (found.loss_mask, found.rollout_log_probs) == ([1, 1], [-0.1, -0.2])
    assert (found.reward, found.status) == (0.5, "completed")


async def test_tinkers_data_are_shifted_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model_input = SimpleNamespace(from_ints=list)
    types = SimpleNamespace(Datum=SimpleNamespace, ModelInput=model_input)
    stand_in(monkeypatch, "tinker", types=types)
    trained: list[Any] = []

    async def forward_backward(data: Any, loss_fn: str) -> None:
        trained.extend(data)
        assert loss_fn == "importance_sampling"

    masked = completed(rollout=2, reward=1.0, masked=True)
    group = Group(0, [completed(reward=1.0), completed(rollout=1, reward=0.0), masked])
    client = SimpleNamespace(forward_backward_async=forward_backward)
    await program("Tinker")["learn"](client, group)

    assert len(trained) == 2
    first = trained[0]
    assert first.model_input == [1, 2, 3, 4, 5, 6, 7]
    assert first.loss_fn_inputs["target_tokens"] == [2, 3, 4, 5, 6, 7, 8]
    assert first.loss_fn_inputs["advantages"] == [0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.5]


def test_arts_trajectories_have_choices_for_what_was_sampled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    openai = pytest.importorskip("openai.types.chat.chat_completion")
    stand_in(monkeypatch, "art", Trajectory=SimpleNamespace, TrajectoryGroup=list)
    groups_for = program("ART")["groups_for"]

    ((found,),) = groups_for([Group(0, asyncio.run(outcomes_of(1)))])

    first, second = found.messages_and_choices
    assert (first["role"], found.reward) == ("user", 0.5)
    assert isinstance(second, openai.Choice)
    assert second.message.content == "hello"
    assert second.model_extra == {"prompt_token_ids": [1, 2], "token_ids": [3, 4]}
    assert [token.logprob for token in second.logprobs.content] == [-0.1, -0.2]


async def test_what_an_environment_of_verifiers_cannot_read_is_named() -> None:
    from palestra.errors import InputDataError
    from palestra.training.adapters.verifiers import PalestraEnvironment

    async with client_of(ToldAgent(conversation)) as client:
        with pytest.raises(InputDataError, match=r"inputs\[0\].info"):
            await PalestraEnvironment(client).generate([{"example_id": 0}])


async def test_the_sync_client_may_be_one_of_a_service() -> None:
    """`SyncRolloutClient` runs on a loop of its own, as it does for a fleet."""
    from palestra.training import RemoteRolloutClient, SyncRolloutClient

    async with service_over(client_of(ToldAgent(lambda *_: 1.0))) as url:

        def train() -> list[Any]:
            with SyncRolloutClient(lambda: RemoteRolloutClient(url)) as client:
                client.set_weight_version(1)
                return client.submit([request()]).gather()

        (outcome,) = await asyncio.to_thread(train)

    assert isinstance(outcome, Completed)
    assert outcome.weights_start == 1
