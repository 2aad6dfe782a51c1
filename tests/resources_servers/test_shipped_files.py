"""What every environment ships: configs, five example rows, a README."""

from typing import Any

import pytest
import yaml
from verifying import ENVIRONMENTS, example_rows

from palestra.fleet import load_server_class
from palestra.schema import ResponseCreateParams

# `environment_file` is not here: it serves other people's environments and has no config.
NAMES = sorted(path.parent.name for path in ENVIRONMENTS.glob("*/configs"))

every_environment = pytest.mark.parametrize("name", NAMES)


def config_of(name: str) -> dict[str, Any]:
    return yaml.safe_load((ENVIRONMENTS / name / "configs" / f"{name}.yaml").read_text())


def environments(name: str) -> dict[str, Any]:
    """The resources servers of the config, by instance."""
    return {key: one for key, one in config_of(name).items() if "resources_servers" in one}


@every_environment
def test_the_entrypoint_defines_one_server_class(name: str) -> None:
    (environment,) = environments(name).values()
    settings = environment["resources_servers"][name]

    server_class = load_server_class(ENVIRONMENTS / name / settings["entrypoint"])

    assert server_class.__name__.endswith("Server")


@every_environment
def test_the_config_binds_an_agent_to_the_environment_and_the_policy(name: str) -> None:
    instances = config_of(name).values()
    (agents,) = [found for one in instances if (found := one.get("responses_api_agents"))]
    (agent,) = agents.values()

    (environment,) = environments(name)

    assert agent["resources_server"] == {"type": "resources_servers", "name": environment}
    assert agent["model_server"] == {"type": "responses_api_models", "name": "policy_model"}
    (example,) = [one for one in agent["datasets"] if one["type"] == "example"]
    assert (ENVIRONMENTS.parent / example["jsonl_fpath"]).exists()


@every_environment
def test_five_example_rows_are_shipped(name: str) -> None:
    rows = example_rows(name)

    assert len(rows) == 5
    assert all(ResponseCreateParams.model_validate(row["responses_create_params"]) for row in rows)


@every_environment
def test_there_is_a_readme_and_data_made_for_training_is_ignored(name: str) -> None:
    assert (ENVIRONMENTS / name / "README.md").read_text().startswith(f"# {name}\n")
    assert "*train.jsonl" in (ENVIRONMENTS / name / "data" / ".gitignore").read_text()
