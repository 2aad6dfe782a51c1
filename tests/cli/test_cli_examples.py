"""The examples in the help of the commands: each one works in a folder that has its files."""

import importlib.metadata
import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_world import World, free_port

from forked_commands import ForkedCommands
from palestra.cli.examples import EXAMPLES
from palestra.config import PACKAGE_ROOT
from palestra.testing import scripted_endpoint

LOCAL_MODEL = "responses_api_models/local_model/configs/local_model.yaml"
VLLM_MODEL = "responses_api_models/vllm_model/configs/vllm_model.yaml"
PLACEHOLDER_URL = "http://127.0.0.1:8000/v1"
MY_RUN = f"""
config_paths: [resources_servers/mcqa/configs/mcqa.yaml, {VLLM_MODEL}]
my_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {{type: resources_servers, name: mcqa}}
      model_server: {{type: responses_api_models, name: policy_model}}
"""
MY_ENV = """
import json
from palestra import environment

@environment(
    data=[{"question": f"{at}+1", "total": 1 + at} for at in range(40, 46)],
    prompt="{question}",
    gold="{total}",
)
def verify(answer: str, total: int) -> float:
    return float(answer.strip() == str(total))
"""
CHANGES_THE_MACHINE = ("palestra completion bash --install", "palestra models fetch local")
SERVES = (
    "palestra run",
    "palestra serve-",
    "palestra sandbox serve",
    "palestra view",
    "ng_run",
    "ng_viewer",
)
"""Commands that serve until Ctrl-C."""
OUTSIDE = (
    *("palestra dataset upload", "palestra dataset download", "palestra dataset migrate"),
    *("palestra dataset delete", "palestra benchmark prepare"),
    *("palestra cluster status", "palestra cluster logs", "palestra cluster retry-failed"),
    *("palestra cluster cancel", "palestra cluster merge-", "palestra status"),
    *("ng_upload", "ng_download", "ng_delete", "ng_gitlab", "ng_status"),
)
"""Commands that need a registry, a cluster's run, a benchmark or a fleet."""
ADDED = {"palestra cluster rollouts": " --dry-run"}
CODES = {
    "palestra compare out/before.jsonl out/after.jsonl --gate --tolerance 0.01": (0, 1),
    "palestra diagnose run.log": (1,),
}
"""The exit codes of examples that find something."""
OVER = ("palestra collect", "palestra doctor --config", "ng_collect", "palestra reverify")
"""Commands that write the run which the others read."""
LINES = sorted({line for lines in EXAMPLES.values() for line in lines})


