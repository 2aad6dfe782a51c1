"""`requirements.txt` beside a one-file environment."""

import pytest
from cli_world import FakeEndpoint, World

from local_wheels import write_wheel

ENV = """
import palestra_beside_a_file as package
from palestra import environment


@environment(data=[{"n": 1}], prompt=package.PROMPT)
def verify(answer):
    return package.REWARD
"""


def evaluated(fake: FakeEndpoint) -> list[str]:
    return ["eval", "my_env.py", "--model", "openai:tiny", *fake.policy, "--output", "out/r.jsonl"]


def wheel(world: World) -> str:
    """The name of the wheel of a package that is installed nowhere."""
    source = "PROMPT = '{n}?'\nREWARD = 0.75\n"
    return write_wheel(world.folder, "palestra_beside_a_file", source).name


@pytest.mark.slow
@pytest.mark.timeout(240)  # it makes an environment
def test_a_one_file_environment_runs_with_the_requirements_beside_it(
    world: World, fake: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(world.run_dir / "cache"))
    world.write("my_env.py", ENV)
    world.write("requirements.txt", f"--no-index\n./{wheel(world)}\n")

    done = world.run("palestra", *evaluated(fake), timeout_s=200)

    assert done.code == 0, done.err
    assert "Warning" not in done.err
    [row] = world.rows("out/r.jsonl")
    assert row["reward"] == 0.75
    assert row["responses_create_params"]["input"][0]["content"] == "1?"
    assert "is being made" in done.err

    again = world.run("palestra", *evaluated(fake), "--overwrite")

    assert "requirements.txt" in again.err
    assert "is being made" not in again.err


@pytest.mark.slow
@pytest.mark.timeout(240)  # it makes an environment
def test_script_metadata_is_read_like_a_requirements_file(
    world: World, fake: FakeEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(world.run_dir / "cache"))
    package = world.folder / wheel(world)
    needs = f'dependencies = ["palestra-beside-a-file @ {package.as_uri()}"]'
    world.write("my_env.py", f"# /// script\n# {needs}\n# ///\n{ENV}")

    done = world.run("palestra", *evaluated(fake), timeout_s=200)

    assert done.code == 0, done.err
    assert [row["reward"] for row in world.rows("out/r.jsonl")] == [0.75]
    assert "my_env.py runs in an environment of its own, with palestra-beside-a-file" in done.err


@pytest.mark.slow
def test_satisfied_requirements_change_nothing(world: World, fake: FakeEndpoint) -> None:
    text = ENV.replace("import palestra_beside_a_file as package\n", "")
    text = text.replace("package.PROMPT", "'{n}'").replace("package.REWARD", "1.0")
    world.write("my_env.py", text)
    world.write("requirements.txt", "numpy\n")
    # Of a project around the file, not of the environment.
    world.write("pyproject.toml", '[project]\nname = "x"\ndependencies = ["no-such-package"]\n')

    done = world.run("palestra", *evaluated(fake))

    assert done.code == 0, done.err
    assert done.out.count(" embedded ") == 3


@pytest.mark.slow
def test_a_missing_package_is_advised_where_it_is_read(world: World, fake: FakeEndpoint) -> None:
    world.write("my_env.py", ENV)

    refused = world.run("palestra", *evaluated(fake)).refused()

    assert "needs the module 'palestra_beside_a_file', which is not installed" in refused
    assert f"list it in {world.folder / 'requirements.txt'}" in refused
