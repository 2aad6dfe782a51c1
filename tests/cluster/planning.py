"""Plans as tests of planning need them: options that are right, and one thing changed."""

from pathlib import Path
from typing import Any

from palestra.cluster.components import Facts
from palestra.cluster.configs import ClusterConfig, find_cluster
from palestra.cluster.options import checked_options
from palestra.cluster.plan import Run
from palestra.cluster.planner import plan_run
from palestra.cluster.render import script
from palestra.cluster.stamping import shards_of
from palestra.settings import RolloutOptions

BASE: dict[str, Any] = {
    "config_paths": ("a.yaml",),
    "input_file": "in.jsonl",
    "output_dir": "out",
    "agent_name": "agent",
}
HOSTED: dict[str, Any] = {"model": "/models/m", "server_type": "vllm", "server_gpus": 8}
PYXIS: dict[str, Any] = {
    "executor": "slurm",
    "runtime": "pyxis",
    "containers": {"vllm": "vllm.sqsh", "gym": "gym.sqsh", "sandbox": "sandbox.sqsh"},
    "mounts": ["/lustre/models:/models:ro"],
}


def options(**given: Any) -> RolloutOptions:
    return checked_options(**{**BASE, **given})


def cluster(**given: Any) -> ClusterConfig:
    return find_cluster({"executor": "slurm", **given})[1]


def facts(asked: RolloutOptions, **given: Any) -> Facts:
    shards = shards_of(asked.seeds, asked.num_chunks)
    known: dict[str, Any] = {
        "output_dir": "/lustre/out",
        "log_dir": "/lustre/out/logs",
        "submission": "0001",
        "python": "/usr/bin/python3",
        "config_paths": asked.config_paths,
        "input_file": asked.input_file,
        "shards": shards,
        "wanted": tuple(shard.name for shard in shards),
    }
    return Facts(**{**known, **given})


def planned(
    asked: RolloutOptions | None = None, on: ClusterConfig | None = None, **given: Any
) -> Run:
    asked = asked or options()
    return plan_run(asked, on or cluster(), "test", facts(asked, **given))


def scripts(run: Run, asked: RolloutOptions, on: ClusterConfig) -> dict[str, str]:
    return {job.name: script(run, job, asked, on) for job in run.jobs}


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
