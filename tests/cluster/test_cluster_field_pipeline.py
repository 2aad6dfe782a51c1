"""Calls as they stand in the documents of the field's pipeline, in an empty folder."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from installed_wheel import Installation
from palestra.cli.clustering.main_steps import prepare_run
from palestra.cluster import Submission, nemo_gym_rollouts, run_cmd, wrap_arguments
from palestra.cluster.nemo_skills.pipeline.cli import run_cmd as pipeline_run_cmd
from palestra.cluster.plan import read_plan
from palestra.compat import aliases
from palestra.config import PACKAGE_ROOT
from palestra.errors import ConfigError, InputDataError

KEY = "sk-canary-0123456789"
GIVEN: dict[str, Any] = {
    "config_paths": "resources_servers/mcqa/configs/mcqa.yaml,"
    "responses_api_models/vllm_model/configs/vllm_model.yaml",
    "input_file": "resources_servers/mcqa/data/example.jsonl",
    "output_dir": "out",
}
HOSTED = {"server_address": "http://host.invalid/v1", "model": "m"}
STARTED = {"server_type": "vllm", "server_gpus": 8, "model": "m"}
OVERRIDES = (
    "+agent_name=mcqa_simple_agent +num_samples_in_parallel=64 "
    "+responses_create_params.temperature=1.0"
)


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALESTRA_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def tried(overrides: str = OVERRIDES, **options: Any) -> Submission:
    """A dry run of the field's call."""
    ctx = wrap_arguments(overrides)
    return nemo_gym_rollouts(ctx=ctx, **{**GIVEN, **HOSTED, "dry_run": True, **options})


def test_overrides_that_options_decide_fill_them() -> None:
    collect = tried(num_samples_in_parallel=64).run.collect

    assert (collect.agent_name, collect.num_samples_in_parallel) == ("mcqa_simple_agent", 64)
    assert collect.collect_overrides == ("+responses_create_params.temperature=1.0",)
    with pytest.raises(ConfigError, match="--num-samples-in-parallel has more than one value"):
        tried(num_samples_in_parallel=8)


@pytest.mark.slow
@pytest.mark.parametrize(("beside", "code"), [([], 0), (["--num_samples_in_parallel=8"], 2)])
def test_overrides_at_the_end_of_the_command_line_do_so_too(
    beside: list[str], code: int, installation: Installation
) -> None:
    options = [f"--{name}={value}" for name, value in {**GIVEN, **HOSTED}.items()]
    command = installation.scripts / "nemo_gym_rollouts"

    done = subprocess.run(
        [command, *options, "--dry_run", *beside, *OVERRIDES.split()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == code, done.stderr
    assert ("--num-samples-in-parallel" in done.stderr) == bool(code)


def test_whole_nodes_of_a_partition_without_a_cluster_are_a_warning() -> None:
    notices = tried(exclusive=True, partition="gpu").notices

    assert [text for text in notices if "--partition, --exclusive" in text]


def test_a_placeholder_is_a_key_and_a_real_key_only_by_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tried(**{**HOSTED, "server_address": None, **STARTED}, policy_api_key="dummy").run
    assert not started.collect.serve_overrides

    for where in ({}, {"server_address": None, **STARTED}):
        with pytest.raises(ConfigError, match="--policy-api-key-env") as refused:
            tried(**where, policy_api_key=KEY, output_dir="other")
        assert KEY not in str(refused.value)
    with pytest.raises(ConfigError, match="--policy-api-key-env") as refused:
        tried(policy_api_key=1234567890123, output_dir="other")
    assert "1234567890123" not in str(refused.value)
    with pytest.raises(ConfigError, match="--policy-api-key-env") as refused:
        tried(f"{OVERRIDES} +policy_api_key=1234567890123", output_dir="other")
    assert "1234567890123" not in str(refused.value)
    assert not (tmp_path / "other").exists()

    # As `--policy_api_key=$MY_KEY` gives it.
    monkeypatch.setenv("MY_KEY", KEY)
    assert tried(policy_api_key=KEY, output_dir="third").run.policy.api_key_env == "MY_KEY"


@pytest.mark.parametrize("there", [True, False])
def test_a_relative_path_is_looked_for_in_the_jobs_checkout_before_a_model_loads(
    tmp_path: Path, *, there: bool
) -> None:
    gym = tmp_path / "image" / "Gym"
    on = {"executor": "slurm", "runtime": "pyxis", "containers": {"gym": "g", "vllm": "v"}}
    where = {"cluster": on, "gym_path": str(gym), "server_address": None, **STARTED}
    paths = {"config_paths": "my/mcqa.yaml,my/model.yaml", "input_file": "my/rows.jsonl"}
    submission = tried(**paths, **where)
    for name, source in zip(
        ("mcqa.yaml", "model.yaml", "rows.jsonl"),
        (*GIVEN["config_paths"].split(","), GIVEN["input_file"]),
        strict=True,
    ):
        (gym / "my").mkdir(parents=True, exist_ok=True)
        if there or name != "rows.jsonl":
            (gym / "my" / name).write_bytes((PACKAGE_ROOT / source).read_bytes())

    plan = submission.folder / "plan.json"
    assert read_plan(plan).jobs[0].name == "prepare"
    assert not [m for m in read_plan(plan).jobs[0].main.mounts if str(gym) in m.source]
    if there:
        assert prepare_run(plan) == 0
    else:
        with pytest.raises(InputDataError, match=r"image/Gym/my/rows\.jsonl"):
            prepare_run(plan)


SCRIPT = """
from nemo_skills.pipeline.cli import nemo_gym_rollouts, run_cmd, wrap_arguments

cluster = {
    "executor": "slurm",
    "runtime": "pyxis",
    "containers": {"vllm": "vllm.sqsh"},
}
run_cmd(
    ctx=wrap_arguments(""),
    cluster=cluster,
    command="python -c 'print({host})'",
    container="vllm",
    expname="hello",
    partition="cpu",
    num_gpus=0,
    dry_run=True,
)
"""


@pytest.mark.slow
def test_a_script_of_the_field_submits_a_command_as_one_job(
    tmp_path: Path, installation: Installation
) -> None:
    Path("submit.py").write_text(SCRIPT)

    subprocess.run([installation.scripts / "python", "submit.py"], timeout=60, check=True)

    folder = tmp_path / "hello" / "cluster" / "0001"
    (job,) = read_plan(folder / "plan.json").jobs
    assert job.main.argv == ("bash", "-c", "python -c 'print({host})'")
    assert (job.main.container, job.main.gpus, job.requeue) == ("vllm.sqsh", 0, False)
    assert "#SBATCH --partition=cpu" in (folder / "command.sh").read_text()


@pytest.mark.slow
def test_a_command_runs_here_with_its_words_as_they_are(
    tmp_path: Path, installation: Installation
) -> None:
    ns = installation.scripts / "ns"
    words = ["echo", "two  words", "--my_flag={host}"]

    subprocess.run(
        [ns, "run_cmd", "--num_gpus=0", "--expname=hello", *words], timeout=60, check=True
    )

    (log,) = (tmp_path / "hello" / "logs").glob("command_command_*.log")
    assert log.read_text() == "two  words --my_flag={host}\n"
    status = [installation.scripts / "palestra", "cluster", "status", "hello"]
    done = subprocess.run(status, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "hello: done 1" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "--command"),
        ({"command": "true", "extra": ["true"]}, "twice"),
        ({"command": "true", "comand": "true"}, "did you mean 'command'"),
        ({"command": "true", "container": "gym"}, "runs no containers"),
        ({"command": "true", "num_nodes": 2}, "executor none has one"),
        ({"command": "true", "num_gpus": -1}, "num_gpus"),
        ({"command": f"curl -H {KEY}", "dry_run": True}, "MY_KEY"),
    ],
)
def test_a_command_that_cannot_be_a_job_is_refused_before_anything_is_written(
    given: dict[str, Any], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)

    with pytest.raises(ConfigError, match=named):
        run_cmd(expname="hello", **given)

    assert not (tmp_path / "hello").exists()


