"""Which environments, agents and models there are, and what each is like."""

import json
from pathlib import Path

import pytest

import palestra
from palestra.api import (
    ComponentSummary,
    component_details,
    list_agents,
    list_components,
    list_environments,
    list_models,
)
from palestra.errors import ConfigError, InputDataError

SHELF = '''
"""A file."""
from palestra import Environment, tool


class Shelf(Environment):
    """Bring a shelf into the wanted state.

    Nothing else counts.
    """

    data = [{"wanted": 1}, {"wanted": 2}]
    prompt = "Leave {wanted}."
    difficulty: int = 3
    """How hard it is."""

    @tool
    def take(self, count: int) -> int:
        """Take some."""
        return count

    async def verify(self, answer):
        return await self.judge.same(answer, "yes")
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def named(name: str) -> ComponentSummary:
    [summary] = [one for one in list_components() if one.name == name]
    return summary


@pytest.mark.parametrize(
    ("name", "turns", "needs"),
    [
        ("mcqa", "single", ()),
        ("example_single_tool_call", "tools", ()),
        ("blackjack", "multi", ()),
        ("code_gen", "single", ("sandbox",)),
        ("equivalence_llm_judge", "single", ("judge",)),
        ("math_with_judge", "single", ("extra math",)),
        ("openenv", "multi", ("network", "extra openenv")),
        ("google_search", "tools", ()),
        ("gymnasium", "multi", ("extra gymnasium",)),
    ],
)
def test_an_environment_says_how_it_goes_on_and_what_it_needs(
    project: Path, name: str, turns: str, needs: tuple[str, ...]
) -> None:
    summary = named(name)

    assert (summary.turns, summary.needs, summary.rows) == (turns, needs, 5)


def test_rows_that_are_made_on_demand_are_said_to_be(project: Path) -> None:
    assert named("reasoning_gym").makes_rows


def test_the_projects_own_environments_come_first(project: Path) -> None:
    (project / "shelf.py").write_text(SHELF)

    assert [(one.name, one.is_own) for one in list_environments()][:2] == [
        ("shelf.py", True),
        ("arc_agi", False),
    ]


def test_a_file_is_read_and_not_run(project: Path) -> None:
    (project / "shelf.py").write_text(SHELF + "raise SystemExit('was run')\n")
    summary = named("shelf.py")

    assert summary.description == "Bring a shelf into the wanted state."
    assert (summary.turns, summary.rows, summary.needs) == ("tools", 2, ("judge",))


def test_a_path_names_the_file_that_is_there(project: Path) -> None:
    folder = project / "deeper"
    folder.mkdir()
    (project / "shelf.py").write_text(SHELF)
    (folder / "shelf.py").write_text(SHELF.replace("class Shelf", "class Deep"))

    assert component_details("deeper/shelf.py").summary.path == Path("deeper/shelf.py")
    assert component_details(f"{folder}/shelf.py:Deep").summary.path == folder / "shelf.py"
    with pytest.raises(ConfigError):
        component_details("absent/shelf.py")


def test_a_path_names_the_folder_that_is_there(project: Path) -> None:
    folder = project / "own" / "resources_servers" / "mcqa"
    folder.mkdir(parents=True)
    (folder / "app.py").touch()

    assert component_details(str(folder)).summary.path == folder
    assert component_details("mcqa").summary.path != folder


def test_a_file_without_an_environment_is_not_listed(project: Path) -> None:
    (project / "tools.py").write_text("from palestra import tool\n")
    (project / "broken.py").write_text("class Broken(Environment):\n  def\n")

    assert [one.name for one in list_environments() if one.is_own] == []


def test_words_must_all_match(project: Path) -> None:
    assert [one.name for one in list_environments(["judge", "math"])] == ["math_with_judge"]
    assert list_environments(["math", "blackjack"]) == ()


def test_models_are_providers_and_servers(project: Path) -> None:
    (project / "env.yaml").write_text(
        "model_providers:\n  mine: {base_url: http://127.0.0.1:1/v1, key_variable: MY_KEY}\n"
    )
    models = {one.name: one for one in list_models()}

    assert models["groq:NAME"].needs == ("key GROQ_API_KEY",)
    assert models["mine:NAME"].is_own
    assert "vllm_model" in models


def test_the_functions_of_the_package_are_the_ones_behind_the_commands(project: Path) -> None:
    assert palestra.environments() == list_environments()
    assert palestra.agents() == list_agents()
    assert palestra.models() == list_models()
    assert palestra.runs() == ()


def test_a_summary_can_be_written_as_json(project: Path) -> None:
    summary = named("mcqa")

    assert json.loads(json.dumps(summary.to_dict()))["name"] == "mcqa"


def test_the_settings_of_a_folder_have_their_values_and_meanings(project: Path) -> None:
    settings = {one.name: one for one in component_details("math_with_judge").settings}

    assert settings["should_use_judge"].value == "False"
    assert settings["judge_model_server"].value == "policy_model"
    assert settings["check_twice_swap"].meaning.startswith("After an")


def test_the_settings_of_a_file_are_its_annotated_attributes(project: Path) -> None:
    (project / "shelf.py").write_text(SHELF)
    [setting] = component_details("shelf.py").settings

    assert (setting.name, setting.type, setting.value) == ("difficulty", "int", "3")
    assert setting.meaning == "How hard it is."


def test_an_example_row_is_shown_as_the_model_sees_it(project: Path) -> None:
    example = component_details("example_single_tool_call", row=1).example

    assert example is not None
    assert [entry.kind for entry in example.prompt] == ["system", "user"]
    assert [tool["name"] for tool in example.tools] == ["get_weather"]


def test_a_row_that_does_not_exist_is_an_error(project: Path) -> None:
    with pytest.raises(InputDataError, match="mcqa has no row 77"):
        component_details("mcqa", row=77)


def test_a_misspelt_name_gets_the_nearest(project: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'mcqa'"):
        component_details("mcqq")


def test_a_provider_of_models_can_be_shown(project: Path) -> None:
    details = component_details("groq:llama")

    assert details.commands == ("palestra eval mcqa --model groq:NAME",)
