"""A run whose endpoint refuses everything stops, and goes on once the endpoint answers."""

import pytest
from cli_world import FakeEndpoint, World, free_port

ENV = """
from palestra import environment


@environment(data=[{"n": n} for n in range(4)], prompt="{n}", name="my_env")
def verify(answer):
    return 1.0
"""
EMBEDDED: tuple[str, ...] = ()
IN_PROCESSES = ("++policy_model.responses_api_models.openai_model.placement=process",)


def evaluated(fake: FakeEndpoint, *more: str) -> list[str]:
    model = ["--model", "openai:tiny", *fake.policy]
    return ["eval", "my_env.py", *model, "--output", "out/r.jsonl", "--concurrency", "1", *more]


def busy_after(fake: FakeEndpoint, answers: int) -> None:
    """Answer so many requests, and refuse all others."""
    fake.before_answer = lambda asked: setattr(fake, "status", 429 if asked > answers else 200)


@pytest.mark.slow
@pytest.mark.parametrize("placement", [EMBEDDED, IN_PROCESSES], ids=["embedded", "process"])
def test_nothing_but_refusals_stops_the_run_and_resuming_goes_on(
    world: World, fake: FakeEndpoint, placement: tuple[str, ...]
) -> None:
    world.write("my_env.py", ENV)
    busy_after(fake, 2)

    stopped = world.run("palestra", *evaluated(fake, "--patience", "1.5", *placement))

    assert stopped.code == 1
    assert "answered 429" in stopped.err
    assert "were refused" in stopped.err
    assert "--resume" in stopped.err
    assert len(world.rows("out/r.jsonl")) == 2
    assert all(row["ended_run"] for row in world.rows("out/r_failures.jsonl"))

    busy_after(fake, 1000)
    done = world.run("palestra", *evaluated(fake, "--resume", *placement))

    assert done.code == 0, done.err
    assert len(world.rows("out/r.jsonl")) == 4


@pytest.mark.slow
def test_what_is_waited_for_is_said_with_its_end(world: World, fake: FakeEndpoint) -> None:
    world.write("my_env.py", ENV)
    busy_after(fake, 0)

    refused = world.run("palestra", *evaluated(fake, "--patience", "1.5")).err

    assert "; next try in" in refused
    assert "giving up at" in refused


@pytest.mark.slow
@pytest.mark.parametrize("value", ["-1", "soon"])
def test_a_patience_that_is_none_is_refused(world: World, fake: FakeEndpoint, value: str) -> None:
    world.write("my_env.py", ENV)

    assert "patience" in world.run("palestra", *evaluated(fake, f"--patience={value}")).refused()


@pytest.mark.slow
def test_a_run_of_which_nothing_has_ended_is_not_to_be_resumed(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("my_env.py", ENV)
    busy_after(fake, 0)

    refused = world.run("palestra", *evaluated(fake, "--patience", "0.5"))

    assert refused.code == 1
    assert "hint: --patience SECONDS" in refused.err
    assert "--resume" not in refused.err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "tiny@"])
def test_an_endpoint_that_is_down_at_the_start_is_waited_for_as_long(
    world: World, name: str
) -> None:
    world.write("my_env.py", ENV)
    url = f"http://127.0.0.1:{free_port()}/v1"

    done = world.run(
        *("palestra", "eval", "my_env.py", "--model", f"vllm:{name}{url}", "--patience", "1"),
        timeout_s=25,
    )

    assert done.code == 1
    [error] = done.errors
    assert "policy_model has no endpoint after 1 s" in error
    assert url in error
    [waiting] = [line for line in done.err.splitlines() if "waiting for its endpoint" in line]
    assert "giving up at" in waiting
    assert url in waiting
