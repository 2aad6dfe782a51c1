import json
from pathlib import Path

from nemo_gym.benchmarks import BenchmarkConfig
from nemo_gym.global_config import GlobalConfigDictParser, GlobalConfigDictParserConfig
from nemo_gym.prompt import apply_prompt_to_row, load_prompt_config

from benchmarks.capitals import prepare as capitals

FOLDER = Path(__file__).parents[1]


def test_prepare(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(capitals, "DATA_DIR", tmp_path)
    monkeypatch.setattr(capitals, "OUTPUT_FPATH", tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in capitals.prepare().read_text().splitlines()]
    assert [row["expected_answer"] for row in rows] == ["Paris", "Tokyo"]
    assert not any("responses_create_params" in row for row in rows)


def test_config() -> None:
    config = BenchmarkConfig.from_config_path(FOLDER / "config.yaml")
    assert config.name == "capitals"
    assert config.agent_name == "capitals_simple_agent"
    assert config.num_repeats == 2


def test_config_composes() -> None:
    parsed = GlobalConfigDictParser().parse_no_environment(
        initial_global_config_dict={
            **GlobalConfigDictParserConfig.NO_MODEL_GLOBAL_CONFIG_DICT,
            "config_paths": [str(FOLDER / "config.yaml")],
        }
    )
    agent = parsed["capitals_simple_agent"]["responses_api_agents"]["simple_agent"]
    assert agent["resources_server"]["name"] == "plain_match"


def test_prompt() -> None:
    prompt = load_prompt_config(str(FOLDER / "prompt.yaml"))
    row = apply_prompt_to_row({"country": "Japan", "answer": "Kyoto"}, prompt)
    assert row["responses_create_params"]["input"][-1]["content"].endswith("say Kyoto")