def test_a_line_of_bash_may_come_in_ctx_and_a_folder_holds_one_kind_of_run() -> None:
    line = "cd /tmp && echo 'a  b'"

    done = pipeline_run_cmd(ctx=wrap_arguments(line), expname="hello", dry_run=True)

    assert done.run.jobs[0].main.argv[2] == line
    with pytest.raises(ConfigError, match="not rollouts"):
        tried(output_dir="hello")
    tried()
    with pytest.raises(ConfigError, match="has a run of rollouts"):
        run_cmd(command="true", expname="out", dry_run=True)
    with pytest.raises(ConfigError, match="No closing quotation"):
        wrap_arguments("+agent_name='x")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "from nemo_skills.pipeline.cli import run_cm",
            "`pipeline.cli.run_cm`.*`pipeline.cli.run_cmd`",
        ),
        ("import nemo_skills.pipeline.client", "`pipeline.client`.*`pipeline.cli`"),
        ("import nemo_skills.training", "NeMo Skills' `training` is not provided by Palestra"),
    ],
)
def test_what_is_not_provided_is_named_with_the_nearest_name(statement: str, message: str) -> None:
    aliases.install()

    with pytest.raises(ImportError, match=message):
        exec(statement, {})


@pytest.mark.slow
def test_an_installed_nemo_skills_is_the_one_that_is_meant(tmp_path: Path) -> None:
    package, metadata = tmp_path / "nemo_skills", tmp_path / "nemo_skills-1.dist-info"
    package.mkdir()
    metadata.mkdir()
    (package / "__init__.py").write_text("def app():\n    print('theirs')\n")
    (metadata / "METADATA").write_text("Name: nemo_skills\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[console_scripts]\nns = nemo_skills:app\n")
    told = {}

    for name, command in {
        "script": [str(Path(sys.executable).with_name("ns"))],
        "import": [sys.executable, "-c", "import nemo_skills; nemo_skills.app()"],
        "rest": [sys.executable, "-c", "import nemo_skills.pipeline"],
    }.items():
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        told[name] = (done.stdout + done.stderr).splitlines()[-1]

    assert told["script"] == told["import"] == "theirs"
    assert told["rest"] == "ModuleNotFoundError: No module named 'nemo_skills.pipeline'"
