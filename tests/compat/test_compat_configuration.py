"""`nemo_gym.global_config`, `config_types`, `benchmarks`, `prompt` and `profiling`."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import omegaconf
import pytest
from omegaconf import DictConfig, OmegaConf
from pydantic import ValidationError

from palestra.compat import aliases
from palestra.compat.nemo_gym import global_config
from palestra.datasets import AgentDataset, DatasetEntry, Located, Preparing, prepare_benchmarks
from palestra.errors import ConfigError

CONFIG_DICT = "NEMO_GYM_CONFIG_DICT"

BENCHMARK = """
my_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: my_server}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
      - {name: example, type: example, jsonl_fpath: example.jsonl}
      - name: my_benchmark
        type: benchmark
        jsonl_fpath: data.jsonl
        prepare_script: prepare.py
        num_repeats: 4
my_server:
  resources_servers:
    mcqa: {entrypoint: app.py, domain: math}
"""


def module(name: str) -> Any:
    aliases.install()
    return importlib.import_module(f"nemo_gym.{name}")


@pytest.fixture(autouse=True)
def _without_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without configuration, in an empty folder, with somebody's command line."""
    monkeypatch.delenv(CONFIG_DICT, raising=False)
    monkeypatch.setenv("HF_TOKEN", "of-the-environment")
    monkeypatch.setattr(sys, "argv", ["prepare.py", "--verbose", "+hf_token=of-the-command-line"])
    monkeypatch.setattr(global_config, "_configs", [])
    monkeypatch.chdir(tmp_path)


# maybe_get_global_config_dict, get_global_config_dict, get_hf_token


def test_maybe_get_global_config_dict_is_none_without_configuration() -> None:
    assert module("global_config").maybe_get_global_config_dict() is None


def test_maybe_get_global_config_dict_is_what_the_process_holds() -> None:
    held = global_config.set_global_config_dict({"a": 1})

    assert module("global_config").maybe_get_global_config_dict() is held


def test_maybe_get_global_config_dict_keeps_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CONFIG_DICT, "a: {b: 1}")
    first = module("global_config").maybe_get_global_config_dict()
    monkeypatch.delenv(CONFIG_DICT)

    assert isinstance(first, DictConfig)
    assert first.a.b == 1
    assert module("global_config").maybe_get_global_config_dict() is first


def test_get_global_config_dict_parses_with_the_options_it_gets() -> None:
    options = module("global_config").GlobalConfigDictParserConfig(
        initial_global_config_dict={"a": 1}, skip_load_from_cli=True
    )
    config = module("global_config").get_global_config_dict(
        global_config_dict_parser_config=options
    )

    assert config.a == 1
    assert module("global_config").maybe_get_global_config_dict() is config


def test_get_hf_token_is_none_without_configuration() -> None:
    assert module("global_config").get_hf_token() is None


@pytest.mark.parametrize(("tree", "token"), [({"hf_token": "hf-1"}, "hf-1"), ({"a": 1}, None)])
def test_get_hf_token_is_the_key_of_the_configuration(tree: Any, token: str | None) -> None:
    global_config.set_global_config_dict(tree)

    assert module("global_config").get_hf_token() == token


def test_get_hf_token_reads_env_yaml_in_a_script_run_by_hand(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("hf_token: of-env-yaml\n")

    assert module("global_config").get_hf_token() == "of-env-yaml"


SCRIPT = """
import json, pathlib
from nemo_gym.global_config import get_hf_token
from nemo_gym import PARENT_DIR
def prepare():
    row = {"responses_create_params": {"input": str(get_hf_token())}}
    path = pathlib.Path(__file__).with_name("data.jsonl")
    path.write_text(json.dumps(row) + "\\n")
    return path
"""


def test_get_hf_token_is_the_commands_in_a_prepare_script(tmp_path: Path) -> None:
    (tmp_path / "prepare.py").write_text(SCRIPT)
    data = tmp_path / "data.jsonl"
    entry = DatasetEntry(
        name="b",
        type="benchmark",
        jsonl_fpath=str(data),
        prepare_script=str(tmp_path / "prepare.py"),
    )
    located = Located(AgentDataset("agent", entry), data)

    prepare_benchmarks(
        [located], Preparing(Path, config={"hf_token": "hf-2"}), report=lambda _: None
    )

    assert json.loads(data.read_text())["responses_create_params"]["input"] == "hf-2"


@pytest.mark.slow
def test_nemo_gym_is_importable_in_every_python_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "prepare.py").write_text(f"{SCRIPT}print(get_hf_token())\n")

    done = subprocess.run(
        [sys.executable, "prepare.py"], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.stdout, done.stderr) == ("None\n", "")


# GlobalConfigDictParser


def parser() -> Any:
    return module("global_config").GlobalConfigDictParser()


def options(**given: Any) -> Any:
    return module("global_config").GlobalConfigDictParserConfig(**given)


def no_model() -> dict[str, Any]:
    model = module("global_config").GlobalConfigDictParserConfig.NO_MODEL_GLOBAL_CONFIG_DICT
    assert isinstance(model, DictConfig)
    plain: Any = OmegaConf.to_container(model)
    return dict(plain)


