"""What NeMo Gym's FAQ tells its users to type about datasets, on an installed wheel."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_world import World

from hub_fakes import WRITER, FakeHub, fake_hub
from palestra.config import PACKAGE_ROOT
from registry_fakes import TOKEN, mlflow_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(200), pytest.mark.usefixtures("installed")]
PATIENT_S = 150
"""The registry's client alone takes seconds to import, and minutes on a busy machine."""

CONFIG_PATHS = (
    "resources_servers/example_multi_step/configs/example_multi_step.yaml,"
    "responses_api_models/openai_model/configs/openai_model.yaml"
)
ROWS = (PACKAGE_ROOT / "resources_servers/example_multi_step/data/example.jsonl").read_bytes()
HUB_REPO = "nvidia/Nemotron-RL-instruction_following"
BLOCK = """
example_multi_step_resources_server:
  resources_servers:
    example_multi_step:
      entrypoint: app.py
      domain: instruction_following
example_multi_step_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server:
        type: resources_servers
        name: example_multi_step_resources_server
      model_server:
        type: responses_api_models
        name: policy_model
      datasets:
      - name: train
        type: train
        license: Apache 2.0
        jsonl_fpath: resources_servers/example_multi_step/data/train.jsonl
        num_repeats: 1
        gitlab_identifier:
          dataset_name: example_multi_step
          version: 0.0.1
          artifact_fpath: train.jsonl
        huggingface_identifier:
          repo_id: nvidia/Nemotron-RL-instruction_following
          artifact_fpath: instruction_following.jsonl
          license: Apache 2.0
        license: Apache 2.0
"""
"""The FAQ's dataset block, with the license as often as there."""


@pytest.fixture
def hub(world: World) -> Iterator[FakeHub]:
    with fake_hub() as hub:
        world.environment["HF_ENDPOINT"] = hub.endpoint
        world.write("env.yaml", f"hf_token: {WRITER}\n")
        yield hub


