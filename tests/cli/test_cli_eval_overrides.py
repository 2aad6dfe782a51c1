"""Overrides of `palestra eval`: each may belong to the target's config, or to the model's."""

from pathlib import Path

import pytest
from cli_world import FakeEndpoint, World

from palestra.api import find_target
from palestra.errors import ConfigError
from palestra.settings import EvalArgs

CONFIG = """
config_paths: [resources_servers/mcqa/configs/mcqa.yaml]
my_mode: strict
mcqa: {resources_servers: {mcqa: {description: "${my_mode}"}}}
"""
OVERRIDES = (
    "++my_mode=lenient",
    "~mcqa.resources_servers.mcqa.description",
    "++policy_model.responses_api_models.openai_model.num_workers=1",
    "~policy_model.responses_api_models.openai_model.num_workers",
)
FILE = """
from palestra import environment
{body}

@environment(data=[{{"n": 1}}], prompt="{{n}}", name="my_env")
def verify(answer):
    return 1.0
"""

LEAVES_LIMIT = """
from pathlib import Path

from palestra.fleet.importing import start_limit_s

Path("limit").write_text(str(start_limit_s()))
"""


@pytest.mark.slow
def test_overrides_of_what_the_targets_config_holds_are_taken(
    world: World, fake: FakeEndpoint
) -> None:
    world.write("x.yaml", CONFIG)

    done = world.run(
        *("palestra", "eval", "x.yaml", "--model", "openai:tiny", "--limit", "1", *fake.policy),
        *("--output", "out/r.jsonl", *OVERRIDES),
    )

    assert done.code == 0, done.err
    assert len(world.rows("out/r.jsonl")) == 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_found_whatever_the_overrides_of_its_servers_are(folder: Path) -> None:
    (folder / "own.py").write_text(FILE.format(body=""))
    others = ["++my_mode=lenient", "~judge_model.x", "++X.resources_servers.Y.z=1"]

    assert find_target(EvalArgs(target="own.py"), others).name == "own"


def test_a_file_is_imported_within_the_start_timeout_of_every_source(folder: Path) -> None:
    (folder / "env.yaml").write_text("start_timeout: ${my_limit}\n")
    (folder / "limited.py").write_text(FILE.format(body=LEAVES_LIMIT))

    find_target(EvalArgs(target="limited.py"), ["++my_limit=7"])

    assert float((folder / "limit").read_text()) == 7


@pytest.mark.parametrize("given", ["abc", "0", "-1", ".inf", "[1]"])
def test_a_start_timeout_that_is_none_is_refused(folder: Path, given: str) -> None:
    (folder / "refused.py").write_text(FILE.format(body=""))

    with pytest.raises(ConfigError, match="start_timeout"):
        find_target(EvalArgs(target="refused.py"), [f"++start_timeout={given}"])
