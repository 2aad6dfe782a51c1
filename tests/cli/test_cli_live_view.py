"""The live view of a real collection on a pseudo-terminal."""

import threading

import pytest
from cli_world import AGENT, MULTI_STEP, OPENAI, TASKS, FakeEndpoint, World
from tiny_terminal import Pty

pytestmark = pytest.mark.slow


def test_a_collection_on_a_terminal_shows_what_it_waits_for_and_keeps_its_last_state(
    world: World, fake: FakeEndpoint
) -> None:
    released = threading.Event()
    fake.before_answer = lambda asked: asked <= 3 or released.wait(30)
    pty = Pty(80, 24)
    process = world.start_on(
        pty.slave,
        *("palestra", "collect", "--config", MULTI_STEP, "--config", OPENAI, world.head),
        *(*fake.policy, "--agent", AGENT, "--input", TASKS, "--output", "rollouts.jsonl"),
    )
    try:
        pty.shows(" 60.0% ━")
        pty.until(lambda: "policy_mod…" in pty.screen.text)
        pty.resize(60, 20)
        pty.shows("3 of 5 done")
        released.set()
        pty.shows("requested 5 = scored 5")
        process.wait(timeout=20)
        pty.shows("rollouts_aggregate_metrics.json")
    finally:
        process.kill()
        process.wait()
        pty.close()

    text = pty.screen.text
    assert text.index("5 rollouts of 5 tasks") < text.index("100.0% ━") < text.index("requested 5")
    assert text.count("% ━") == 1  # one frame, painted again and again
    assert process.returncode == 0
