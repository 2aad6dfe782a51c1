"""The exit codes and outputs of `gym`."""

import json
import tomllib
from pathlib import Path

import pytest
from cli_world import Done, World

CONFIG = """
{name}_server:
  resources_servers:
    {name}:
      entrypoint: app.py
      domain: math
      description: Sums of {name}
"""
APP = """
from palestra.server import ResourcesServer

class Server(ResourcesServer):
    pass
"""

RUN = ("eval", "run", "--split", "example", "--output", "o.jsonl")


def gym(world: World, *words: str) -> Done:
    return world.run("palestra", "gym", *words)


def add_server(root: Path, name: str) -> None:
    folder = root / "resources_servers" / name
    (folder / "configs").mkdir(parents=True)
    (folder / "configs" / f"{name}.yaml").write_text(CONFIG.format(name=name))
    (folder / "app.py").write_text(APP)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 1),
        (("--help",), 0),
        (("env",), 1),
        (("env", "--help"), 0),
        (("-v", "env"), 1),
        (("env", "start", "--help"), 0),
        (("environ",), 2),
        (("env", "begin"), 2),
        (("env", "start", "--modle", "m"), 2),
        (("--serch-dir", "x", "env", "start"), 2),
        (("env", "start", "--benchmark", "not_there"), 2),
        (("search",), 2),
        (("eval", "submit"), 2),
        (("eval", "run"), 2),
        (("eval", "run", "--split", "train"), 2),
        (("eval", "run", "--no-serve", "-o", "o.jsonl", "+num_repeat=2"), 2),
        (("eval", "run", "--no-serve", "--output", "o.jsonl"), 2),
        (("eval", "profile"), 2),
        (("eval", "aggregate"), 2),
        (("eval", "reverify"), 2),
        (("eval", "reverify", "--rollouts", "r.jsonl", "-o", "o.jsonl", "--append"), 2),
        (("eval", "run", "--split", "train", "-o", "o.jsonl", "--limit", "many"), 2),
        (("dataset", "render"), 2),
        (("dataset", "collate"), 2),
        (("env", "start"), 1),
        (("env", "start", "--config", "not_there.yaml"), 1),
        (("env", "start", "word"), 1),
        (("env", "prefetch"), 1),
        (("env", "packages", "--resources-server", "not_there"), 1),
        (("eval", "prepare"), 1),
        (("list", "agents", "not_there"), 1),
        (("list", "agents"), 0),
        (("env", "status"), 0),
        (("env", "resolve"), 0),
        (("--version",), 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_the_exit_code_says_what_is_wrong(world: World, words: tuple[str, ...], code: int) -> None:
    override = [world.head] if words[:1] == ("env",) and len(words) > 1 and code != 2 else []
    done = gym(world, *words, *(override if "--help" not in words else []))

    assert done.code == code, done.out + done.err
    assert "Traceback" not in done.err


def test_the_resolved_configuration_is_one_json_document(world: World) -> None:
    done = gym(world, "env", "resolve", "+my_api_key=k1", "--json")

    assert json.loads(done.out)["my_api_key"] == "****"


def test_an_error_in_the_configuration_is_on_standard_output(world: World) -> None:
    done = gym(world, "env", "resolve", "--config", "not_there.yaml")

    assert done.out.startswith("Error: config file 'not_there.yaml'")
    assert "hint: " in done.err
    assert "error: " not in done.err


def test_a_run_without_a_split_may_have_an_input(world: World) -> None:
    done = gym(world, "eval", "run", "--output", "o.jsonl")

    assert "--split or --input" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("env", "validate"),
        ("env", "start"),
        ("eval", "run", "--input", "i", "-o", "o.jsonl"),
        ("eval", "reverify", "--rollouts", "r.jsonl", "-o", "o.jsonl"),
    ],
)
def test_a_resources_server_with_a_domain_that_is_none_is_refused(
    world: World, words: tuple[str, ...]
) -> None:
    world.write("c.yaml", "s: {resources_servers: {mcqa: {domain: maths}}}")

    done = gym(world, *words, "--config", "c.yaml", world.head)

    place = "c.yaml:1: s.resources_servers.mcqa.domain"
    assert (done.code, done.out) == (
        1,
        f"Error: {place}: 'maths' is not a domain; did you mean 'math'?\n",
    )


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("eval", "profile"), "--rollouts is required"),
        (("dataset", "collate"), "--output-dir is required"),
        (("dataset", "collate"), "--mode is required: train_preparation or example_validation"),
        (("dataset", "download", "--repo-id", "x"), "say where to: --output-dir for a directory"),
        (
            (*RUN, "--resume", "++overwrite=true"),
            "--resume continues an earlier run, and overwrite",
        ),
        (("env", "test", "--resources-server"), "--resources-server needs a value"),
        (("eval", "run", "--output", "o.jsonl"), "--split is required"),
        (("eval", "reverify", "--rollouts", "r.jsonl"), "--output is required"),
        ((*RUN, "--num-repeats", "two"), "--num-repeats: should be a whole number"),
        ((*RUN, "--concurrency", "-1"), "--concurrency: should be a whole number"),
        ((*RUN, "+num_samples_in_parallel=-1"), "num_samples_in_parallel: should be"),
    ],
)
def test_a_setting_is_named_by_its_flag(world: World, words: tuple[str, ...], flag: str) -> None:
    assert flag in gym(world, *words).err


def test_a_wrong_split_is_the_only_problem(world: World) -> None:
    done = gym(world, "eval", "run", "--split", "exmple", "--output", "o.jsonl")

    assert "--split: should be" in done.err
    assert "--input" not in done.err


def test_nothing_to_start_names_the_flags_of_gym(world: World) -> None:
    assert "--resources-server NAME" in gym(world, "env", "start", world.head).err


