"""`nemo_gym.benchmarks`: what the config of a benchmark says about its dataset."""

from pathlib import Path
from typing import Any, Self

from omegaconf import OmegaConf
from pydantic import BaseModel

from palestra.compat.nemo_gym.config_types import BenchmarkDatasetConfig
from palestra.compat.nemo_gym.global_config import (
    GlobalConfigDictParser,
    GlobalConfigDictParserConfig,
)
from palestra.compat.project import around, resolve
from palestra.config import names_in_files

_AGENTS = "responses_api_agents"


class BenchmarkConfig(BaseModel):
    """A benchmark: its dataset, and the agent that runs it."""

    name: str
    path: Path
    """The benchmark's config file."""
    agent_name: str
    """The name of the agent instance that has the dataset."""
    num_repeats: int
    dataset: BenchmarkDatasetConfig

    @classmethod
    def from_config_path(cls, path: str | Path, *, strict: bool = True) -> Self | None:
        """Return the benchmark of the config file `path`; None when no agent has a dataset of type
        benchmark.

        `strict=False` accepts settings without a value. A config without a model gets one that
        cannot be started. Raises AssertionError: there are several such datasets. ConfigError: the
        config is wrong.
        """
        datasets = [
            (agent, dataset)
            for agent, settings in _agents(Path(path), strict=strict).items()
            for dataset in settings.get("datasets") or ()
            if dataset.get("type") == "benchmark"
        ]
        names = ", ".join(f"{dataset.get('name')} of {agent}" for agent, dataset in datasets)
        if len(datasets) > 1:
            raise AssertionError(
                f"{path} has {len(datasets)} datasets of type benchmark, and can have one: {names}"
            )
        if not datasets:
            return None
        [(agent, fields)] = datasets
        # A setting without a value is an empty text, which is no number.
        set_fields = {key: value for key, value in fields.items() if value != "" or key == "name"}
        dataset = BenchmarkDatasetConfig.model_validate(set_fields)
        return cls(
            name=dataset.name,
            path=Path(path),
            agent_name=agent,
            num_repeats=dataset.num_repeats,
            dataset=dataset,
        )


def _agents(path: Path, *, strict: bool) -> dict[str, dict[str, Any]]:
    """Return the settings of each agent instance of the config file `path`."""
    model = GlobalConfigDictParserConfig.NO_MODEL_GLOBAL_CONFIG_DICT
    names = names_in_files(config_paths=[str(resolve(path))], cwd=around(), use_env_yaml=False)
    options = GlobalConfigDictParserConfig(
        initial_global_config_dict={
            "config_paths": [str(path)],
            **({} if "policy_model" in names else OmegaConf.to_container(model)),  # type: ignore[dict-item]
        },
        skip_load_from_cli=True,
        skip_load_from_dotenv=True,
        offline=True,
    )
    parser = GlobalConfigDictParser()
    config: Any = OmegaConf.to_container(
        parser.parse(options) if strict else parser.parse_incomplete(options)
    )
    return {
        name: next(iter(block[_AGENTS].values()))
        for name, block in config.items()
        if isinstance(block, dict) and _AGENTS in block
    }
