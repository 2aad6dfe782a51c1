"""`palestra doctor` as its users type it."""

import json
import subprocess

import pytest
from cli_world import AGENT, MULTI_STEP, OPENAI, SCRIPTS, TASKS, Done, FakeEndpoint, World

pytestmark = pytest.mark.slow


def arguments(world: World, fake: FakeEndpoint, *more: str) -> list[str]:
    """An examination of what `collect` would do with them."""
    return [
        *("doctor", "--config", MULTI_STEP, "--config", OPENAI, world.head, *fake.policy),
        *("--agent", AGENT, "--output", "out/rollouts.jsonl", "--input", TASKS, *more),
    ]


def causes(done: Done) -> list[str]:
    return [f["cause"] for f in json.loads(done.out)["findings"] if f["severity"] == "error"]


def test_a_clean_run_is_said_to_be_one_and_nothing_is_left(
    world: World, fake: FakeEndpoint
) -> None:
    done = world.run("palestra", *arguments(world, fake))

    assert done.code == 0, done.err
    assert done.out.splitlines()[-2].startswith("0 errors, 0 warnings; ")
    assert "forecast for 5 rollouts" in done.out
    assert world.files() == []


def test_a_refused_key_is_an_error_with_its_layer_and_what_to_do(
    world: World, fake: FakeEndpoint
) -> None:
    fake.models_status = 401

    done = world.run("palestra", *arguments(world, fake))

    assert done.code == 1
    assert "error model serving (model.key-refused): " in done.out
    assert "  do    " in done.out


def test_arguments_that_are_no_runs_are_refused(world: World, fake: FakeEndpoint) -> None:
    asked = [word for word in arguments(world, fake) if word not in {"--input", TASKS}]

    message = world.run("palestra", *asked).refused()

    assert "--input is required" in message


def test_too_few_open_files_are_found_with_the_concurrency_that_fits(
    world: World, fake: FakeEndpoint
) -> None:
    asked = arguments(world, fake, "--repeats", "100", "--concurrency", "400", "--json")
    limited = ["bash", "-c", 'ulimit -n 300; exec "$@"', "bash", str(SCRIPTS / "palestra"), *asked]

    done = subprocess.run(
        limited,
        cwd=world.folder,
        env=world._environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )

    assert causes(Done(done.returncode, done.stdout, done.stderr)) == ["infra.too-few-descriptors"]
    assert "--concurrency 44" in done.stdout


def test_a_fleet_that_runs_is_examined_as_it_is(world: World, fake: FakeEndpoint) -> None:
    fleet = world.start(
        "palestra", "run", "--config", MULTI_STEP, "--config", OPENAI, world.head, *fake.policy
    )
    fleet.until("servers ready!")

    done = world.run(
        "palestra",
        *("doctor", world.head, "--agent", AGENT, "--output", "out/r.jsonl", "--input", TASKS),
        "--json",
    )

    assert done.code == 0, done.out + done.err
    assert fleet.process.poll() is None


BLOCKS = """\
from palestra.schema import VerifyRequest, VerifyResponse
from palestra.server import ResourcesServer


class Forever(ResourcesServer):
    async def verify(self, body: VerifyRequest) -> VerifyResponse:
        while True:
            pass
"""
FOREVER_CONFIG = """\
forever:
  resources_servers:
    forever: {entrypoint: app.py}
forever_agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: forever}
      model_server: {type: responses_api_models, name: policy_model}
"""


@pytest.mark.timeout(90)
def test_a_verifier_that_never_comes_back_is_found_and_the_command_ends(
    world: World, fake: FakeEndpoint
) -> None:
    (world.folder / "resources_servers" / "forever").mkdir(parents=True)
    world.write("resources_servers/forever/app.py", BLOCKS)
    world.write("forever.yaml", FOREVER_CONFIG)
    world.write("rows.jsonl", '{"responses_create_params": {"input": "Say a word."}}\n')

    done = world.run(
        "palestra",
        *("doctor", "--config", "forever.yaml", "--config", OPENAI, world.head, *fake.policy),
        *("--agent", "forever_agent", "--input", "rows.jsonl", "--output", "out/r.jsonl", "--json"),
        timeout_s=80,
    )

    assert done.code == 1
    assert causes(done) == ["verifier.holds-event-loop"]


def test_an_unreachable_endpoint_without_a_models_name_is_no_long_wait(world: World) -> None:
    run = ("--config", MULTI_STEP, "--split", "example", "--output", "out.jsonl", world.head)

    done = world.run(
        "palestra", "doctor", *run, "--model", "vllm:http://127.0.0.1:9/v1", "--json", timeout_s=30
    )

    [finding] = json.loads(done.out)["findings"]
    assert (done.code, finding["cause"]) == (1, "model.unreachable")
