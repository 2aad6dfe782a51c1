"""`python -m benchmarks.doctor [--rows N] [--repeats N] [--rounds N]`: whole commands, medians.

Each row has a prompt of its own and two tools, of which a hundred kinds differ; the endpoint
is a fake that answers at once. Time of the command from start to exit, and of its checks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks import machine
from benchmarks.doctor.endpoint import endpoint
from benchmarks.samples import table

CONFIGS = (
    "resources_servers/example_multi_step/configs/example_multi_step.yaml",
    "responses_api_models/vllm_model/configs/vllm_model.yaml",
)
AGENT = "example_multi_step_simple_agent"
SCRIPTS = Path(sys.executable).parent
SLOWEST = 6


def write_rows(path: Path, count: int, row_bytes: int) -> None:
    """Rows of the environment, no two alike; a hundred different lists of tools."""
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(count, row_bytes))


def rows(count: int, row_bytes: int) -> Iterator[dict[str, object]]:
    """As `write_rows`."""
    filler = "words of a task " * (row_bytes // 16)
    for number in range(count):
        tools = [
            {
                "type": "function",
                "name": name,
                "description": f"Tool {number % 100}",
                "strict": True,
                "parameters": {
                    "type": "object",
                    "properties": {f"argument_{number % 100}": {"type": "string"}},
                    "required": [f"argument_{number % 100}"],
                },
            }
            for name in ("look_up", "hand_in")
        ]
        text = f"Task {number}. {filler}"
        params = {"input": [{"role": "user", "content": text}], "tools": tools}
        yield {"responses_create_params": params, "expected_synonym_values": [number, 1]}


def run_once(folder: Path, url: str, repeats: int) -> dict[str, object]:
    """One command: its wall and CPU seconds, and its report."""
    command = [
        *(str(SCRIPTS / "palestra"), "doctor", "--json"),
        *(word for config in CONFIGS for word in ("--config", config)),
        *("--input", "rows.jsonl", "--output", "out/rollouts.jsonl", "--agent", AGENT),
        *("--repeats", str(repeats), f"++policy_base_url={url}", "++policy_api_key=none"),
        *("++policy_model_name=tiny", "++head_server.port=21999"),
    ]
    before = os.times()
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    wall_s = time.perf_counter() - began
    after = os.times()
    if done.returncode:
        raise SystemExit(f"the doctor ended with {done.returncode}: {done.stdout}{done.stderr}")
    cpu_s = after.children_user + after.children_system
    cpu_s -= before.children_user + before.children_system
    return {"wall_s": wall_s, "cpu_s": cpu_s, "report": json.loads(done.stdout)}


def main() -> None:
    """Write rows, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doctor", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--row-bytes", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(machine.description())
    with tempfile.TemporaryDirectory(prefix="doctor-") as name, endpoint() as url:
        folder = Path(name)
        write_rows(folder / "rows.jsonl", options.rows, options.row_bytes)
        print(f"{options.rows} rows, {options.repeats} repeats, {options.rounds} rounds")
        print(f"load average before: {machine.load()}")
        found = [run_once(folder, url, options.repeats) for _ in range(options.rounds)]
        print(f"load average after:  {machine.load()}")
    walls = [run["wall_s"] for run in found]
    cpus = [run["cpu_s"] for run in found]
    print(f"\nwall s: median {median(walls):.2f}, most {max(walls):.2f}; ", end="")
    print(f"CPU s: median {median(cpus):.2f}\n")
    checks = sorted(found[-1]["report"]["checks"], key=lambda check: -check["seconds"])
    lines = [(c["name"], c["layer"], f"{c['seconds']:.2f}") for c in checks[:SLOWEST]]
    print(table(("check", "layer", "s"), lines))


if __name__ == "__main__":
    main()