def test_parse_no_environment_resolves_files_references_and_ports(tmp_path: Path) -> None:
    (tmp_path / "benchmark.yaml").write_text(BENCHMARK)
    (tmp_path / "env.yaml").write_text("of_env_yaml: 1\n")

    config = parser().parse_no_environment({"config_paths": ["benchmark.yaml"], **no_model()})

    assert isinstance(config, DictConfig)
    server = config.my_server.resources_servers.mcqa
    assert (server.host, server.domain) == ("127.0.0.1", "math")
    assert 10001 <= server.port <= 20000
    assert config.head_server == {"host": "127.0.0.1", "port": 11000}
    assert "of_env_yaml" not in config
    assert "hf_token" not in config


def test_parse_takes_env_yaml_and_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("a: 1\nhf_token: of-env-yaml\n")

    config = parser().parse()

    assert (config.a, config.hf_token) == (1, "of-the-command-line")


def test_parse_leaves_out_what_the_options_skip(tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text("a: 1\n")

    config = parser().parse(options(skip_load_from_cli=True, skip_load_from_dotenv=True))

    assert "a" not in config
    assert "hf_token" not in config


def test_parse_reads_the_dotenv_file_of_the_options(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("a: 2\nb: 2\n")
    given = options(
        dotenv_path=tmp_path / "other.yaml",
        initial_global_config_dict={"b": 3},
        skip_load_from_cli=True,
    )
    config = parser().parse(given)

    assert (config.a, config.b) == (2, 3)


def test_parse_offline_probes_no_port(tmp_path: Path) -> None:
    (tmp_path / "benchmark.yaml").write_text(BENCHMARK)
    initial = {"config_paths": ["benchmark.yaml"], **no_model()}

    config = parser().parse(options(initial_global_config_dict=initial, offline=True))

    assert config.my_server.resources_servers.mcqa.port == -1
    assert config.policy_model.responses_api_models.dummy_model.port == -1


def test_parse_hides_secrets_when_asked_to() -> None:
    config = parser().parse(options(hide_secrets=True))

    assert config.hf_token == "****"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"a": "???"}, "a has no value"),
        ({"a": "${b}"}, "needs b"),
        ({"config_paths": ["no.yaml"]}, "no.yaml"),
    ],
)
def test_parse_refuses_what_is_wrong(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        parser().parse_no_environment(settings)


def test_parse_refuses_a_reference_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "benchmark.yaml").write_text(BENCHMARK)

    with pytest.raises(ConfigError, match="policy_model"):
        parser().parse_no_environment({"config_paths": ["benchmark.yaml"]})


def test_recursively_swap_keys_carries_out_the_directives_in_place() -> None:
    cfg = OmegaConf.create(
        {
            "base": {"block": {"c": 1, "d": 2}},
            "moved": {"_inherit_from": "base.block", "c": 5},
            "copied": {"_copy": "base.block", "_delete_key": "c"},
            "text": "${copy:base.block}",
            "left": "${moved.c}",
        }
    )

    parser()._recursively_swap_keys(cfg)

    assert OmegaConf.to_container(cfg) == {
        "moved": {"c": 5, "d": 2},
        "copied": {"d": 2},
        "text": {"c": 1, "d": 2},
        "left": "${moved.c}",
    }


def test_the_configuration_without_a_model_has_a_dummy() -> None:
    assert no_model() == {
        "policy_base_url": "",
        "policy_api_key": "",
        "policy_model_name": "",
        "policy_model": {"responses_api_models": {"dummy_model": {"entrypoint": "app.py"}}},
    }


def test_the_options_of_the_parser_have_the_fields_defaults() -> None:
    assert options().model_dump() == {
        "dotenv_path": None,
        "initial_global_config_dict": None,
        "skip_load_from_cli": False,
        "skip_load_from_dotenv": False,
        "hide_secrets": False,
        "offline": False,
    }


# benchmarks.BenchmarkConfig, config_types.OmegaConf


def benchmark_of(path: Path, text: str = BENCHMARK, **how: Any) -> Any:
    path.write_text(text)
    return module("benchmarks").BenchmarkConfig.from_config_path(path, **how)


def test_benchmark_config_is_read_from_the_agents_dataset(tmp_path: Path) -> None:
    benchmark = benchmark_of(tmp_path / "config.yaml")

    assert (benchmark.name, benchmark.agent_name) == ("my_benchmark", "my_agent")
    assert (benchmark.num_repeats, benchmark.path) == (4, tmp_path / "config.yaml")
    assert benchmark.dataset.prepare_script == "prepare.py"


def test_benchmark_config_is_none_without_a_benchmark(tmp_path: Path) -> None:
    text = BENCHMARK.replace("type: benchmark", "type: example")

    assert benchmark_of(tmp_path / "config.yaml", text) is None


