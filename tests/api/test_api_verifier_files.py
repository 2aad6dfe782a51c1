"""The config files that the command for a re-verification names: those that its servers need."""

import json
from pathlib import Path
from typing import Any

import pytest

from palestra.api.collection import with_config_of
from palestra.api.fleet_connection import OwnFleet
from palestra.config import load_config
from palestra.settings import CollectSettings, InputFile, VerifierOptions

QUIZ = """
quiz: {resources_servers: {quiz: {judge: {type: responses_api_models, name: judge}, note: "${note}"}}}
quiz_agent:
  responses_api_agents:
    simple_agent:
      resources_server: {type: resources_servers, name: quiz}
      model_server: {type: responses_api_models, name: policy_model}
"""
FILES = {
    "quiz.yaml": QUIZ,
    "maze.yaml": QUIZ.replace("quiz", "maze").replace("judge: {", "umpire: {"),
    "judge.yaml": "judge: {responses_api_models: {my_model: {}}}",
    "policy.yaml": "policy_model: {responses_api_models: {my_model: {}}}",
    "copy.yaml": "copied: {_copy: quiz}",
    "note.yaml": "note: a setting that is no server's",
    "umpire.yaml": "umpire: {responses_api_models: {my_model: {}}}",
}
ALL = tuple(FILES)


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)


def verifier_of(
    *rows: Any, agent: str | None = "quiz_agent", overrides: tuple[str, ...] = ()
) -> str:
    """The options of the command for a collection of these rows, with all the files."""
    Path("in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = f"+config_paths=[{','.join(ALL)}]"
    settings = CollectSettings(
        inputs=(InputFile(Path("in.jsonl")),),
        output_jsonl_fpath=Path("out.jsonl"),
        agent_name=agent,
        verified_by=VerifierOptions(" ".join((files, *overrides))),
    )
    config = load_config(overrides=(files, *overrides), need_folders=False, use_env_yaml=False)
    return with_config_of(OwnFleet(config), settings).verified_by.text


def files_in(options: str) -> list[str]:
    return options.partition("[")[2].partition("]")[0].split(",")


def row_of(agent: str) -> dict[str, Any]:
    return {"agent_ref": {"type": "responses_api_agents", "name": agent}}


def test_the_environments_file_and_those_that_it_refers_to_are_named() -> None:
    assert files_in(verifier_of({})) == ["quiz.yaml", "judge.yaml", "note.yaml"]


def test_the_agents_of_the_rows_count() -> None:
    named = files_in(verifier_of({}, row_of("maze_agent")))

    assert {"quiz.yaml", "maze.yaml", "judge.yaml"} <= set(named)
    assert "policy.yaml" not in named


def test_a_server_that_an_override_changes_keeps_its_file() -> None:
    override = "++policy_model.responses_api_models.my_model.x=1"
    options = verifier_of({}, overrides=(override,))

    assert "policy.yaml" in files_in(options)
    assert override in options


@pytest.mark.parametrize(
    ("row", "agent"),
    [({}, None), ({"agent_ref": "quiz_agent"}, "quiz_agent"), (row_of("nobody"), "quiz_agent")],
    ids=["several agents", "another form", "an unknown agent"],
)
def test_all_files_are_named_where_it_is_not_known_which_are_needed(
    row: dict[str, Any], agent: str | None
) -> None:
    assert tuple(files_in(verifier_of(row, agent=agent))) == ALL