def test_a_misspelt_action_gets_a_suggestion(world: World) -> None:
    assert "Did you mean start?" in gym(world, "env", "strat").err


def test_the_help_of_a_command_lists_its_flags_and_their_settings(world: World) -> None:
    out = gym(world, "eval", "run", "--help").out

    assert out.startswith("Usage: palestra gym eval run ")
    assert "--max-output-tokens" in out
    assert "(+responses_create_params.max_output_tokens)" in out


def test_the_version_is_one_json_document(world: World) -> None:
    assert json.loads(gym(world, "--version", "--json").out)["palestra"]
    assert json.loads(gym(world, "--json", "--version").out)["palestra"]


def test_the_status_is_one_json_document_also_without_servers(world: World) -> None:
    done = gym(world, "env", "status", "--json", world.head)

    assert (done.code, json.loads(done.out)) == (0, [])


def test_the_status_is_0_also_where_another_program_answers(world: World) -> None:
    import http.server
    import threading

    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        done = gym(world, "env", "status", f"++head_server.port={server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

    assert done.code == 0
    assert "error: " in done.err


def test_python_m_palestra_has_the_same_command_line(world: World) -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "palestra", "gym", "env", "--help"],
        capture_output=True, text=True, check=False, cwd=world.folder, timeout=50,
    )  # fmt: skip

    assert done.returncode == 0
    assert "prefetch" in done.stdout


@pytest.mark.source
def test_gym_and_ng_are_programs_of_a_distribution_of_their_own() -> None:
    root = Path(__file__).parents[3]
    extra = tomllib.loads((root / "packages/palestra-gym/pyproject.toml").read_text())["project"]
    own = tomllib.loads((root / "pyproject.toml").read_text())["project"]

    assert extra["scripts"] == dict.fromkeys(("gym", "ng"), "palestra.cli.gym:main")
    assert extra["dependencies"] == ["palestra"]
    assert extra["scripts"].keys().isdisjoint(own["scripts"])


@pytest.mark.parametrize("kind", ["resources-servers"])
def test_search_dir_is_searched_first_for_names(world: World, kind: str) -> None:
    extra = world.folder.parent / "extra"
    add_server(extra, "sums")
    without, within = (
        gym(world, "list", kind, "--json"),
        gym(world, "--search-dir", str(extra), "list", kind, "--json"),
    )

    assert "sums" not in {item["name"] for item in json.loads(without.out)}
    [sums] = [item for item in json.loads(within.out) if item["name"] == "sums"]
    assert sums["path"] == str(extra / "resources_servers" / "sums")
    assert sums["description"] == "Sums of sums"


def test_search_dir_is_searched_for_configs_and_servers(world: World) -> None:
    extra = world.folder.parent / "extra"
    add_server(extra, "sums")
    words = ("env", "resolve", "+config_paths=[resources_servers/sums/configs/sums.yaml]")

    assert gym(world, *words).code == 1
    done = gym(world, *words, "--search-dir", "../extra")
    assert done.code == 0, done.out
    assert "sums_server" in done.out


def test_the_extra_roots_of_the_environment_variable_count_too(world: World) -> None:
    extra = world.folder.parent / "extra"
    add_server(extra, "sums")
    world.environment["NEMO_GYM_EXTRA_ROOTS"] = str(extra)
    done = gym(world, "env", "prefetch", "--resources-server", "sums")

    assert done.code == 0, done.out + done.err
    assert "sums_server" in done.out


def test_details_and_misspelt_names_of_components(world: World) -> None:
    details = json.loads(gym(world, "list", "resources-servers", "mcqa", "--json").out)
    misspelt = gym(world, "list", "resources-servers", "mqca")

    assert (details["name"], details["domain"]) == ("mcqa", "knowledge")
    assert "did you mean 'mcqa'?" in misspelt.out


def test_a_search_finds_similar_names_only(world: World) -> None:
    names = [item["name"] for item in json.loads(gym(world, "search", "mqca", "--json").out)]
    typed = json.loads(gym(world, "search", "models", "vllm", "--json").out)

    assert names[0] == "mcqa"
    assert {item["kind"] for item in typed} == {"models"}
    assert gym(world, "search", "xxxxxxxx", "--json").out == "[]\n"


def test_a_search_without_a_match_says_what_lists_everything(world: World) -> None:
    done = gym(world, "search", "nothingatall")

    assert done.out == "no components like 'nothingatall'\n"
    assert "gym list TYPE lists all of a type: benchmarks, environments" in done.err


def test_a_search_for_a_type_in_the_singular_names_the_type(world: World) -> None:
    assert "gym search agents" in gym(world, "search", "agent", "loop").err


def test_environments_are_filtered_by_their_manifest(world: World) -> None:
    for name, domain in (("a", "math"), ("b", "games")):
        folder = world.folder / "environments" / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text("{}")
        (folder / "manifest.yaml").write_text(
            f"name: {name}\ndomain: {domain}\nmodality: [text]\nlifecycle: {{status: stable}}\n"
        )

    def names(*words: str) -> list[str]:
        listed = gym(world, "list", "environments", *words, "--json").out
        return [item["name"] for item in json.loads(listed)]

    assert names() == ["a", "b"]
    assert names("--domain", "math") == ["a"]
    assert names("--modality", "text", "--status", "stable", "--lifecycle", "stable") == ["a", "b"]
    assert names("--kind", "benchmark") == []


def test_packages_are_one_json_document(world: World) -> None:
    done = gym(world, "env", "packages", "--resources-server", "mcqa", "--json")

    assert done.code == 0
    assert "pydantic" in {item["name"] for item in json.loads(done.out)}
