"""One process of the benchmark: `python -m ...fleet_ready PLACEMENT` starts a fleet and stops it.

reasoning_gym, its simple agent, and a vllm_model in front of an address where nothing is: no
server needs its endpoint in order to start. Prints the seconds from the start of this process
to a fleet that is ready; stopping is not in them.
"""

import os
import sys
import time
from pathlib import Path

import uvloop

from palestra.config import load_config
from palestra.fleet import Fleet

CONFIGS = (
    "resources_servers/reasoning_gym/configs/reasoning_gym.yaml",
    "responses_api_models/vllm_model/configs/vllm_model.yaml",
)
POLICY = {
    "policy_base_url": "http://127.0.0.1:9/v1",
    "policy_api_key": "EMPTY",
    "policy_model_name": "nothing",
}


def age_s() -> float:
    """Seconds since this process began, to a hundredth."""
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


async def main(placement: str) -> None:
    """Start, say how long it took, stop."""
    config = load_config(config_paths=CONFIGS, extra=POLICY, use_env_yaml=False)
    async with Fleet(config, default_placement=placement):
        print(f"{age_s():.3f}", flush=True)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
