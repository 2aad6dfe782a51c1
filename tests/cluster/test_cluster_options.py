"""What may be asked for: each option's rule, and those that hold between options."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from planning import HOSTED, PYXIS, cluster, options, planned
from typer.testing import CliRunner

from palestra.cli.main import app
from palestra.cli.ng import with_dashes
from palestra.cluster.configs import SHIPPED, ClusterConfig, find_cluster
from palestra.cluster.places import parse_mounts, to_cluster, to_container
from palestra.cluster.plan import Mount
from palestra.cluster.stamping import request_seed
from palestra.errors import ConfigError
from palestra.settings import RolloutOptions, parse_numbers


def refusal(**given: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        options(**given)
    return caught.value.message


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        ({}, None),
        ({"num_random_seeds": 3}, (0, 1, 2)),
        ({"num_random_seeds": 2, "starting_seed": 5}, (5, 6)),
        ({"random_seeds": "0,2,5"}, (0, 2, 5)),
        ({"random_seeds": "3..6"}, (3, 4, 5, 6)),
        ({"random_seeds": (7, 1)}, (7, 1)),
        ({"random_seeds": "9"}, (9,)),
        ({"random_seeds": "0,4..5"}, (0, 4, 5)),
    ],
)
def test_seeds_are_a_count_a_list_or_a_range(
    given: dict[str, Any], seeds: tuple[int, ...] | None
) -> None:
    assert options(**given).seeds == seeds


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num_random_seeds": 2, "random_seeds": "1"}, "not both"),
        ({"starting_seed": 2, "random_seeds": "1"}, "not both"),
        ({"num_random_seeds": 0}, "should be 1 or more"),
        ({"num_random_seeds": -1}, "should be 1 or more"),
        ({"num_random_seeds": 1, "starting_seed": -1}, "count from 0"),
        ({"starting_seed": 3}, "give both"),
        ({"random_seeds": "1,2,1"}, "names 1 more than once"),
        ({"random_seeds": "1,-2"}, "-2 is negative"),
        ({"random_seeds": "5..3"}, "ends before it begins"),
        ({"random_seeds": ""}, "is not a number"),
        ({"random_seeds": "a"}, "is not a number"),
        ({"random_seeds": str(2**31)}, "larger than"),
    ],
)
def test_seeds_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    assert said in refusal(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num_chunks": 4, "chunk_ids": "1,4,7"}, "names 4, 7, and of 4 chunks the last is 3"),
        ({"chunk_ids": "0"}, "give both"),
        ({"num_chunks": 0}, "should be 1 or more"),
        ({"num_chunks": 2, "chunk_ids": "0,0"}, "more than once"),
    ],
)
def test_chunk_ids_out_of_range_are_refused_when_submitting(
    given: dict[str, Any], said: str
) -> None:
    assert said in refusal(**given)


def test_the_seed_of_a_request_depends_on_seed_task_and_repeat_alone() -> None:
    seeds = {request_seed(s, t, r) for s in range(4) for t in range(50) for r in range(4)}

    assert len(seeds) == 800
    assert request_seed(1, 2, 3) == request_seed(1, 2, 3)
    assert all(0 <= seed < 2**31 for seed in seeds)


@pytest.mark.parametrize(
    "own",
    [
        {"server_type": "vllm"},
        {"server_gpus": 1},
        {"server_cpu": True},
        {"server_nodes": 2},
        {"server_args": "--x"},
        {"server_entrypoint": "x"},
        {"server_container": "x"},
        {"trust_remote_code": True},
    ],
)
def test_an_option_of_a_server_of_ones_own_beside_one_that_runs_is_an_error(
    own: dict[str, Any],
) -> None:
    said = refusal(server_address="http://host/v1", model="m", **own)

    name = next(iter(own)).replace("_", "-")
    assert f"--{name}" in said
    assert "--server-address" in said


def test_a_server_is_started_only_when_gpus_or_a_cpu_server_are_asked_for() -> None:
    assert "no server would start" in refusal(model="m", server_type="vllm")
    assert options(model="m", server_type="vllm", server_gpus=1).self_hosted
    assert options(model="m", server_type="vllm", server_cpu=True).self_hosted


def test_a_server_of_ones_own_needs_its_model_and_its_type() -> None:
    said = refusal(server_gpus=1)

    assert "needs --model" in said
    assert "needs --server-type" in said


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("judge", "NAME.KEY=VALUE"),
        ("judge.type=vllm", "model"),
        ("judge.kind=vllm", "kind"),
        ("judge.typ=vllm", "no key 'typ'; did you mean 'type'?"),
        ("policy.type=vllm", "--server-type"),
        (("judge.type=vllm", "judge.model=m"), "gpus=N"),
        (("judge.type=vllm", "judge.model=m", "judge.gpus=two"), "gpus"),
        (
            ("judge.type=vllm", "judge.model=m", "judge.gpus=1", "judge.cpu=true"),
            "give one of them",
        ),
    ],
)
def test_a_further_server_that_cannot_be_is_refused(
    server: str | tuple[str, ...], said: str
) -> None:
    assert said in refusal(**HOSTED, server=server)


def test_an_unknown_server_type_lists_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"known: generic, llama_cpp, sglang, vllm.*'vllm'"):
        planned(options(**{**HOSTED, "server_type": "vlm"}))


def test_a_misspelt_container_lists_those_there_are() -> None:
    on = cluster(**{**PYXIS, "containers": {"vlm": "x", "gym": "y"}})

    with pytest.raises(ConfigError, match=r"no container 'vllm'.*containers: gym, vlm.*'vlm'"):
        planned(options(**HOSTED), on)


def test_the_container_of_the_server_is_overridden_by_its_option_alone() -> None:
    run = planned(options(**HOSTED, server_container="mine.sqsh"), cluster(**PYXIS))

    containers = {part.name: part.container for part in run.jobs[0].components}
    assert containers == {"server": "mine.sqsh", "driver": "gym.sqsh"}


def test_a_container_where_none_can_run_is_an_error() -> None:
    with pytest.raises(ConfigError, match="runs no containers"):
        planned(options(gym_container="x"))


def test_a_missing_gym_container_is_an_error_that_lists_those_there_are() -> None:
    on = cluster(runtime="pyxis", containers={"vllm": "x"})

    with pytest.raises(ConfigError, match="no container 'gym'"):
        planned(options(), on)


def test_trust_remote_code_is_off_unless_it_is_given() -> None:
    without = planned(options(**HOSTED)).jobs[0].components[0]
    given = planned(options(**HOSTED, trust_remote_code=True)).jobs[0].components[0]

    assert "--trust-remote-code" not in without.argv
    assert "--trust-remote-code" in given.argv


@pytest.mark.parametrize(
    ("mounts", "path", "found"),
    [
        ("/lustre/data:/data", "/data/x", "/lustre/data/x"),
        ("/lustre/data:/data", "/database/x", None),
        ("/a:/data,/b:/data/deep", "/data/deep/x", "/b/x"),
        ("/b:/data/deep,/a:/data", "/data/deeper/x", "/a/deeper/x"),
        ("/a:/data:ro", "/data", "/a"),
        ("/a:/data", "/data/../etc", None),
        ("/a/:/data/", "/data//x", "/a/x"),
    ],
)
def test_mounts_match_by_component_and_the_longest_wins(
    mounts: str, path: str, found: str | None
) -> None:
    assert to_cluster(parse_mounts(mounts), path) == found


def test_a_path_of_the_cluster_is_found_in_a_container() -> None:
    mounts = parse_mounts("/lustre:/l,/lustre/me:/me:ro+z")

    assert to_container(mounts, "/lustre/me/x") == "/me/x"
    assert mounts[1] == Mount("/lustre/me", "/me", ("ro", "z"))


@pytest.mark.parametrize("bad", ["data:/data", "/data", "/a:/b:writable", "/a:b", "/a:/x,/b:/x"])
def test_what_is_no_mount_is_refused(bad: str) -> None:
    with pytest.raises(ConfigError):
        parse_mounts(bad)


@pytest.mark.parametrize(
    "given",
    [
        {"serve_override": "++policy_api_key=sk-canary-1234567"},
        {"collect_override": "+hf_token=sk-canary-1234567"},
        {"serve_override": "++policy_base_url=http://me:sk-canary-1234567@host/v1"},
        {**HOSTED, "server_args": "--api-key sk-canary-1234567"},
        {"policy_api_key_env": "sk-canary-1234567"},
        {**HOSTED, "server_entrypoint": "vllm serve --api-key sk-canary-1234567"},
        {**HOSTED, "server_entrypoint": "vllm serve --api-key SK_CANARY_1234567"},
        {**HOSTED, "server_entrypoint": "vllm serve --key-env sk-canary-1234567"},
        {**HOSTED, "server_entrypoint": "vllm serve --key-env=sk-canary-1234567"},
        {"server_address": "https://me:sk-canary-1234567@host/v1", "model": "m"},
        {"server_address": "https://host/v1?api_key=sk-canary-1234567", "model": "m"},
    ],
)
def test_a_secret_among_the_options_is_refused_without_showing_it(given: dict[str, Any]) -> None:
    assert "canary" not in refusal(**given)


def test_a_secret_of_digits_is_refused_without_showing_it() -> None:
    refused = refusal(serve_override="++policy_api_key=8812345678901234")

    assert "policy_api_key is a secret" in refused
    assert "8812" not in refused


def test_a_number_of_a_token_is_no_secret() -> None:
    assert options(serve_override="++policy.eos_token_id=151645").serve_override


def test_a_secret_by_the_name_of_its_variable_is_fine() -> None:
    assert options(serve_override="++policy_api_key=${oc.env:MY_KEY}").serve_override
    assert options(**HOSTED, server_entrypoint="serve --key-env MY_KEY").server_entrypoint
    assert options(**HOSTED, server_entrypoint="serve --key-env=MY_KEY").server_entrypoint


@pytest.mark.parametrize("value", ["$HOME/x", "`hostname`", "${PORT}"])
def test_an_expression_of_the_shell_never_stands_in_a_variable(value: str) -> None:
    with pytest.raises(ConfigError, match="shell expressions are not evaluated"):
        cluster(env={"WHERE": value})


def test_a_secret_in_a_cluster_config_is_refused() -> None:
    with pytest.raises(ConfigError, match="inherit_env") as caught:
        cluster(env={"HF_TOKEN": "sk-canary-1234567"})

    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("seconds", [1, 60, 61, 3600])
def test_any_interval_above_nothing_will_do(seconds: int) -> None:
    run = planned(options(**HOSTED), cluster(probe={"interval_s": seconds}))

    assert run.jobs[0].components[0].probe is not None
    assert run.jobs[0].components[0].probe.interval_s == seconds


@pytest.mark.parametrize("seconds", [0, -1])
def test_an_interval_of_nothing_is_refused(seconds: int) -> None:
    with pytest.raises(ConfigError, match="interval_s"):
        cluster(probe={"interval_s": seconds})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tme": "4:00:00"}, "time"),
        ({"time": 14400}, "in quotes"),
        ({"time": "soon"}, "MINUTES"),
        ({"runtime": "docker"}, "pyxis"),
        ({"on_exit": {"server": "restart"}}, "restart(N)"),
        ({"partitions": {"servr": "x"}}, "servr"),
        ({"port_range": [20, 10]}, "port_range"),
        ({"inherit_env": ["A B"]}, "inherit_env"),
        ({"signal_s": 100000}, "signal_s"),
        ({"probe": {"deadline_s": 60, "interval_s": 61}}, "deadline_s 60"),
    ],
)
def test_a_wrong_setting_of_a_cluster_is_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cluster(**given)

    assert said in f"{caught.value} {caught.value.hint}"


def test_a_cluster_is_found_in_the_folder_given_then_by_variable_then_here(
    tmp_path: Any,
) -> None:
    for folder in ("given", "variable", "work/cluster_configs"):
        path = tmp_path / folder / "mine.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(f"executor: slurm\npartition: {folder.partition('/')[0]}\n")
    where: dict[str, Any] = {"cwd": tmp_path / "work", "environ": {}}
    variable = {**where, "environ": {"PALESTRA_CLUSTER_CONFIGS": str(tmp_path / "variable")}}

    partitions = [
        find_cluster("mine", str(tmp_path / "given"), **variable)[1].partition,
        find_cluster("mine", **variable)[1].partition,
        find_cluster("mine", **where)[1].partition,
    ]

    assert partitions == ["given", "variable", "work"]
    with pytest.raises(ConfigError, match=r"no cluster 'mien'.*did you mean"):
        find_cluster("mien", **where)


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("executor: slurm\npartitoin: gpu\n", ["2: partitoin is not"]),
        ("\nexecutor: slrum\n", ["2: executor: "]),
        ("cpus:\n  driver: 1\n  server: none\nexecutor: slrum\n", ["3: cpus", "4: executor"]),
        ("executor: slurm\nmounts:\n  - here\n", ["2: 'here' is not a mount"]),
    ],
)
def test_a_wrong_setting_in_a_file_of_a_cluster_has_its_line(
    tmp_path: Path, text: str, messages: list[str]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)

    with pytest.raises(ConfigError) as caught:
        find_cluster(str(path))

    message = caught.value.message
    assert [m for m in messages if f"{path}:{m}" not in message] == [], message
    assert all(problem.line for problem in caught.value.problems if problem.file)


def test_a_file_of_a_cluster_that_is_no_yaml_has_its_line_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("executor: slurm\napi_key: sk-secret: z\n")

    with pytest.raises(ConfigError, match=rf"cluster config {path}, line 2") as caught:
        find_cluster(str(path))

    assert "sk-secret" not in caught.value.message


def test_the_shipped_example_is_a_cluster() -> None:
    assert find_cluster("example", environ={})[1].executor == "slurm"


def test_the_shipped_example_explains_every_setting() -> None:
    text = (SHIPPED / "example.yaml").read_text()

    named = set(re.findall(r"^(?:# )?(\w+):", text, re.MULTILINE))
    assert set(ClusterConfig.model_fields) - named == set()


def test_every_option_has_a_flag_and_every_flag_is_an_option() -> None:
    done = CliRunner().invoke(app, ["cluster", "rollouts", "--help"])
    flags = set(re.findall(r"^  (?:-\w, )?--([a-z-]+)", done.output, re.MULTILINE)) - {"help"}

    assert {name.replace("-", "_") for name in flags} == set(RolloutOptions.model_fields)


def test_flags_of_the_field_are_ours_with_dashes() -> None:
    given = ["--input_file=a_b.jsonl", "--num_chunks", "2", "+max_attempts=2", "a_b"]

    assert with_dashes(given) == ["--input-file=a_b.jsonl", "--num-chunks", *given[2:]]


def test_no_cluster_is_this_machine() -> None:
    name, settings = find_cluster(None)

    assert (name, settings.executor) == ("none", "none")


@pytest.mark.parametrize(
    "given",
    [
        {"allow_missing_dep": True},
        {"keep_mounts_for_sandbox": True},
        {"expname": "a b"},
        {"expname": "123"},
        {"gym_path": "/x", "package": "git"},
        {"num_repeats": 0},
        {"input_flie": "x"},
    ],
)
def test_an_option_that_would_be_ignored_or_is_unknown_is_refused(given: dict[str, Any]) -> None:
    assert refusal(**given)


def test_numbers_are_read_from_text_or_given() -> None:
    assert parse_numbers("1,2", "--x") == parse_numbers([1, 2], "--x") == (1, 2)


def test_more_of_a_servers_own_arguments_keep_their_quotes() -> None:
    text = json.dumps({"a b": "$x"})
    server = planned(options(**HOSTED, server_args=f"--chat '{text}'")).jobs[0].components[0]

    assert server.argv[-2:] == ("--chat", text)