@pytest.fixture
def registry(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A real MLflow server, whose protocol GitLab's registry speaks, in the world's env.yaml."""
    pytest.importorskip("sqlalchemy", reason="the server is in mlflow, not in mlflow-skinny")
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as uri:
        settings = {"mlflow_tracking_uri": uri, "mlflow_tracking_token": TOKEN}
        world.write("env.yaml", "".join(f"{key}: {value}\n" for key, value in settings.items()))
        yield


def rows_in(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_training_data_come_from_the_hub(world: World, hub: FakeHub) -> None:
    hub.put(HUB_REPO, {"instruction_following.jsonl": ROWS, "if_validation.jsonl": ROWS * 2})

    done = world.run(
        "ng_prepare_data",
        f"+config_paths=[{CONFIG_PATHS}]",
        "+output_dirpath=data/example_multi_step",
        "+mode=train_preparation",
        "+should_download=true",
    )

    assert done.code == 0, done.err
    assert rows_in(world.folder / "data/example_multi_step/train.jsonl") == 5
    assert rows_in(world.folder / "data/example_multi_step/validation.jsonl") == 10


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("registry")
def test_training_data_come_from_gitlab(world: World) -> None:
    dataset = ("+dataset_name=example_multi_step", "+version=0.0.1")
    for name in ("train.jsonl", "validation.jsonl"):
        world.write(name, ROWS.decode())
        up = ("ng_upload_dataset_to_gitlab", *dataset, f"+input_jsonl_fpath={name}")
        assert world.run(*up, timeout_s=PATIENT_S).code == 0

    done = world.run(
        "ng_prepare_data",
        f"+config_paths=[{CONFIG_PATHS}]",
        "+output_dirpath=data/example_multi_step",
        "+mode=train_preparation",
        "+should_download=true",
        "+data_source=gitlab",
        timeout_s=PATIENT_S,
    )

    assert done.code == 0, done.err
    assert rows_in(world.folder / "data/example_multi_step/train.jsonl") == 5
    one = ("ng_download_dataset_from_gitlab", *dataset, "+artifact_fpath=validation.jsonl")
    assert world.run(*one, "+output_fpath=data/one.jsonl", timeout_s=PATIENT_S).code == 0
    assert (world.folder / "data/one.jsonl").read_bytes() == ROWS


def test_the_faqs_dataset_block_is_read_with_a_warning(world: World, hub: FakeHub) -> None:
    hub.put(HUB_REPO, {"instruction_following.jsonl": ROWS})
    world.write("block.yaml", BLOCK)
    model = "responses_api_models/openai_model/configs/openai_model.yaml"

    done = world.run(
        "ng_prepare_data",
        f"+config_paths=[block.yaml,{model}]",
        "+output_dirpath=data/example_multi_step",
        "+mode=train_preparation",
        "+should_download=true",
    )

    assert done.code == 0, done.err
    assert done.err.count("key 'license' is given twice with one value") == 1
    assert rows_in(world.folder / "data/example_multi_step/train.jsonl") == 5


@pytest.mark.parametrize(
    "last", ["        license: Apache 2.0\n", "          license: Apache 2.0\n"]
)
def test_two_licenses_are_an_error(world: World, last: str) -> None:
    before, _, after = BLOCK.rpartition(last)
    world.write("block.yaml", f"{before}{last.replace('Apache 2.0', 'MIT')}{after}")
    model = "responses_api_models/openai_model/configs/openai_model.yaml"

    done = world.run(
        "ng_prepare_data",
        f"+config_paths=[block.yaml,{model}]",
        "+output_dirpath=data",
        "+mode=train_preparation",
    )

    assert "license" in done.refused()


STATISTICS = (
    "Number of examples",
    "Number of tools",
    "Json-dumped number of words (proxy for token count)",
    "Number of turns",
    "Temperature",
    "Unique create params",
    "Unique user messages",
)


def test_the_statistics_themselves_are_printed(world: World) -> None:
    done = world.run(
        "ng_prepare_data",
        f"+config_paths=[{CONFIG_PATHS}]",
        "+output_dirpath=data",
        "+mode=example_validation",
    )

    for statistic in STATISTICS:
        (line,) = [line for line in done.out.splitlines() if statistic in line]
        assert " 5" in line or statistic == "Temperature"


def test_a_conflict_says_in_which_file_it_is(world: World) -> None:
    data = world.folder / "resources_servers/example_multi_step/data"
    data.mkdir(parents=True)
    (data / "example.jsonl").write_bytes(ROWS)
    (data / "example_metrics.json").write_text('{"Number of examples": 4}')

    done = world.run(
        "ng_prepare_data",
        f"+config_paths=[{CONFIG_PATHS}]",
        "+output_dirpath=data",
        "+mode=example_validation",
    )

    refused = done.refused()
    assert str(data / "example_metrics.json") in refused
    assert "Number of examples: 4 is stored, 5 was found" in refused


UPLOAD = (
    "ng_upload_dataset_to_hf",
    "+dataset_name=my_dataset",
    "+input_jsonl_fpath=validation.jsonl",
    "+resource_config_path=resources_servers/example_multi_step/configs/example_multi_step.yaml",
    "+hf_organization=acme",
    "+split=validation",
    "+create_pr=true",
    "+revision=my-branch-name",
)
"""As a pull request, to a branch of its own."""


def test_an_upload_makes_its_branch_and_prints_its_pull_request(world: World, hub: FakeHub) -> None:
    world.write("validation.jsonl", ROWS.decode())

    done = world.run(
        *UPLOAD,
        "+commit_message='Add the validation set'",
        "+commit_description='Rows of example_multi_step'",
    )

    assert done.code == 0, done.err
    ((repo_id, repository),) = hub.repositories.items()
    assert repository.pull_requests == ["Add the validation set"]
    assert repository.pull_request_bases == ["my-branch-name"]
    assert f"Pull Request created: {hub.endpoint}/datasets/{repo_id}/discussions/1" in done.out


def test_a_branch_that_is_there_is_refused_before_anything_is_sent(
    world: World, hub: FakeHub
) -> None:
    world.write("validation.jsonl", ROWS.decode())
    hub.put("acme/Nemotron-RL-agent-my_dataset", {}).revisions["my-branch-name"] = {}

    done = world.run(
        *UPLOAD,
    )

    assert "my-branch-name" in done.refused()
    assert not [line for line in hub.asked if line.startswith(("POST", "PUT"))]


def test_the_old_name_of_an_environment_stays_in_the_hubs_name(world: World, hub: FakeHub) -> None:
    world.write("validation.jsonl", ROWS.decode())

    done = world.run(
        "ng_upload_dataset_to_hf",
        "+input_jsonl_fpath=validation.jsonl",
        "+resource_config_path=resources_servers/multineedle/configs/multineedle.yaml",
        "+hf_organization=acme",
        "+split=validation",
    )

    assert done.code == 0, done.err
    assert list(hub.repositories) == ["acme/Nemotron-RL-agent-multineedle"]


def test_a_hub_that_is_not_there_is_said_at_once_with_the_time_left(world: World) -> None:
    world.environment["HF_ENDPOINT"] = "http://127.0.0.1:9"

    running = world.start(
        "ng_prepare_data",
        f"+config_paths=[{CONFIG_PATHS}]",
        "+output_dirpath=data",
        "+mode=train_preparation",
        "+should_download=true",
    )

    running.until("trying again for 120 s at most")
    assert HUB_REPO in running.text()
    running.interrupt()
    running.ended(timeout_s=20)


def test_a_new_environment_has_the_datasets_of_the_faq(world: World) -> None:
    assert world.run("ng_init_resources_server", "+entrypoint=resources_servers/my_env").code == 0

    config = (world.folder / "resources_servers/my_env/configs/my_env.yaml").read_text()
    assert [line.split()[-1] for line in config.splitlines() if "- name:" in line] == [
        "train",
        "validation",
        "example",
    ]
    prepared = world.run(
        "ng_prepare_data",
        "+config_paths=[resources_servers/my_env/configs/my_env.yaml]",
        "+output_dirpath=data/my_env",
        "+mode=example_validation",
    )
    assert prepared.code == 0, prepared.err
    (metrics,) = (world.folder / "data/my_env").glob("*_metrics.json")
    assert json.loads(metrics.read_text())["Number of examples"] == 5