def _of_ng() -> list[str]:
    """The programs whose help may have an example."""
    scripts = importlib.metadata.entry_points(group="console_scripts")
    return sorted(script.name for script in scripts if script.name.startswith("ng_"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with scripted_endpoint(*[r"\boxed{A}", r"\boxed{D}"] * 2_000) as made:
        yield made.url


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, url: str) -> Path:
    """A folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    world = World(folder, tmp_path_factory.mktemp("run"), free_port())
    world.write("my_run.yaml", MY_RUN)
    world.write("my_env.py", MY_ENV)
    world.write(
        "env.yaml",
        f"policy_base_url: {url}\npolicy_api_key: x\npolicy_model_name: scripted\n"
        f"head_server: {{port: {world.head_port}}}\n",  # no fleet of this machine is asked
    )
    example = (PACKAGE_ROOT / "resources_servers/mcqa/data/example.jsonl").read_text()
    rows = [json.loads(line) for line in example.splitlines()]
    tasks = [{**rows[at % len(rows)], "uuid": str(at), "topic": f"t{at % 3}"} for at in range(18)]
    world.write("tasks.jsonl", "".join(json.dumps(task) + "\n" for task in tasks))
    world.write("rows.jsonl", '{"question": "1+1"}\n')
    world.write("prompt.yaml", 'user: "{question}"\n')
    world.write("questions.csv", "question,A,B,expected_answer\n1+1?,1,2,B\n")
    world.write("prepare.py", "print('prepared')\n")
    world.write("run.log", "Traceback (most recent call last):\nMemoryError\n")
    agent = ("--config", "my_run.yaml", "--agent", "my_agent", "--input", "tasks.jsonl")
    for output, further in (
        ("out/rollouts.jsonl", ("--repeats", "4")),
        *((f"out/shard-{at}.jsonl", ("--shard", f"{at}/2")) for at in range(2)),
    ):
        done = world.run("palestra", "collect", *agent, "--output", output, *further)
        assert done.code == 0, done.err
    for name in (
        "out/before",
        "out/after",
        "out/a",
        "out/b",
        "out/c",
        "runs/mcqa-20260301-120000/rollouts",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        for file in (folder / "out").glob("rollouts*"):
            ending = file.name.removeprefix("rollouts")
            shutil.copy(file, folder / f"{name}{ending}")
    return folder


@pytest.fixture
def place(prepared: Path, tmp_path: Path, commands: ForkedCommands | None) -> World:
    """A copy of that folder, where no hub is reached."""
    folder = tmp_path / "work"
    shutil.copytree(prepared, folder)
    (tmp_path / "run").mkdir()
    world = World(folder, tmp_path / "run", free_port(), commands=commands)
    world.environment["HF_ENDPOINT"] = "http://127.0.0.1:9"
    return world


def _begin(place: World, words: list[str]) -> None:
    """Start the run that an example continues, and stop it with a part of its rollouts."""
    assert place.run(words[0], *words[1:]).code == 0
    manifests = place.folder.glob("*/**/*_manifest.json")
    newest = max(manifests, key=lambda path: path.stat().st_mtime)
    output = newest.with_name(newest.name.replace("_manifest.json", ".jsonl"))
    output.write_text("".join(output.read_text().splitlines(keepends=True)[:-1]))


def typed(line: str, url: str) -> list[str]:
    """The words of an example, with the endpoint and the models that are here."""
    further = next((words for start, words in ADDED.items() if line.startswith(start)), "")
    here = (
        (line + further)
        .replace(PLACEHOLDER_URL, url)
        .replace("--model local", f"--model vllm:{url}")
    )
    return shlex.split(here.replace(LOCAL_MODEL, VLLM_MODEL))


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [line for line in LINES if not line.startswith((*SERVES, *OUTSIDE, *CHANGES_THE_MACHINE))],
)
def test_an_example_of_the_help_works(place: World, url: str, line: str) -> None:
    if line.startswith(OVER):
        shutil.rmtree(place.folder / "out")
    if "reverify" in line:
        first = f"palestra eval my_env.py --model vllm:{url} --output out/rollouts.jsonl"
        assert place.run(*shlex.split(first)).code == 0
    if "--resume" in line:
        _begin(place, typed(line.replace(" --resume", ""), url))
    if "test my_env" in line:
        assert place.run("palestra", "init", "my_env").code == 0
    words = typed(line, url)

    done = place.run(words[0], *words[1:])

    assert done.code in CODES.get(line, (0,)), done.out + done.err


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in LINES if line.startswith(OUTSIDE)])
def test_an_example_that_needs_the_network_lacks_no_setting(
    place: World, url: str, line: str
) -> None:
    words = typed(line, url)
    if words[1] == "dataset" and words[2] != "delete":
        words += ["--network-deadline", "1"]
    words = [word.replace("60", "1") for word in words]  # no fleet comes

    done = place.run(words[0], *words[1:])

    assert "is required" not in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("program", _of_ng())
def test_every_program_of_the_field_explains_itself(world: World, program: str) -> None:
    done = world.run(program, "--help")

    assert done.code == 0, done.err
    assert done.out.startswith(f"{program}: ")
    examples = [line for line in done.out.splitlines() if line.startswith("example: ")]
    assert all(line.startswith(f"example: {program} ") for line in examples)


@pytest.mark.slow
@pytest.mark.parametrize(
    "program", [name for name in _of_ng() if not name.startswith((*SERVES, *OUTSIDE))]
)
def test_an_example_of_a_program_of_the_field_works(place: World, url: str, program: str) -> None:
    helped = place.run(program, "--help").out
    examples = [line for line in helped.splitlines() if line.startswith("example: ")]
    if not examples:
        pytest.skip("it has no example")
    if "my_env" in examples[0] and program != "ng_init_resources_server":
        assert place.run("palestra", "init", "my_env").code == 0
    words = typed(examples[0].removeprefix("example: "), url)
    if program.startswith(OVER):
        shutil.rmtree(place.folder / "out")

    done = place.run(words[0], *words[1:])

    assert done.code == 0, done.out + done.err
