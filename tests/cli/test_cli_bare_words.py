"""Words of `ng_*` and `gym` commands without a key or a flag: the answer is the command as meant."""

import shlex

import pytest
from cli_world import World

from palestra.cli.bare_words import is_bare

MCQA = "resources_servers/mcqa/configs/mcqa.yaml"
LOCAL = "responses_api_models/local_model/configs/local_model.yaml"


@pytest.mark.parametrize(
    ("word", "is_so"),
    [
        ("mcqa", True),
        ("my_server.yaml", True),
        ("limit=5", False),
        ("+limit=5", False),
        ("~limit", False),
        ("--limit", False),
    ],
)
def test_a_bare_word_is_neither_a_flag_nor_an_override(word: str, is_so: bool) -> None:
    assert is_bare(word) is is_so


@pytest.mark.parametrize(
    ("typed", "message", "meant"),
    [
        (
            "ng_run my_server.yaml",
            "'my_server.yaml' has no key; it is a config file",
            "ng_run '+config_paths=[my_server.yaml]'",
        ),
        (
            "nemo_gym_run '+config_paths=[a.yaml]' my_server.yaml +x=1",
            "'my_server.yaml' has no key; it is a config file",
            "nemo_gym_run '+config_paths=[a.yaml,my_server.yaml]' +x=1",
        ),
        (
            "ng_run my_sever.yaml",
            "it is a config file, which does not exist; did you mean my_server.yaml?",
            "ng_run '+config_paths=[my_sever.yaml]'",
        ),
        (
            "ng_run mcqa",
            "'mcqa' has no key; it is the name of an environment",
            f"ng_run '+config_paths=[{MCQA},{LOCAL}]'",
        ),
        ("ng_run mcqq", "not 'mcqq'; did you mean 'mcqa'?", f"ng_run '+config_paths=[{MCQA},{LOCAL}]'"),
        (
            "ng_run xyzzy",
            "ng_run takes settings with their keys, not 'xyzzy'",
            "a config file is +config_paths=[FILE]; ng_run --help lists the settings",
        ),
        (
            "ng_collect_rollouts rows.jsonl +limit=1",
            "'rows.jsonl' has no key; it is a file of rows",
            "ng_collect_rollouts +input_jsonl_fpath=rows.jsonl +limit=1",
        ),
        (
            "ng_collect_rollouts mcqa",
            "'mcqa' has no key; it is the name of an environment",
            (f"ng_collect_rollouts '+config_paths=[{MCQA},{LOCAL}]' +split=example "
            "+output_jsonl_fpath=runs/mcqa.jsonl"),
        ),
        (
            "ng_collect_rollouts xyzzy",
            "not 'xyzzy'",
            ("a config file is +config_paths=[FILE]; an agent is +agent_name=xyzzy; "
            "ng_collect_rollouts --help lists the settings"),
        ),
        ("ng_collect_rollouts +limit= 5", "a space divides +limit=5", "ng_collect_rollouts +limit=5"),
        (
            "ng_collect_rollouts limit",
            "'limit' has no key; it is a setting without a value",
            "ng_collect_rollouts +limit=VALUE",
        ),
        (
            "ng_materialize_prompts prompt.yaml rows.jsonl",
            "it is a prompt template, which does not exist",
            "ng_materialize_prompts +prompt_config=prompt.yaml +input_jsonl_fpath=rows.jsonl",
        ),
        ("ng_test mcqa", "it is the name of an env", "ng_test +entrypoint=resources_servers/mcqa"),
        (
            "ng_init_resources_server my_env",
            "'my_env' has no key; it is the name of a folder",
            "ng_init_resources_server +entrypoint=resources_servers/my_env",
        ),
        ("ng_init_resources_server ..", "not '..'", "ng_init_resources_server --help lists the settings"),
        ("ng_test_all mcqa", "ng_test_all takes no words", "ng_test +entrypoint=resources_servers/mcqa"),
        ("ng_dev_test xyzzy", "ng_dev_test takes no words, and 'xyzzy' is one", "ng_dev_test --help"),
        ("ng_help ng_run", "ng_help takes no words", "ng_run --help"),
        ("ng_upload_dataset_to_hf sums", "it is a name", "ng_upload_dataset_to_hf +dataset_name=sums"),
        (
            "gym env start my_server.yaml",
            "'my_server.yaml' has no flag; it is a config file",
            "gym env start --config my_server.yaml",
        ),
        (
            "gym eval run --limit 1 mcqa",
            "'mcqa' has no flag; it is the name of an environment",
            ("gym eval run --limit 1 --resources-server mcqa --model-type local_model --split example "
            "--output runs/mcqa.jsonl"),
        ),
        (
            "gym env resolve of_flags",
            "'of_flags' has no flag; it is the name of an environment",
            "gym env resolve --environment of_flags --model-type local_model",
        ),
        ("gym eval profile rows.jsonl", "a file of rows", "gym eval profile --rollouts rows.jsonl"),
        ("gym env init my_env", "'my_env' has no flag", "gym env init --resources-server my_env"),
        ("gym env init ../my_env", "'../my_env' has no flag", "gym env init --resources-server my_env"),
        (
            "gym eval run --no-serve xyzzy",
            "gym eval run takes settings by flags, not 'xyzzy'",
            ("a config file is --config FILE; an agent is --agent xyzzy; gym eval run --help lists the "
            "settings"),
        ),
        ("palestra gym env prefetch rows.yaml", "has no flag", "palestra gym env prefetch --config rows.yaml"),
    ],
)  # fmt: skip
def test_a_bare_word_is_answered_with_the_whole_command(
    world: World, typed: str, message: str, meant: str
) -> None:
    world.write("my_server.yaml", "{}\n")
    world.write("rows.jsonl", "{}\n")
    (world.folder / "environments" / "of_flags").mkdir(parents=True)
    world.write("environments/of_flags/config.yaml", "{}\n")

    done = world.run(*shlex.split(typed))

    lines = (done.out + done.err).splitlines()
    [error] = [line for line in lines if line.startswith(("error: ", "Error: "))]
    assert message in error
    assert f"hint: {meant}" in lines
    assert done.code == (1 if "gym " in typed else 2)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ng_run +config_paths=[a.yaml, b.yaml, c.yaml]", "ng_run '+config_paths=[a.yaml,b.yaml,c.yaml]'"),
        ("ng_run +config_paths=[ a.yaml ]", "ng_run '+config_paths=[a.yaml]'"),
        ("gym env start +config_paths=[a.yaml, b.yaml]", "gym env start '+config_paths=[a.yaml,b.yaml]'"),
        (
            "palestra eval mcqa +config_paths=[a.yaml, b.yaml] --limit 1",
            "palestra eval mcqa '+config_paths=[a.yaml,b.yaml]' --limit 1",
        ),
        (
            "palestra reverify r.jsonl +config_paths=[a.yaml, b.yaml]",
            "palestra reverify r.jsonl '+config_paths=[a.yaml,b.yaml]'",
        ),
    ],
)  # fmt: skip
def test_a_list_that_a_space_divides_is_answered_with_the_quoted_list(
    world: World, typed: str, meant: str
) -> None:
    done = world.run(*typed.split())

    lines = (done.out + done.err).splitlines()
    assert [line for line in lines if "a space divides the list +config_paths=[" in line]
    assert f"hint: {meant}" in lines


