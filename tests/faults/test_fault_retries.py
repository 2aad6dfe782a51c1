"""What is tried again is seen within seconds, not after the deadline."""

import time
from pathlib import Path

import pytest
from fake_upstream import Asked, Deed, FakeUpstream, Reply, Reset, serving
from faults_world import World, ended_at_last, free_port, tasks
from victims import in_processes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SEEN_WITHIN_S = 5.0
FAULTS: dict[str, tuple[Deed, str]] = {
    "refuses": (Reply(b""), "Connection refused"),
    "resets": (Reset(), "the connection broke before the answer came"),
    "is busy": (Reply(b"no slot is free", 503, {"retry-after": "60"}), "answered 503"),
    "is broken": (Reply(b"oops", 500), "answered 500"),
}


@pytest.mark.parametrize("placement", ["embedded", "process"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_retry_is_seen_at_once(tmp_path: Path, fault: str, placement: str) -> None:
    deed, says = FAULTS[fault]

    def plan(_asked: Asked) -> Deed:
        return deed

    upstream = FakeUpstream(plan, dies_after_models=fault == "refuses")
    with serving(upstream) as base_url:
        world = World.make(tmp_path / "project", base_url=base_url, steadily=True)
        if fault == "refuses" and placement == "process":
            # The endpoint of a server in a process is not asked for its models first.
            world.base_url = f"http://127.0.0.1:{free_port()}/v1"
        world.write_rows("tasks.jsonl", tasks(5))
        placed = in_processes()[0] if placement == "process" else []
        with ended_at_last(world.start(*world.steady(*placed, "--progress", "none"))) as running:
            running.until("5 rollouts of", timeout_s=60)
            began = time.monotonic()
            running.until("; next try in", timeout_s=SEEN_WITHIN_S)

            assert time.monotonic() - began < SEEN_WITHIN_S
            assert says in running.text()
            running.process.terminate()
            running.ended(timeout_s=15)
