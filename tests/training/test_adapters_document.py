"""What docs/topics/training*.md show is true: their programs run, with stand-ins for trainers."""

import asyncio
import json
import pkgutil
import re
import sys
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from outcome_samples import completed
from token_endpoint import token_endpoint
from training_world import ToldAgent, ToldServers

import palestra
from palestra.errors import ConfigError, InputDataError
from palestra.training import RolloutClient
from palestra.training.adapters import verl_loop
from palestra.training.adapters.skyrl import PalestraGenerator
from palestra.training.adapters.verl import run_row

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "topics" / "training-adapters.md"
CONTRACT = DOCUMENT.with_name("training.md")
PACKAGE = Path(palestra.__file__).parent
ROW = {"responses_create_params": {"input": "1 + 1 ="}}


def shown(trainer: str, number: int = 0, language: str = "python") -> str:
    """A program under a heading; `number`: its place among those of its language."""
    (section,) = re.findall(
        rf"^## {trainer}\n(.*?)(?=^## |\Z)", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL
    )
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return str(blocks[number])


class OneOutcome:
    """A client whose every submission ends with the same outcome."""

    @asynccontextmanager
    async def submit(self, requests: Any) -> Any:
        asked = list(requests)

        async def gather() -> Any:
            return [completed()] * len(asked)

        yield SimpleNamespace(gather=gather)


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    """A module of a trainer that is not installed here, with its parents."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:count]), ModuleType(parts[0]))
    vars(sys.modules[name]).update(members)


def run(program: str, **given: Any) -> dict[str, Any]:
    names = dict(given)
    exec(compile(program, str(DOCUMENT), "exec"), names)
    return names


def contract() -> dict[str, Any]:
    """The names of the first program of the contract's page."""
    program = re.search(r"^```python\n(.*?)^```$", CONTRACT.read_text(), re.MULTILINE | re.DOTALL)
    assert program is not None
    return run(program[1])


def test_an_epoch_runs_as_the_contracts_page_shows() -> None:
    trained: list[Any] = []

    async def train() -> None:
        agent = ToldAgent(lambda *_: 1.0)
        async with RolloutClient(nullcontext(ToldServers(agent))) as client:
            await contract()["epoch"](client, [ROW, ROW], lambda *given: trained.append(given))

    asyncio.run(train())

    assert len(trained) == 16
    assert all(reward == 1.0 and rewards == [1.0] * 8 for _, reward, rewards in trained)
    assert trained[0][0].ids == [1, 2, 3]


@pytest.mark.slow
def test_the_contracts_page_trains_on_the_stock_configuration() -> None:
    names = contract()
    line = (PACKAGE / "resources_servers/mcqa/data/example.jsonl").read_text().splitlines()[0]
    trained: list[Any] = []
    with token_endpoint() as url:
        overrides = [f"policy_base_url={url}", *names["OVERRIDES"][1:]]
        asyncio.run(
            names["train"](
                [json.loads(line)], lambda *args: trained.append(args), overrides=overrides
            )
        )

    assert len(trained) == 8
    assert all(flat.ids and any(flat.loss_mask) for flat, _, _ in trained)


class VerlsBase:
    """What verl's `AgentLoopBase` sets for a loop."""

    def __init__(self, trainer_config: Any, server_manager: Any, **_: Any) -> None:
        del server_manager
        self.tokenizer = SimpleNamespace(pad_token_id=9)
        self.rollout_config = trainer_config


def with_verl(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        monkeypatch,
        "verl.experimental.agent_loop.agent_loop",
        AgentLoopBase=VerlsBase,
        AgentLoopOutput=dict,
        register=lambda _: lambda loop: loop,
    )


def test_verls_loop_of_ones_own_returns_what_a_rollout_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with_verl(monkeypatch)
    loop_class = run(shown("verl"), client=OneOutcome())["MyLoop"]
    loop = loop_class(SimpleNamespace(response_length=4), None)

    output = asyncio.run(loop.run({"temperature": 1.0}, row=ROW, multi_modal_data={"images": []}))

    assert output["response_ids"] == [4, 5, 6, 7]
    assert output["reward_score"] == 1.0
    assert output["multi_modal_data"] == {"images": []}


