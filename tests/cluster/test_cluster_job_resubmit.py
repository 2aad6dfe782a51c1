"""Submitting a part of a run again: the same plan and scripts, for what is not done."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_runs import World, collected, finish, world

from palestra.cluster.executors.here import HereExecutor
from palestra.cluster.executors.slurm import CommandAnswer, SlurmExecutor
from palestra.cluster.plan import After, Component, PlannedJob, Policy, Role, Run, read_plan
from palestra.cluster.resubmit import resubmit
from palestra.errors import ConfigError, RunFailed


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three chunks, of which the first is done."""
    monkeypatch.setenv("PALESTRA_STATE_DIR", str(tmp_path / "state"))
    made = world(tmp_path, tasks=6, chunks=3, executor="slurm")
    for job in made.run.jobs:
        head = "#!/bin/bash\n#SBATCH --account=mine\n"
        array = "#SBATCH --array=0-2%2\n" if job.array else ""
        command = f"exec python {made.submission.supervisor} {made.submission.plan} {job.name}\n"
        made.submission.script(job.name).write_text(head + array + command)
    collected(made, "rollouts-chunk0")
    finish(made, "rollouts-chunk0")
    return made


@pytest.fixture
def sbatch() -> tuple[list[list[str]], Callable[..., CommandAnswer]]:
    """What sbatch was asked, and an sbatch that numbers jobs from 70 on."""
    asked: list[list[str]] = []

    def run(argv: list[str], _timeout_s: float) -> CommandAnswer:
        asked.append(list(argv))
        return CommandAnswer(0, f"{69 + len(asked)}\n")

    return asked, run


Sbatch = tuple[list[list[str]], Callable[..., CommandAnswer]]


def again(made: World, shards: list[str], sbatch: Sbatch, **more: object) -> Run:
    executor = SlurmExecutor(commands=sbatch[1])
    return resubmit(made.run, shards, executor=executor, **more)[-1]  # type: ignore[arg-type]


def test_what_is_missing_runs_again_and_merge_and_profile_after_it(
    made: World, sbatch: Sbatch
) -> None:
    again(made, ["rollouts-chunk1", "rollouts-chunk2"], sbatch)
    run = read_plan(made.files.submission("0002").plan)
    assert [(job.name, job.shards) for job in run.jobs] == [
        ("shards", ("rollouts-chunk1", "rollouts-chunk2")),
        ("merge", ()),
        ("profile", ()),
    ]
    assert [words[2] for words in sbatch[0][1:]] == [
        "--dependency=afterok:70",
        "--dependency=afterok:71",
    ]
    told = [event for event in made.events("submitted") if event["submission"] == "0002"]
    assert [event["job_id"] for event in told] == ["70", "71", "72"]


def test_scripts_keep_what_was_asked_and_get_the_new_submissions_paths(
    made: World, sbatch: Sbatch
) -> None:
    again(made, ["rollouts-chunk1", "rollouts-chunk2"], sbatch)
    text = made.files.submission("0002").script("shards").read_text()
    assert "#SBATCH --account=mine\n#SBATCH --array=0-1\n" in text
    assert "/0001/" not in text
    assert made.files.submission("0002").supervisor.exists()


def test_one_shard_is_no_array(made: World, sbatch: Sbatch) -> None:
    again(made, ["rollouts-chunk2"], sbatch, active=[("rollouts-chunk1", "5_1")])
    assert "--array" not in made.files.submission("0002").script("shards").read_text()
    merge = made.files.submission("0002").submit_script.read_text()
    assert "afterok:5_1" in merge


def test_a_merge_waits_for_the_last_of_the_jobs_that_go_on_with_a_shard(
    made: World, sbatch: Sbatch
) -> None:
    first = made.run.jobs[0]
    more = replace(first, name="shards-again-1", after=(After("afterany", job=first.name),))
    made.write(jobs=(first, more, *made.run.jobs[1:]))
    script = made.submission.script(first.name)
    made.submission.script(more.name).write_text(script.read_text())
    run = again(made, ["rollouts-chunk1", "rollouts-chunk2"], sbatch)
    assert run.job("shards-again-1").after == (After("afterany", job="shards"),)
    assert run.job("merge").after == (After("afterok", job="shards-again-1"),)