def test_a_list_without_an_end_takes_no_flag_into_itself(world: World) -> None:
    error = world.run("palestra", "collect", "+config_paths=[a.yaml,", "--agent", "x]").refused()

    assert "a space divides" not in error


def test_the_answer_can_be_pasted(world: World) -> None:
    refused = world.run("ng_dump_config", "mcqa")
    [hint] = [line for line in refused.err.splitlines() if line.startswith("hint: ")]

    done = world.run(*shlex.split(hint.removeprefix("hint: ")))

    assert done.code == 0, done.err
    assert "mcqa_simple_agent" in done.out


def test_a_flag_for_a_config_file_is_answered_with_its_override(world: World) -> None:
    message = world.run("ng_run", "--config", "my_server.yaml").refused()

    assert "ng_run takes overrides, not flags; write '+config_paths=[my_server.yaml]'" in message


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("ng_collect_rollouts --resume", "write +resume_from_cache=true"),
        ("nemo_gym_collect_rollouts --concurrency 4", "write +num_samples_in_parallel=4"),
        ("ng_collect_rollouts --num_repeats=3", "write +num_repeats=3"),
        ("ng_run --model tiny", "write +policy_model_name=tiny"),
        ("ng_run --model-api-key sk-secret", "write '+policy_api_key=****'"),
        ("ng_test --resources-server mcqa", "write +entrypoint=resources_servers/mcqa"),
        ("ng_status --wait=1", "write +wait=1"),
        (
            "ng_run --resources-server mcqa --config model.yaml",
            "write '+config_paths=[resources_servers/mcqa/configs/mcqa.yaml,model.yaml]'",
        ),
        ("ng_status --json", "--json is none of its settings\nhint: ng_status --help lists"),
        ("ng_run --verbose", "--verbose is none of its settings\nhint: ng_run --help lists"),
    ],
)
def test_a_flag_is_answered_with_the_override_of_its_setting(
    world: World, typed: str, answer: str
) -> None:
    assert answer in world.run(*typed.split()).refused()