def test_benchmark_config_has_exactly_one_dataset(tmp_path: Path) -> None:
    text = BENCHMARK.replace("type: example", "type: benchmark")

    with pytest.raises(AssertionError, match="my_benchmark of my_agent"):
        benchmark_of(tmp_path / "config.yaml", text)


def test_benchmark_config_tolerates_unset_values_only_when_not_strict(tmp_path: Path) -> None:
    text = f"{BENCHMARK}judge: {{key: '???', url: '${{judge_url}}'}}\n"

    with pytest.raises(ConfigError):
        benchmark_of(tmp_path / "config.yaml", text)
    assert benchmark_of(tmp_path / "config.yaml", text, strict=False).name == "my_benchmark"


def test_benchmark_config_keeps_a_model_of_the_config(tmp_path: Path) -> None:
    model = "policy_model: {responses_api_models: {openai_model: {entrypoint: app.py}}}\n"

    assert benchmark_of(tmp_path / "config.yaml", BENCHMARK + model).name == "my_benchmark"


def test_config_types_has_omegaconf() -> None:
    assert module("config_types").OmegaConf is omegaconf.OmegaConf


# prompt


def prompt_config(**fields: Any) -> Any:
    return module("prompt").PromptConfig(**fields)


def test_load_prompt_config_reads_a_template_of_the_project(tmp_path: Path) -> None:
    (tmp_path / "resources_servers").mkdir()
    (tmp_path / "prompt.yaml").write_text("user: '{question}'\nsystem: Be brief.\n")

    prompt = module("prompt").load_prompt_config("prompt.yaml")

    assert (prompt.user, prompt.system) == ("{question}", "Be brief.")
    with pytest.raises(FileNotFoundError, match=r"nothing\.yaml"):
        module("prompt").load_prompt_config("nothing.yaml")


def test_apply_prompt_to_row_fills_a_new_row() -> None:
    row = {"question": "2 + 2?", "responses_create_params": {"temperature": 0.5, "input": "old"}}
    before = json.dumps(row)

    filled = module("prompt").apply_prompt_to_row(
        row, prompt_config(user="Q: {question}", system="Be brief.")
    )

    assert filled == {
        "question": "2 + 2?",
        "responses_create_params": {
            "temperature": 0.5,
            "input": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Q: 2 + 2?"},
            ],
        },
    }
    assert json.dumps(row) == before


def test_apply_prompt_to_row_names_the_missing_field_and_those_that_exist() -> None:
    with pytest.raises(KeyError, match=r"'question'.*'answer', 'topic'"):
        module("prompt").apply_prompt_to_row(
            {"answer": 1, "topic": 2}, prompt_config(user="{question}")
        )


def test_validate_prompt_compatibility_names_every_row_with_an_input() -> None:
    rows: list[dict[str, Any]] = [
        {"responses_create_params": {"input": "a"}},
        {"responses_create_params": {}},
        {},
        {"responses_create_params": {"input": []}},
    ]

    with pytest.raises(ValueError, match=r"0, 3"):
        module("prompt").validate_prompt_compatibility(rows, prompt_config(user="{q}"))
    module("prompt").validate_prompt_compatibility(rows[1:3], prompt_config(user="{q}"))


# profiling.Profiler


def profiler(folder: Path, **given: Any) -> Any:
    return module("profiling").Profiler(name="agent", base_profile_dir=folder / "profile", **given)


def with_dot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program `dot` on the path, which copies the graph to the picture."""
    (folder / "bin").mkdir()
    dot = folder / "bin" / "dot"
    dot.write_text('#!/bin/sh\n/bin/cp "$4" "$3"\n')
    dot.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder / "bin"))


def spin() -> int:
    return sum(range(1000))


def test_profiler_writes_a_table_and_a_graph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_dot(tmp_path, monkeypatch)
    made = profiler(tmp_path, required_str="test_compat_configuration")

    made.start()
    spin()
    made.stop()

    names = {path.name for path in (tmp_path / "profile").iterdir()}
    assert names == {"agent.log", "agent.callgrind", "agent.dot", "agent.png"}
    header, *lines = (tmp_path / "profile" / "agent.log").read_text().splitlines()
    assert header.split() == ["name", "ncall", "tsub", "ttot", "tavg"]
    assert any("spin" in line for line in lines)
    assert all("test_compat_configuration" in line for line in lines)
    assert (tmp_path / "profile" / "agent.dot").read_text().startswith("digraph")
    (tmp_path / "profile" / "agent.log").unlink()
    made.dump()
    assert (tmp_path / "profile" / "agent.log").is_file()


def test_profiler_does_not_start_without_graphviz(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(RuntimeError, match="graphviz"):
        profiler(tmp_path).start()


def test_profiler_has_a_name_without_spaces(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        module("profiling").Profiler(name="my agent", base_profile_dir=tmp_path)


def test_importing_profiling_needs_neither_yappi_nor_pydot() -> None:
    code = (
        "import sys; sys.modules['yappi'] = sys.modules['pydot'] = None; "
        "from palestra.compat import aliases; aliases.install(); import nemo_gym.profiling"
    )

    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