@pytest.mark.slow
def test_verls_loop_runs_as_its_configuration_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with_verl(monkeypatch)
    (entry,) = yaml.safe_load(shown("verl", language="yaml"))
    data = PACKAGE / "resources_servers/mcqa/data/example.jsonl"
    row = data.read_text().splitlines()[2]

    async def sample(url: str) -> Any:
        # As Hydra does: the target by its path, made for each sample with what verl and the file say.
        target = pkgutil.resolve_name(entry["_target_"].replace(".PalestraLoop", ":PalestraLoop"))
        options = {
            "config_paths": [
                "resources_servers/mcqa/configs/mcqa.yaml",
                "responses_api_models/vllm_model/configs/vllm_model.yaml",
            ],
            "overrides": [f"policy_base_url={url}", *contract()["OVERRIDES"][1:]],
            "placement": "embedded",
        }
        assert {*options} >= {*entry} - {"name", "_target_"}
        loops = [target(SimpleNamespace(response_length=9), None, **options) for _ in range(2)]
        try:
            return await asyncio.gather(*(loop.run({}, row=row) for loop in loops))
        finally:
            # It would end with verl's process.
            client = await verl_loop.shared_client(
                tuple(options["config_paths"]), tuple(options["overrides"]), options["placement"]
            ).entered()
            await client.__aexit__(None, None, None)

    with token_endpoint() as url:
        outputs = asyncio.run(sample(url))

    assert [output["response_ids"] for output in outputs] == [[4, 5], [4, 5]]
    assert [output["reward_score"] for output in outputs] == [1.0, 1.0]


def test_verls_loop_without_verl_says_what_is_missing() -> None:
    with pytest.raises(ConfigError, match="verl is not installed"):
        verl_loop.PalestraLoop  # noqa: B018 - it is made when it is asked for


def test_verl_trains_on_no_task_whose_images_are_missing() -> None:
    part = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    task = {"responses_create_params": {"input": [{"role": "user", "content": [part]}]}}

    with pytest.raises(InputDataError, match="images"):
        asyncio.run(run_row(OneOutcome(), task, {}, pad_id=9))


def test_skyrls_generator_is_called_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    names = run(shown("SkyRL"), config=None, tokenizer=SimpleNamespace(pad_token_id=9))
    assert names["PalestraGenerator"] is PalestraGenerator
    generator = PalestraGenerator(OneOutcome(), pad_id=9)

    found = asyncio.run(generator.generate({"prompts": ["-"], "env_extras": [{"row": ROW}]}))

    assert found["rewards"] == [1.0]
    assert found["loss_masks"] == [[1, 1, 0, 0, 1]]


def test_nemo_rls_batch_is_made_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "torch", tensor=tuple)
    stand_in(monkeypatch, "nemo_rl.distributed.batched_data_dict", BatchedDataDict=dict)
    names = run(shown("NeMo RL", 1), tokenizer=SimpleNamespace(pad_token_id=9))

    asked = {"loss_multiplier": [1.0, 0.5]}
    batch = asyncio.run(names["collect"](OneOutcome(), ["one", "two"], asked))

    assert batch["total_reward"] == (1.0, 1.0)
    assert batch["loss_multiplier"] == (1.0, 0.5)
    assert batch["message_log"][0][1]["token_ids"] == (4, 5)


def test_nemo_rls_environment_is_started_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from palestra.training.adapters import nemo_rl_environment, ray

    happened: list[Any] = []
    monkeypatch.setattr(nemo_rl_environment, "start_actor", lambda *given, **_: given)
    monkeypatch.setattr(ray, "stop_actor", happened.append)

    run(
        shown("NeMo RL"),
        model_name="policy",
        base_urls=["http://127.0.0.1:1/v1"],
        master_config={"env": {"nemo_gym": {"config_paths": []}}},
        train=lambda task_to_env: happened.append(task_to_env["nemo_gym"]),
    )

    started, stopped = happened
    assert started == stopped
    assert started[0].args[0]["model_name"] == "policy"


def test_rays_loop_runs_as_shown_and_stops_its_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    from palestra.training.adapters import ray

    happened: list[Any] = []
    monkeypatch.setattr(ray, "start_actor", lambda *_, **__: "actor")
    monkeypatch.setattr(ray, "stop_actor", happened.append)
    landed = [ray.Landed(0, completed(), None)]
    monkeypatch.setattr(ray, "rollouts", lambda *_: iter(landed))

    run(
        shown("Ray"),
        config_paths=[],
        rows=[ROW],
        learn_from=lambda row, outcome: happened.append((row, outcome.reward)),
    )

    assert happened == [(ROW, 1.0), "actor"]


def test_trls_trainer_gets_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    import palestra.training

    made: dict[str, Any] = {}

    class Trainer:
        def __init__(self, *given: Any, **named: Any) -> None:
            made.update(named, given=given)

        def train(self) -> None:
            made["trained"] = True

    stand_in(monkeypatch, "datasets", Dataset=SimpleNamespace(from_list=list))
    stand_in(monkeypatch, "trl", GRPOTrainer=Trainer, GRPOConfig=str)
    monkeypatch.setattr(palestra.training, "SyncRolloutClient", lambda _: nullcontext("client"))

    run(shown("TRL"), model="m", tokenizer="t", rows=[ROW], push=None, config=None)

    assert made["trained"]
    assert made["given"][3][0]["prompt"][-1]["palestra_row"] == 0
    assert callable(made["rollout_func"])
