"""`gym dataset …` and `gym eval prepare`: rows of tasks."""

import json
from pathlib import Path

import pytest
from cli_world import Done, World


def gym(world: World, *words: str) -> Done:
    return world.run("palestra", "gym", *words)


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (("upload",), "hf_organization:"),
        (("upload", "--storage", "gitlab", "--name", "n", "-i", "x.jsonl"), "version:"),
        (("download",), "--repo-id"),
        (("download", "--storage", "gitlab", "--name", "n", "--artifact", "a"), "version:"),
        (("rm",), "--name"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_the_storage_decides_what_is_needed(
    world: World, words: tuple[str, ...], missing: str
) -> None:
    done = gym(world, "dataset", *words)

    assert done.code == 2
    assert f"{missing} is required" in done.err


def test_a_revision_is_a_version_in_the_registry(world: World) -> None:
    done = gym(
        world,
        *("dataset", "download", "--storage", "gitlab", "--name", "n", "--artifact", "a"),
        *("-o", "x.jsonl", "--revision", "newest"),
    )

    assert done.code == 2
    assert "version: " in done.err
    assert "'newest'" in done.err


def test_rows_are_rendered_and_name_their_prompt(world: World) -> None:
    world.write("rows.jsonl", json.dumps({"question": "1+1?"}) + "\n")
    world.write("prompt.yaml", 'user: "Solve {question}"\n')
    done = gym(
        world,
        *("dataset", "render", "-i", "rows.jsonl", "--prompt-config", "prompt.yaml"),
        *("-o", "rendered.jsonl"),
    )

    assert done.code == 0, done.err
    [row] = world.rows("rendered.jsonl")
    assert row["prompt_config_used"] == "prompt.yaml"
    assert row["responses_create_params"]["input"][0]["content"] == "Solve 1+1?"


def test_the_datasets_of_a_server_are_collated(world: World) -> None:
    done = gym(
        world,
        *("dataset", "collate", "--resources-server", "mcqa", "--model-type", "openai_model"),
        *("--mode", "example_validation", "--output-dir", "prepared", "--json"),
    )

    assert done.code == 0, done.out + done.err
    files = {Path(file["file"]).name: file["rows"] for file in json.loads(done.out)}
    assert files["example.jsonl"] == len(world.rows("prepared/example.jsonl"))
    assert {row["agent_ref"]["name"] for row in world.rows("prepared/example.jsonl")} == {
        "mcqa_simple_agent"
    }


@pytest.mark.slow
def test_a_benchmark_is_prepared_by_its_name(world: World) -> None:
    folder = world.folder / "benchmarks" / "small"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(
        """
config_paths: [resources_servers/mcqa/configs/mcqa.yaml]
mcqa_simple_agent:
  responses_api_agents:
    simple_agent:
      datasets:
      - name: small
        type: benchmark
        jsonl_fpath: benchmarks/small/rows.jsonl
        prepare_script: benchmarks/small/prepare.py
"""
    )
    row = {
        "responses_create_params": {"input": "Which?"},
        "options": [{"A": "yes"}, {"B": "no"}],
        "expected_answer": "A",
    }
    (folder / "prepare.py").write_text(
        f"""
import json
from pathlib import Path

def prepare():
    path = Path("benchmarks/small/rows.jsonl")
    path.write_text(json.dumps({row!r}) + "\\n")
    return path
"""
    )
    done = gym(world, "eval", "prepare", "--benchmark", "small")

    assert done.code == 0, done.out + done.err
    assert world.rows("benchmarks/small/rows.jsonl") == [row]
