"""One real `palestra collect`, watched from outside: wall and CPU time, memory, rate."""

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import orjson

CONFIGS = (
    "resources_servers/mcqa/configs/mcqa.yaml",
    "responses_api_models/vllm_model/configs/vllm_model.yaml",
)
SAMPLE_EVERY_S = 0.5


@dataclass(slots=True)
class Sample:
    """`rows` had been written `seconds` after the start, with `rss_mib` resident."""

    seconds: float
    rows: float
    rss_mib: float


@dataclass(slots=True)
class Watched:
    """What the command did. `line` is its accounting."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    line: str
    collecting_s: float
    """From the first rollout's start to the last row."""
    samples: list[Sample] = field(default_factory=list)
    exit_code: int = 0
    notices: str = ""


def write_tasks(path: Path, count: int) -> None:
    """Multiple choice questions, each a task of its own."""
    with path.open("wb") as file:
        for number in range(count):
            text = f"Question {number}: which letter comes first? End with \\boxed{{letter}}.\nA: a"
            row = {
                "responses_create_params": {"input": [{"role": "user", "content": text}]},
                "options": [{"A": "a"}, {"B": "b"}],
                "expected_answer": "A",
                "grading_mode": "strict_single_letter_boxed",
            }
            file.write(orjson.dumps(row) + b"\n")


def collect(folder: Path, upstream: str, *extra: str) -> Watched:
    """Run the command over `folder`/tasks.jsonl to its end."""
    output = folder / "rollouts.jsonl"
    log = folder / "log"
    command = [
        *(str(Path(sys.executable).with_name("palestra")), "collect"),
        *(part for config in CONFIGS for part in ("--config", config)),
        *("--agent", "mcqa_simple_agent", "--input", str(folder / "tasks.jsonl")),
        *("--output", str(output), "++head_server.port=1", "++policy_api_key=EMPTY"),
        *(f"++policy_base_url={upstream}", "++policy_model_name=fake", *extra),
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    samples: list[Sample] = []
    first_at: float | None = None
    size = 0
    with log.open("wb") as told, subprocess.Popen(command, stdout=told, stderr=told) as process:
        while process.poll() is None:
            time.sleep(SAMPLE_EVERY_S)
            now = time.monotonic() - started
            if first_at is None and b" rollouts of " in log.read_bytes():
                first_at = now
            size = output.stat().st_size if output.exists() else 0
            samples.append(Sample(now, size, _rss_mib(process.pid)))
    wall_s = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = log.read_text()
    written = next((s.seconds for s in samples if s.rows == size), wall_s)
    return Watched(
        wall_s=wall_s,
        cpu_s=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        peak_mib=max((s.rss_mib for s in samples), default=0.0),
        line=next((t for t in text.splitlines() if t.startswith("requested ")), text[-2000:]),
        collecting_s=written - (first_at or 0.0),
        samples=_as_rows(samples, output),
        exit_code=process.returncode,
        notices=text,
    )


def _as_rows(samples: list[Sample], output: Path) -> list[Sample]:
    """Samples of file sizes turned into rows: all rows have about the same length."""
    if not output.exists() or not output.stat().st_size:
        return samples
    with output.open("rb") as file:
        length = sum(len(file.readline()) for _ in range(100)) / 100
    return [Sample(s.seconds, s.rows / length, s.rss_mib) for s in samples]


def _rss_mib(pid: int) -> float:
    """Resident memory of a process and the processes it started, in MiB."""
    total = 0.0
    for one in (pid, *_children(pid)):
        try:
            pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError, IndexError):
            continue
        total += pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return total


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(one) for one in text.split()]
