"""`requirements.txt` beside a one-file environment."""

import zipfile

import pytest
from cli_world import FakeEndpoint, World

ENV = """
import palestra_beside_a_file as package
from palestra import environment


@environment(data=[{"n": 1}], prompt=package.PROMPT, name="needy")
def verify(answer):
    return package.REWARD
"""


def evaluated(fake: FakeEndpoint) -> list[str]:
    return ["eval", "my_env.py", "--model", "openai:tiny", *fake.policy, "--output", "out/r.jsonl"]


def wheel(world: World) -> str:
    """A package that is installed nowhere: its wheel is written by hand."""
    name = "palestra_beside_a_file-1.0-py3-none-any.whl"
    info = "palestra_beside_a_file-1.0.dist-info"
    with zipfile.ZipFile(world.folder / name, "w") as archive:
        archive.writestr("palestra_beside_a_file.py", "PROMPT = '{n}?'\nREWARD = 0.75\n")
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: palestra-beside-a-file\nVersion: 1.0\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return name


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
