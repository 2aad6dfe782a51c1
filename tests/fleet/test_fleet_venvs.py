"""Which servers need an environment of their own, and making it once."""

import asyncio
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from local_wheels import write_wheel
from palestra.errors import ConfigError, ServerDied
from palestra.fleet.venvs import cache_root, interpreter_for, requirements_of, unsatisfied


def folder(tmp_path: Path, text: str, name: str = "requirements.txt") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path


def test_requirements_are_read_without_comments_and_blank_lines(tmp_path: Path) -> None:
    text = "# for the maths\nnumpy>=1  # any\n\n  sympy\n--extra-index-url https://x\n"

    assert requirements_of(folder(tmp_path, text)) == (
        "numpy>=1",
        "sympy",
        "--extra-index-url https://x",
    )


def test_dependencies_of_a_project_count_too(tmp_path: Path) -> None:
    text = '[project]\nname = "x"\ndependencies = ["numpy>=1"]\n'

    assert requirements_of(folder(tmp_path, text, "pyproject.toml")) == ("numpy>=1",)


def test_a_folder_without_either_needs_nothing(tmp_path: Path) -> None:
    assert requirements_of(tmp_path) == ()


def test_a_folder_with_both_is_refused(tmp_path: Path) -> None:
    folder(tmp_path, "numpy\n")
    with pytest.raises(ConfigError, match=r"both requirements\.txt and pyproject\.toml"):
        requirements_of(folder(tmp_path, "[project]\n", "pyproject.toml"))


@pytest.mark.parametrize(
    "item",
    [
        "numpy",
        "NumPy>=1.0",
        "pytest[anything]",
        "no-such-package; python_version < '3'",
        "-e nemo-gym[dev] @ ../../",
        "nemo_gym",
        "palestra>=0",
    ],
)
def test_what_is_installed_here_is_satisfied(item: str) -> None:
    assert unsatisfied((item,)) == ()


@pytest.mark.parametrize(
    "item", ["no-such-package-at-all", "numpy>=999", "-r more.txt", "./local-package"]
)
def test_what_is_not_or_cannot_be_told_is_lacking(item: str) -> None:
    assert unsatisfied((item,)) == (item,)


def test_satisfied_requirements_run_in_this_interpreter(tmp_path: Path) -> None:
    python = asyncio.run(interpreter_for(folder(tmp_path, "numpy>=1\n"), cache=tmp_path / "none"))

    assert python == Path(sys.executable)
    assert not (tmp_path / "none").exists()


def test_the_cache_is_where_it_is_configured_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path))

    assert cache_root() == tmp_path / "venvs"
    assert cache_root("/elsewhere") == Path("/elsewhere")


def printed(python: Path, code: str) -> str:
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.slow
def test_a_lacking_package_gets_an_environment_made_once_with_ours_behind_it(
    tmp_path: Path,
) -> None:
    wheel = write_wheel(tmp_path, "palestra_test_only", "WORD = 'from its own environment'\n")
    server = folder(tmp_path, f"--no-index\nnumpy\n./{wheel.name}\n")
    cache = tmp_path / "cache"

    async def both_at_once() -> list[Path]:
        return list(await asyncio.gather(*(interpreter_for(server, cache=cache) for _ in range(2))))

    first, second = asyncio.run(both_at_once())

    assert first == second != Path(sys.executable)
    assert printed(first, "import palestra_test_only as p; print(p.WORD)")
    assert printed(first, "import palestra; print(palestra.__file__)")
    assert asyncio.run(interpreter_for(server, cache=cache)) == first


@pytest.mark.slow
def test_an_environment_that_cannot_be_made_says_why_and_is_not_used(tmp_path: Path) -> None:
    server = folder(tmp_path, "--no-index\nno-such-package-at-all\n")
    for _ in range(2):
        with pytest.raises(ConfigError, match="no-such-package-at-all") as caught:
            asyncio.run(interpreter_for(server, cache=tmp_path / "cache"))
        assert str(server / "requirements.txt") in caught.value.message


@pytest.mark.slow
def test_a_line_that_is_no_requirement_is_bad_input_that_names_its_file(tmp_path: Path) -> None:
    server = folder(tmp_path, "numpy ==== 1\n") / "env.py"
    with pytest.raises(ConfigError, match=str(tmp_path / "requirements.txt")):
        asyncio.run(interpreter_for(server, cache=tmp_path / "cache"))


@pytest.mark.slow
def test_a_tiny_package_of_the_registry_is_installed(tmp_path: Path) -> None:
    try:
        importlib.metadata.version("toolz")
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        pytest.skip("toolz is installed here already")
    server = folder(tmp_path, "toolz\n")
    try:
        python = asyncio.run(interpreter_for(server, cache=tmp_path / "cache"))
    except ServerDied as error:
        pytest.skip(f"the registry cannot be reached: {error.message[-200:]}")

    assert printed(python, "import toolz; print(toolz.identity('x'))") == "x"
