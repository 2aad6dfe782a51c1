"""A run is continued as what it was: what changes rewards is refused, how work is done is not."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_upstream import FakeUpstream, serving, steady
from fault_plan import prompt_of
from faults_world import Done, World, free_port

from forked_commands import ForkedCommands

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

TASKS, ENDED = 4, 2
ENVIRONMENT = "fault_environment.resources_servers.fault_environment"
VERIFIER = "resources_servers/fault_environment/app.py"
HELPER = "resources_servers/fault_environment/scoring.py"
Change = Callable[[World], list[str]]
"""Changes a world and gives the arguments to go on with."""


def write(world: World, name: str, text: str) -> None:
    (world.folder / name).write_text(text)


def append(name: str, text: str) -> Change:
    def change(world: World) -> list[str]:
        path = world.folder / name
        path.write_text(path.read_text() + text)
        return []

    return change


def edited(name: str, old: str, new: str) -> Change:
    def change(world: World) -> list[str]:
        path = world.folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        return []

    return change


def reversed_rows(world: World) -> list[str]:
    world.write_rows("tasks.jsonl", reversed(world.rows("tasks.jsonl")))
    return []


def given(*arguments: str) -> Change:
    return lambda _world: list(arguments)


@pytest.fixture(scope="module")
def begun(
    tmp_path_factory: pytest.TempPathFactory, commands: ForkedCommands | None
) -> Iterator[World]:
    """A run of four rollouts, of which two have ended."""
    folder = tmp_path_factory.mktemp("stale") / "project"
    world = World.make(folder, steadily=True, commands=commands)
    rows = [{"question": prompt_of(n), "name": f"task {n}"} for n in range(TASKS)]
    world.write_rows("tasks.jsonl", rows)
    write(world, "prompt.yaml", 'user: "{question}"\n')
    write(world, HELPER, "STRICT = True\n")
    with serving(FakeUpstream(steady())) as world.base_url:
        done = world.run(*command(world))
        assert done.code == 0, done.said
        path = world.folder / "run.jsonl"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:ENDED]))
        yield world


def command(world: World, *arguments: str, tasks: str = "tasks.jsonl") -> list[str]:
    return world.steady("--prompt-config", "prompt.yaml", *arguments, tasks=tasks)


def gone_on(begun: World, folder: Path, change: Change) -> tuple[World, dict[str, bytes], Done]:
    """Change a copy of the run, and try to go on with it."""
    shutil.copytree(begun.folder, folder / "project")
    world = replace(begun, folder=folder / "project")
    before = world.outputs()
    # Last, so that they win over what the run began with.
    return world, before, world.run(*command(world, "--resume", *change(world)))


REFUSED: dict[str, tuple[Change, list[str]]] = {
    "an input row": (
        edited("tasks.jsonl", "Task 1:", "Task 9:"),
        ["the input rows differ"],
    ),
    "a field of a row": (
        edited("tasks.jsonl", '"task 1"', '"task one"'),
        ["the input rows differ"],
    ),
    "the order of rows": (reversed_rows, ["the input rows differ"]),
    "limit": (given("--limit", "3"), ["rollouts requested: 4 -> 3"]),
    "num_repeats": (given("--num-repeats", "2"), ["num_repeats: 1 -> 2"]),
    "seeds": (given("--num-repeats-add-seed"), ["num_repeats_add_seed: false -> true"]),
    "the model": (
        given("++policy_model_name=big"),
        ["servers.policy_model.settings.openai_model: 'tiny' -> 'big'"],
    ),
    "the temperature": (
        given("++responses_create_params.temperature=0.7"),
        ["responses_create_params.temperature: absent -> 0.7"],
    ),
    "the prompt": (
        edited("prompt.yaml", "{question}", "Please: {question}"),
        ["prompt: ", "{question}", "-> ", "Please: {question}"],
    ),
    "a setting of the verifier": (
        given(f"++{ENVIRONMENT}.strictness=2.5"),
        ["servers.fault_environment.settings.strictness: absent -> 2.5"],
    ),
    "the agent": (
        given("--agent", "second_agent"),
        ["agent_name: 'steady_agent' -> 'second_agent'"],
    ),
    "a setting of the agent": (
        given("++steady_agent.responses_api_agents.simple_agent.max_steps=3"),
        ["servers.steady_agent.settings.max_steps: absent -> 3"],
    ),
    "the verifier's code": (append(VERIFIER, "# stricter\n"), ["code.fault_environment.app.py: "]),
    "a module beside the verifier": (
        edited(HELPER, "True", "False"),
        ["code.fault_environment.scoring.py: "],
    ),
}

GOES_ON: dict[str, Change] = {
    "nothing": given(),
    "concurrency": given("--concurrency", "1"),
    "the endpoint": lambda world: [f"++policy_base_url={world.base_url}/"],
    "the key": given("++policy_api_key=sk-quite-another-key"),
    "max_attempts": given("--max-attempts", "7"),
    "rollout_timeout": given("--rollout-timeout", "11"),
    "min_coverage": given("--min-coverage", "0.5"),
    "progress": given("--progress", "plain"),
    "aggregation": given("++disable_aggregation=true"),
    "a port": lambda _world: [f"++{ENVIRONMENT}.port={free_port()}"],
    "num_workers": given(f"++{ENVIRONMENT}.num_workers=2"),
    "placement": given(f"++{ENVIRONMENT}.placement=process"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_run_is_not_continued_as_another(begun: World, tmp_path: Path, what: str) -> None:
    change, says = REFUSED[what]
    world, before, done = gone_on(begun, tmp_path, change)
    error = done.refused()

    assert "was made from something else" in error
    for words in says:
        assert words in error, error
    assert world.outputs() == before


@pytest.mark.parametrize("what", GOES_ON)
def test_how_the_work_is_done_may_change(begun: World, tmp_path: Path, what: str) -> None:
    _, _, done = gone_on(begun, tmp_path, GOES_ON[what])

    check_gone_on(done)


def test_the_input_file_may_have_another_name(begun: World, tmp_path: Path) -> None:
    shutil.copytree(begun.folder, tmp_path / "project")
    world = replace(begun, folder=tmp_path / "project")
    (world.folder / "tasks.jsonl").rename(world.folder / "same_tasks.jsonl")

    check_gone_on(world.run(*command(world, "--resume", tasks="same_tasks.jsonl")))


def check_gone_on(done: Done) -> None:
    assert done.code == 0, done.said
    assert f"resuming: {ENDED} of {TASKS} rollouts have ended already" in done.err
    assert f"requested {TASKS} = scored {TASKS} + failed 0" in done.out