@pytest.mark.parametrize("stamped", [False, True])
def test_rows_that_nobody_could_stamp_are_stamped_before_anything_else(
    made: World, sbatch: Sbatch, stamped: bool
) -> None:
    step = Component("prepare", Role.PREPARE, ("prepare",))
    job = PlannedJob("prepare", (step,), made.run.jobs[0].allocations)
    shards = replace(made.run.jobs[0], after=(After(job="prepare"),))
    collect = replace(made.run.collect, materialized=False)
    made.write(collect=collect, jobs=(job, shards, *made.run.jobs[1:]))
    made.submission.script("prepare").write_text("#!/bin/bash\n")
    if stamped:
        made.files.stamped.write_text("{}")
    run = again(made, ["rollouts-chunk1", "rollouts-chunk2"], sbatch)
    names = ["shards", "merge", "profile"]
    assert [job.name for job in run.jobs] == (names if stamped else ["prepare", *names])
    assert run.job("shards").after == (() if stamped else (After(job="prepare"),))
    assert run.job("merge").after == (After(job="shards"),)


@pytest.fixture
def keyed(made: World) -> World:
    """The same, with an endpoint whose key is in THE_KEY."""
    policy = Policy("scripted", base_url="http://host/v1", api_key_env="THE_KEY")
    return made.write(policy=policy, secrets=("THE_KEY", "HF_TOKEN"))


@pytest.mark.parametrize(
    ("environ", "unset"),
    [
        ({"HF_TOKEN": "t"}, "--policy-api-key-env names the variable THE_KEY"),
        ({"HF_TOKEN": "t", "THE_KEY": ""}, "--policy-api-key-env names the variable THE_KEY"),
        ({"THE_KEY": "k"}, "inherit_env of the cluster config names the variable HF_TOKEN"),
    ],
)
def test_a_variable_without_a_value_is_refused_before_anything_is_written_or_cancelled(
    keyed: World, sbatch: Sbatch, environ: dict[str, str], unset: str
) -> None:
    shards = ["rollouts-chunk1", "rollouts-chunk2"]
    with pytest.raises(ConfigError, match=unset):
        again(keyed, shards, sbatch, environ=environ, stuck=["5"])
    assert sbatch[0] == []
    assert keyed.files.submissions() == ("0001",)


def test_a_merge_needs_no_key(keyed: World, sbatch: Sbatch) -> None:
    for shard in ("rollouts-chunk1", "rollouts-chunk2"):
        collected(keyed, shard)
        finish(keyed, shard)
    run = again(keyed, [], sbatch, environ={"HF_TOKEN": "t"})
    assert [job.name for job in run.jobs] == ["merge", "profile"]


def test_jobs_that_never_start_are_cancelled_before_others_take_their_place(
    made: World, sbatch: Sbatch
) -> None:
    again(made, ["rollouts-chunk2"], sbatch, stuck=["5"])
    assert [words[0] for words in sbatch[0]] == ["scancel", "sbatch"]


def test_nothing_is_merged_while_something_else_is_missing(made: World, sbatch: Sbatch) -> None:
    run = again(made, ["rollouts-chunk2"], sbatch)
    assert [job.name for job in run.jobs] == ["shards"]


def test_a_merge_that_failed_is_all_that_is_submitted(made: World, sbatch: Sbatch) -> None:
    for shard in ("rollouts-chunk1", "rollouts-chunk2"):
        collected(made, shard)
        finish(made, shard)
    run = again(made, [], sbatch)
    assert [(job.name, [after.job for after in job.after]) for job in run.jobs] == [
        ("merge", []),
        ("profile", ["merge"]),
    ]


def test_a_shard_that_nobody_ever_submitted_is_refused(made: World, sbatch: Sbatch) -> None:
    with pytest.raises(RunFailed, match="no earlier submission has the shards rollouts-chunk9"):
        again(made, ["rollouts-chunk9", "rollouts-chunk1"], sbatch)


