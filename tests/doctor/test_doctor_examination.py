"""`palestra doctor`: what is broken is named, with its layer, its place, and what mends it."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doctor_world import (
    AGENT,
    EQUIVALENCE,
    MULTI_STEP,
    TOOL_TASKS,
    VLLM,
    Ward,
    free_port,
    task,
)

import palestra
from palestra.cli.collecting import collect

pytestmark = pytest.mark.slow

TOOL_AGENT = "example_multi_step_simple_agent"
PACKAGE = Path(palestra.__file__).parent


def offering(name: str) -> dict[str, Any]:
    """A row of the environment with tools, which offers one of this name."""
    tool = {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}
    params = {"input": [{"role": "user", "content": "q"}], "tools": [tool]}
    row = json.loads((PACKAGE / TOOL_TASKS).read_text().splitlines()[0])
    return {**row, "responses_create_params": params}


def files(ward: Ward) -> list[str]:
    return sorted(path.name for path in ward.folder.rglob("*"))


def test_a_run_with_nothing_wrong_is_clean_and_leaves_nothing_behind(ward: Ward) -> None:
    before = files(ward)

    found = ward.examine()

    assert (found.code, found.causes) == (0, [])
    assert found.check("rows")["said"] == "5 tasks, 5 rollouts"
    assert found.check("judge of equivalence_llm_judge")["result"] == "ok"
    assert files(ward) == before


def test_every_check_says_its_layer_and_a_result(ward: Ward) -> None:
    checks = ward.examine().report["checks"]

    assert {check["layer"] for check in checks} == {
        "infra",
        "model serving",
        "config",
        "data/schema",
        "verifier/runtime",
        "cache/resume",
        "throughput/resources",
    }


def test_no_rollout_is_spent(ward: Ward) -> None:
    ward.examine(num_repeats=8)

    asked = [body["max_tokens"] for body in ward.endpoint.asked]

    assert len(asked) <= 3  # a word, the judge, and the longest prompt where it may not fit


def test_a_bad_row_is_found_with_its_line_and_pointer(ward: Ward) -> None:
    bad = task(params={"max_output_tokens": "many"})
    name = ward.rows("rows.jsonl", [task("a"), task("b"), bad])

    found = ward.examine(input_jsonl_fpath=name).finding("data.bad-request")

    assert found["layer"] == "data/schema"
    assert found["evidence"][0]["line"] == 3
    assert found["evidence"][0]["pointer"] == "/responses_create_params/max_output_tokens"


def test_a_line_that_is_no_json_is_quoted(ward: Ward) -> None:
    name = ward.rows("rows.jsonl", [task("a"), '{"responses_create'])

    found = ward.examine(input_jsonl_fpath=name).finding("data.not-json")

    assert found["evidence"][0]["text"] == '{"responses_create'


def test_a_file_that_is_no_jsonl_at_all_is_one_finding(ward: Ward) -> None:
    name = ward.write("rows.jsonl", json.dumps([task("a"), task("b")], indent=1))

    found = ward.examine(input_jsonl_fpath=name).finding("data.not-json")

    assert "line 1: the file is one JSON array" in found["symptom"]
    assert "jq -c '.[]'" in found["symptom"]


def test_a_row_that_its_environment_refuses_is_found_beside_one_that_is_no_json(
    ward: Ward,
) -> None:
    lacking = {name: held for name, held in task("b").items() if name != "expected_answer"}
    name = ward.rows("rows.jsonl", ["{", lacking])

    found = ward.examine(input_jsonl_fpath=name)

    assert found.finding("data.row-refused")["evidence"][0]["line"] == 2
    assert "expected_answer" in found.finding("data.row-refused")["symptom"]
    assert "data.not-json" in found.causes


def test_an_agent_that_is_not_there_is_a_matter_of_the_configuration(ward: Ward) -> None:
    name = ward.rows("rows.jsonl", [task(agent_ref={"name": "math_agent"})])

    found = ward.examine(input_jsonl_fpath=name).finding("config.missing-agent")

    assert found["layer"] == "config"
    assert AGENT in found["symptom"]


def test_an_input_that_is_not_there_is_named(ward: Ward) -> None:
    found = ward.examine(input_jsonl_fpath="gone.jsonl")

    assert "gone.jsonl" in found.finding("data.no-input")["symptom"]


def test_a_reference_to_no_server_is_found_with_its_line(ward: Ward) -> None:
    name = ward.write(
        "mine.yaml",
        "my_agent:\n  responses_api_agents:\n    simple_agent:\n      resources_server:\n"
        "        type: resources_servers\n        name: equivalence_lmm_judge\n"
        "      model_server: {type: responses_api_models, name: policy_model}\n",
    )

    found = ward.examine(configs=(EQUIVALENCE, VLLM, name)).finding("config.missing-reference")

    assert {"source": found["evidence"][0]["source"], "line": found["evidence"][0]["line"]} == {
        "source": str(ward.folder / name),
        "line": ward.line_of(name, "equivalence_lmm_judge"),
    }


def test_a_misspelt_setting_of_a_server_is_found_with_its_line_and_without_secrets(
    ward: Ward,
) -> None:
    name = ward.write(
        "mine.yaml",
        "policy_model:\n  responses_api_models:\n    vllm_model:\n"
        "      extra_bod: {api_key: sk-a-key-in-a-file}\n",
    )

    found = ward.examine(configs=(EQUIVALENCE, VLLM, name))

    evidence = found.finding("config.misspelt-override")["evidence"][0]
    assert (evidence["source"], evidence["line"]) == (str(ward.folder / name), 4)
    assert "sk-a-key-in-a-file" not in json.dumps(found.report)


def test_a_refused_key_is_told_and_not_shown(ward: Ward) -> None:
    ward.endpoint.key = "another"

    found = ward.examine()

    assert found.finding("model.key-refused")["layer"] == "model serving"
    assert "sk-a-key-of-the-tests" not in json.dumps(found.report)


def test_a_model_that_is_not_served_is_told_with_those_that_are(ward: Ward) -> None:
    ward.endpoint.serves = "large"

    found = ward.examine().finding("model.not-served")

    assert "tiny" in found["symptom"]
    assert "large" in found["next_action"]


def test_an_endpoint_that_answers_to_any_name_is_only_a_warning(ward: Ward) -> None:
    ward.endpoint.serves, ward.endpoint.any_name = "alias", True

    found = ward.examine()

    assert found.code == 0
    assert found.finding("model.not-listed")["severity"] == "warning"


def test_an_endpoint_that_is_not_there_is_a_matter_of_model_serving(ward: Ward) -> None:
    found = ward.examine(f"++policy_base_url=http://127.0.0.1:{free_port()}/v1")

    assert found.causes == ["model.unreachable"]


def test_a_base_url_without_its_path_is_not_blamed_on_the_models_name(ward: Ward) -> None:
    url = ward.endpoint.url.removesuffix("/v1")

    found = ward.examine(f"++policy_base_url={url}/api").finding("model.no-openai-endpoint")

    assert "/v1 included" in found["next_action"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "cause"), [(429, "throughput.rate-limited"), (503, "model.overloaded")]
)
def test_an_endpoint_that_refuses_is_given_up_soon_and_told_once(
    ward: Ward, status: int, cause: str
) -> None:
    ward.endpoint.busy = status

    found = ward.examine()

    assert found.causes == [cause]
    assert found.report["seconds"] < 12


def test_a_prompt_that_is_too_long_is_found_with_its_task(ward: Ward) -> None:
    name = ward.rows("rows.jsonl", [task("short"), task("long " * 4000)])

    found = ward.examine(input_jsonl_fpath=name).finding("data.prompt-too-long")

    assert found["row"]["task"] == 1
    assert (found["evidence"][-1]["source"], found["evidence"][-1]["line"]) == (
        str(ward.folder / name),
        2,
    )
    assert "maximum context length is 4096" in found["evidence"][0]["text"]


def test_an_answer_that_leaves_no_room_for_the_prompt_is_found(ward: Ward) -> None:
    asked = {"max_output_tokens": 4090}
    name = ward.rows("rows.jsonl", [task("word " * 50, params=asked)])

    found = ward.examine(input_jsonl_fpath=name).finding("model.answer-too-long")

    assert "together with their max_output_tokens" in found["symptom"]


def test_an_endpoint_without_a_tool_parser_is_found_by_a_row_with_tools(ward: Ward) -> None:
    ward.endpoint.takes_tools = False

    found = ward.examine(
        configs=(MULTI_STEP, VLLM), input_jsonl_fpath=TOOL_TASKS, agent_name=TOOL_AGENT
    )

    assert "tool parser" in found.finding("model.no-tools")["next_action"]


def test_a_tool_that_rows_offer_and_no_server_runs_is_found(ward: Ward) -> None:
    name = ward.rows("vain.jsonl", [offering("get_synonym_valuee"), offering("get_synonym_value")])

    found = ward.examine(
        configs=(MULTI_STEP, VLLM), input_jsonl_fpath=name, agent_name=TOOL_AGENT
    ).finding("data.tool-unserved")

    assert (found["layer"], found["severity"]) == ("data/schema", "error")
    assert found["symptom"] == (
        "1 row offers the tool 'get_synonym_valuee', which example_multi_step_resources_server does "
        "not have; did you mean 'get_synonym_value'?"
    )
    assert [quoted["line"] for quoted in found["evidence"]] == [1]


def test_a_run_whose_rows_offer_a_tool_in_vain_begins_with_a_warning(ward: Ward) -> None:
    name = ward.rows("vain.jsonl", [offering("get_synonym_value"), offering("get_synonym_valuee")])

    collect(
        ward.arguments((MULTI_STEP, VLLM)),
        ng=False,
        extra=ward.asked(input_jsonl_fpath=name, agent_name=TOOL_AGENT),
    )

    [warning] = [
        line for line in ward.capsys.readouterr().err.splitlines() if "offers the tool" in line
    ]
    assert warning.startswith("warning: 1 row offers the tool 'get_synonym_valuee'")
    assert "(first: vain.jsonl:2)" in warning


def test_a_judge_that_answers_in_prose_is_found(ward: Ward) -> None:
    ward.endpoint.says = "Both candidates make good points about gases."

    found = ward.examine().finding("verifier.judge-unreadable")

    assert found["layer"] == "verifier/runtime"
    assert any("good points" in quoted["text"] for quoted in found["evidence"])


@pytest.fixture
def broken(ward: Ward) -> tuple[Ward, tuple[str, ...]]:
    """A ward with an environment whose `verify` is to be written, and the configuration."""
    settings = (
        "broken:\n  resources_servers:\n    broken:\n      entrypoint: app.py\n"
        "broken_agent:\n  responses_api_agents:\n    simple_agent:\n"
        "      resources_server: {type: resources_servers, name: broken}\n"
        "      model_server: {type: responses_api_models, name: policy_model}\n"
    )
    return ward, (ward.write("broken.yaml", settings), VLLM)


def verifier(ward: Ward, *body: str) -> str:
    lines = "".join(f"        {line}\n" for line in body)
    return ward.write(
        "resources_servers/broken/app.py",
        "import time\n\nfrom palestra.schema import VerifyRequest, VerifyResponse\n"
        "from palestra.server import ResourcesServer\n\n\n"
        "class Broken(ResourcesServer):\n"
        "    async def verify(self, body: VerifyRequest) -> VerifyResponse:\n" + lines,
    )


def test_a_verifier_that_raises_is_found_with_its_line(
    broken: tuple[Ward, tuple[str, ...]],
) -> None:
    ward, configs = broken
    path = verifier(
        ward, "last = body.response.output[-1].content[-1].text.split()[-1]", "return last"
    )

    found = ward.examine(configs=configs, agent_name="broken_agent").finding("verifier.raises")

    lines = [quoted["line"] for quoted in found["evidence"] if quoted["source"].endswith(path)]
    assert lines == [ward.line_of(path, "split()[-1]")]
    assert "IndexError" in found["symptom"]


def test_rows_beyond_the_first_are_brought_before_the_verifier(
    broken: tuple[Ward, tuple[str, ...]],
) -> None:
    ward, configs = broken
    verifier(
        ward,
        'if (body.model_extra or {}).get("number") == 7:',
        '    raise KeyError("no such answer")',
        "return self.reply(body, 0.0)",
    )
    name = ward.rows("rows.jsonl", [task(number=n) for n in range(12)])

    found = ward.examine(configs=configs, agent_name="broken_agent", input_jsonl_fpath=name)

    raised = found.finding("verifier.raises")
    assert raised["row"]["task"] == 7
    assert raised["evidence"][-1]["line"] == 8
    assert "in 1 of 12 rows tried" in raised["symptom"]


def test_a_verifier_that_raises_is_not_blamed_on_its_judge(ward: Ward) -> None:
    settings = (
        "broken:\n  resources_servers:\n    broken:\n      entrypoint: app.py\n"
        "      judge_model_server: {type: responses_api_models, name: policy_model}\n"
        "broken_agent:\n  responses_api_agents:\n    simple_agent:\n"
        "      resources_server: {type: resources_servers, name: broken}\n"
        "      model_server: {type: responses_api_models, name: policy_model}\n"
    )
    verifier(ward, "raise KeyError('x')")
    app = ward.folder / "resources_servers/broken/app.py"
    named = "from palestra.server import JudgeConfig, ResourcesServerConfig\n"
    config = "class C(JudgeConfig, ResourcesServerConfig):\n    pass\n\n\n"
    held = app.read_text().replace(
        "class Broken(ResourcesServer):\n",
        f"{named}\n\n{config}class Broken(ResourcesServer):\n    config: C\n\n",
    )
    app.write_text(held)
    configs = (ward.write("broken.yaml", settings), VLLM)

    found = ward.examine(configs=configs, agent_name="broken_agent")

    assert found.causes == ["verifier.raises"]


def test_a_verifier_that_rewards_an_empty_answer_is_a_warning(
    broken: tuple[Ward, tuple[str, ...]],
) -> None:
    ward, configs = broken
    verifier(ward, "return self.reply(body, 1.0)")

    found = ward.examine(configs=configs, agent_name="broken_agent")

    assert found.finding("verifier.rewards-nothing")["severity"] == "warning"


@pytest.mark.slow
def test_a_verifier_that_blocks_the_event_loop_is_a_matter_of_throughput(
    broken: tuple[Ward, tuple[str, ...]],
) -> None:
    ward, configs = broken
    verifier(ward, "time.sleep(0.8)", "return self.reply(body, 0.0)")

    found = ward.examine(configs=configs, agent_name="broken_agent")

    assert found.finding("throughput.blocks-event-loop")["layer"] == "throughput/resources"


def test_a_server_that_cannot_be_imported_is_found_and_the_endpoint_is_asked_all_the_same(
    broken: tuple[Ward, tuple[str, ...]],
) -> None:
    ward, configs = broken
    ward.write("resources_servers/broken/app.py", "import time\nraise ValueError('half')\n")
    ward.endpoint.serves = "large"

    found = ward.examine(configs=configs, agent_name="broken_agent")

    assert found.finding("config.cannot-import")["evidence"][-1]["line"] == 2
    assert "model.not-served" in found.causes


def test_an_earlier_run_in_the_way_is_told_with_what_can_be_done(ward: Ward) -> None:
    ward.write("out/rollouts.jsonl", "{}\n")

    found = ward.examine().finding("cache.output-exists")

    assert found["layer"] == "cache/resume"
    assert "--overwrite" in found["next_action"]


def test_an_earlier_run_of_other_rows_is_stale(ward: Ward) -> None:
    name = ward.rows("rows.jsonl", [task("a"), task("b")])
    run_of(ward, name)
    ward.rows("rows.jsonl", [task("a"), task("c")])

    found = ward.examine(input_jsonl_fpath=name, resume_from_cache=True)

    stale = found.finding("cache.stale-inputs")
    assert "the input rows differ" in [quoted["text"] for quoted in stale["evidence"]]
    assert any(quoted["text"].startswith("changed ") for quoted in stale["evidence"])


def test_an_earlier_run_is_stale_also_for_who_does_not_ask_to_resume_it(ward: Ward) -> None:
    name = ward.rows("rows.jsonl", [task("a"), task("b")])
    run_of(ward, name)
    ward.rows("rows.jsonl", [task("a"), task("c")])

    found = ward.examine(input_jsonl_fpath=name).finding("cache.stale-inputs")

    assert "--overwrite" in found["next_action"]


def test_an_earlier_run_that_fits_is_continued(ward: Ward) -> None:
    name = ward.rows("rows.jsonl", [task("a"), task("b")])
    run_of(ward, name)

    found = ward.examine(input_jsonl_fpath=name, resume_from_cache=True)

    assert found.code == 0
    assert found.check("earlier run")["said"] == "resuming: 2 of 2 rollouts have ended already"


def run_of(ward: Ward, name: str) -> None:
    """A run at the output that the ward examines."""
    assert collect(ward.arguments(), ng=False, extra=ward.asked(input_jsonl_fpath=name)) == 0


def test_a_disk_that_is_full_is_found(ward: Ward, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "256k") as small:
        found = ward.examine(output_jsonl_fpath=str(small / "rollouts.jsonl"))

    assert found.finding("infra.disk-full")["layer"] == "infra"
    assert str(small) in found.finding("infra.disk-full")["symptom"]


def test_a_disk_that_takes_nothing_more_is_told_once(ward: Ward, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "64k") as small:
        with contextlib.suppress(OSError):
            (small / "filler").write_bytes(b"x" * 1_000_000)
        found = ward.examine(output_jsonl_fpath=str(small / "rollouts.jsonl"))

    assert found.causes == ["infra.disk-full"]


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, where we may mount one."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_port_that_somebody_holds_is_a_matter_of_infra(ward: Ward) -> None:
    port = int(ward.endpoint.url.split(":")[2].split("/")[0])
    server = "equivalence_llm_judge.resources_servers.equivalence_llm_judge"

    found = ward.examine(f"++{server}.placement=process", f"++{server}.port={port}")

    assert str(port) in found.finding("infra.port-in-use")["symptom"]


def test_the_forecast_counts_rollouts_and_money(ward: Ward) -> None:
    ward.write("prices.yaml", "prices:\n  policy_model: {input: 1.0, output: 2.0}\n")

    told = ward.examine(configs=(EQUIVALENCE, VLLM, "prices.yaml"), num_repeats=4).report[
        "forecast"
    ]

    assert told["rollouts"] == 20
    assert told["judge_requests"] == 20
    assert told["cost"]["USD"] == pytest.approx(
        (told["input_tokens"] + 2 * told["output_tokens"]) / 1e6, rel=0.01
    )


def test_a_tool_schema_that_no_endpoint_takes_is_found_with_its_row(ward: Ward) -> None:
    tool = {
        "type": "function",
        "name": "look up",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }
    name = ward.rows("rows.jsonl", [task("a"), task("b", params={"tools": [tool]})])

    found = ward.examine(input_jsonl_fpath=name).finding("data.tool-name")

    assert found["layer"] == "data/schema"
    assert found["evidence"][0]["line"] == 2


def test_a_secret_in_a_config_file_is_not_quoted(ward: Ward) -> None:
    name = ward.write("mine.yaml", "my_api_key: sk-very-secret\nmine: ${my_api_keys}\n")

    found = ward.examine(configs=(EQUIVALENCE, VLLM, name))

    assert found.code == 1
    assert "sk-very-secret" not in json.dumps(found.report)


def test_each_value_that_nobody_gives_is_named(ward: Ward) -> None:
    name = ward.write("mine.yaml", "first: ${gone_url}\nsecond: ${oc.env:NONE_SUCH}\n")

    found = ward.examine(configs=(EQUIVALENCE, VLLM, name)).report["findings"]

    assert [f["cause"] for f in found] == ["config.missing-value"] * 2
    assert "gone_url" in found[0]["symptom"]
    assert "export NONE_SUCH" in found[1]["symptom"]


def test_prices_that_are_none_are_told(ward: Ward) -> None:
    name = ward.write("prices.yaml", "prices: {policy_model: cheap}\n")

    found = ward.examine(configs=(EQUIVALENCE, VLLM, name)).finding("config.bad-value")

    assert "per million tokens" in found["next_action"]


def test_a_split_without_a_dataset_is_a_matter_of_the_configuration(ward: Ward) -> None:
    found = ward.examine(input_jsonl_fpath=None, split="train").finding("config.no-dataset")

    assert "type train" in found["symptom"]


def test_a_dataset_that_is_not_on_disk_is_named(ward: Ward) -> None:
    name = ward.write(
        "mine.yaml",
        f"{AGENT}:\n  responses_api_agents:\n    simple_agent:\n      datasets:\n"
        "      - {name: mine, type: train, jsonl_fpath: data/train.jsonl}\n",
    )

    found = ward.examine(
        configs=(EQUIVALENCE, VLLM, name), input_jsonl_fpath=None, split="train"
    ).finding("data.no-input")

    assert "data/train.jsonl" in found["symptom"]


def test_token_ids_that_an_endpoint_does_not_return_are_a_matter_of_the_configuration(
    ward: Ward,
) -> None:
    setting = "++policy_model.responses_api_models.vllm_model.return_token_id_information=true"

    found = ward.examine(setting).finding("config.endpoint-lacks-setting")

    assert "returns no token ids" in found["symptom"]


def test_a_setting_that_a_server_has_not_is_found_before_it_starts(ward: Ward) -> None:
    setting = f"++{AGENT}.responses_api_agents.simple_agent.max_stepz=3"

    found = ward.examine(setting)

    assert found.causes == ["config.misspelt-override"]
    assert "did you mean 'max_steps'?" in found.finding("config.misspelt-override")["symptom"]