@pytest.fixture
def grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Seeds 0 and 1 in a first submission, seed 2 in a second one with another server."""
    monkeypatch.setenv("PALESTRA_STATE_DIR", str(tmp_path / "state"))
    first = world(tmp_path, tasks=2, seeds=(0, 1), executor="slurm")
    second = world(tmp_path, tasks=2, seeds=(0, 1, 2), executor="slurm")
    jobs = [replace(job, shards=job.shards[2:], array=False) for job in second.run.jobs[:1]]
    policy = Policy("scripted", base_url="http://host/v1")
    second.write(submission="0002", jobs=(*jobs, *second.run.jobs[1:]), policy=policy)
    for made in (first.write(), second):
        for job in made.run.jobs:
            array = "#SBATCH --array=0-1\n" if job.array else ""
            made.submission.script(job.name).write_text(f"#!/bin/bash\n{array}")
    return second


def script(made: World, run: Run) -> str:
    return made.files.submission(run.submission).script("shards").read_text()


def test_several_shards_run_again_as_an_array_after_one_of_them_ran_alone(
    made: World, sbatch: Sbatch
) -> None:
    again(made, ["rollouts-chunk2"], sbatch)

    run = again(made, ["rollouts-chunk1", "rollouts-chunk2"], sbatch)

    assert "#SBATCH --array=0-1\n" in script(made, run)


def test_shards_of_two_submissions_run_again_each_as_it_was_submitted(
    grown: World, sbatch: Sbatch
) -> None:
    shards = [shard.name for shard in grown.run.shards]

    runs = resubmit(grown.run, shards, executor=SlurmExecutor(commands=sbatch[1]))

    assert [run.submission for run in runs] == ["0003", "0004"]
    assert [run.jobs[0].shards for run in runs] == [tuple(shards[:2]), tuple(shards[2:])]
    assert [run.policy.base_url for run in runs] == [None, "http://host/v1"]
    assert [len(run.jobs) for run in runs] == [1, 3]
    assert ["--array=0-1" in script(grown, run) for run in runs] == [True, False]
    assert runs[1].job("merge").after == (After(job="shards"), After(job_id="70"))


def test_what_runs_again_after_more_seeds_came_is_a_part_of_the_larger_run(
    grown: World, sbatch: Sbatch
) -> None:
    for shard in ("rollouts-rs0", "rollouts-rs2"):
        collected(grown, shard)
        finish(grown, shard)

    run = again(grown, ["rollouts-rs1"], sbatch)

    assert [job.name for job in run.jobs] == ["shards", "merge", "profile"]
    assert (run.shards, run.rollouts) == (grown.run.shards, grown.run.rollouts)


def test_a_first_part_that_fails_on_this_machine_does_not_keep_the_second_from_running(
    grown: World,
) -> None:
    class Failing(HereExecutor):
        def submit(self, run: Run, submitted: Callable[[PlannedJob, str], None], /) -> None:
            raise RunFailed(f"{run.submission} failed")

    local = replace(grown.run, executor="local")
    with pytest.raises(RunFailed, match="0003 failed"):
        resubmit(local, [shard.name for shard in local.shards], executor=Failing())

    assert grown.files.submissions() == ("0001", "0002", "0003", "0004")
    last = read_plan(grown.files.submission("0004").plan)
    assert [job.name for job in last.jobs] == ["shards"]


def test_another_time_limit_is_of_the_jobs_of_shards_alone(made: World, sbatch: Sbatch) -> None:
    for job in made.run.jobs:
        script = made.submission.script(job.name)
        text = script.read_text().partition("\n")
        limits = "#SBATCH --signal=B:USR1@120\n#SBATCH --time=0:10:00\n"
        script.write_text(f"{text[0]}\n{limits}{text[2]}")
    run = again(made, ["rollouts-chunk1", "rollouts-chunk2"], sbatch, time_limit="0:04:00")
    scripts = {name: made.files.submission("0002").script(name) for name in ("shards", "merge")}
    assert run.job("shards").time_limit == "0:04:00"
    assert "#SBATCH --time=0:04:00\n#SBATCH --signal=B:USR1@60\n" in scripts["shards"].read_text()
    assert "--time=0:10:00\n" in scripts["merge"].read_text()
    assert scripts["shards"].read_text().count("--time=") == 1


def test_a_longer_time_limit_brings_the_whole_warning_back(made: World, sbatch: Sbatch) -> None:
    script = made.submission.script("shards")
    text = script.read_text().partition("\n")
    script.write_text(f"{text[0]}\n#SBATCH --signal=B:USR1@120\n{text[2]}")
    short, long = (
        again(made, ["rollouts-chunk1", "rollouts-chunk2"], sbatch, time_limit=limit)
        for limit in ("0:01:00", "4:00:00")
    )
    script = made.files.submission(long.submission).script("shards")

    assert (short.job("shards").warning_s, long.job("shards").warning_s) == (15, 120)
    assert "#SBATCH --signal=B:USR1@120\n" in script.read_text()


def test_a_run_whose_folder_was_moved_is_not_submitted_again(made: World, sbatch: Sbatch) -> None:
    made.files.output_dir.rename(made.folder / "moved")
    with pytest.raises(RunFailed) as caught:
        again(made, ["rollouts-chunk1"], sbatch)
    assert made.run.output_dir in caught.value.message
    assert sbatch[0] == []
