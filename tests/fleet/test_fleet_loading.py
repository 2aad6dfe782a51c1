"""From a file to the server class in it, and what is said when there is none."""

import asyncio
from importlib.metadata import version
from pathlib import Path

import pytest

import palestra.server
from palestra.config import PACKAGE_ROOT
from palestra.errors import ConfigError
from palestra.fleet import load_environment, load_module, load_server_class
from palestra.server import EnvironmentServer

SERVER = """
from palestra.server import ResourcesServer


class {name}(ResourcesServer):
    async def verify(self, body):
        return {{"reward": 1.0}}
"""
ENVIRONMENT = """
from palestra import environment


@environment(data=[], prompt="")
def {name}(answer):
    return 1.0
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "resources_servers" / "x" / "app.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def refused(path: Path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_server_class(path)
    return caught.value


def test_everything_in_all_exists() -> None:
    assert all(hasattr(palestra.server, name) for name in palestra.server.__all__)


def test_the_one_server_class_of_a_file_is_found(tmp_path: Path) -> None:
    assert load_server_class(write(tmp_path, SERVER.format(name="Mine"))).__name__ == "Mine"


def test_of_classes_that_build_on_each_other_it_is_the_last(tmp_path: Path) -> None:
    text = SERVER.format(name="Base") + "\n\nclass Last(Base):\n    pass\n"

    assert load_server_class(write(tmp_path, text)).__name__ == "Last"


def test_an_environment_is_a_server_too(tmp_path: Path) -> None:
    path = write(tmp_path, ENVIRONMENT.format(name="sums"))

    assert issubclass(load_server_class(path), EnvironmentServer)
    assert load_environment(path).name == path.parent.name


def test_a_file_without_a_server_says_so(tmp_path: Path) -> None:
    error = refused(write(tmp_path, "from palestra.server import ResourcesServer\n"))

    assert "must define exactly one server class or environment; found: none" in error.message


def test_a_file_with_several_servers_names_them(tmp_path: Path) -> None:
    error = refused(write(tmp_path, SERVER.format(name="One") + SERVER.format(name="Two")))

    assert error.message.endswith("found: One, Two")


def test_a_file_with_several_environments_names_them(tmp_path: Path) -> None:
    path = write(tmp_path, ENVIRONMENT.format(name="one") + ENVIRONMENT.format(name="two"))

    assert refused(path).message.endswith("found: one, two")
    with pytest.raises(ConfigError, match="exactly one environment; found: one, two"):
        load_environment(path)


def test_an_environment_inside_a_function_is_to_be_moved_out_of_it(tmp_path: Path) -> None:
    path = write(tmp_path, "def main():\n    class Sums: ...\n")

    with pytest.raises(ConfigError) as raised:
        load_environment(path, "Sums")
    assert "Sums must be at the top level of the file" in raised.value.hint


def test_an_error_at_import_has_the_author_s_line(tmp_path: Path) -> None:
    path = write(tmp_path, "\n\nLIMIT = int('many')\n")
    error = refused(path)

    assert error.message.startswith(f"{path}:3 cannot be imported: ValueError: invalid literal")


def test_a_file_in_the_current_folder_is_named_as_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "raise ValueError")
    monkeypatch.chdir(path.parent)

    assert refused(path).message == "app.py:1 cannot be imported: ValueError: "


def test_a_missing_extra_is_the_only_thing_to_do(tmp_path: Path) -> None:
    error = refused(
        write(
            tmp_path,
            "from palestra.errors import MissingExtra\nraise MissingExtra('it needs x', extra='y')\n",
        )
    )

    assert error.message.endswith("app.py:2 cannot be imported: it needs x")
    assert error.hint == "pip install 'palestra[y]'"


def test_the_words_of_an_author_s_own_import_error_are_kept(tmp_path: Path) -> None:
    error = refused(write(tmp_path, "raise ImportError('no x: pip install x, or y')\n"))

    assert error.message.endswith("cannot be imported: ImportError: no x: pip install x, or y")
    assert error.hint == ""


def test_a_file_that_exits_at_import_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "import sys\nsys.exit(3)\n")

    assert refused(path).message == f"{path}:2 cannot be imported: SystemExit: 3"


def test_a_syntax_error_has_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "x = 1\ndef broken(:\n")
    message = refused(path).message

    assert message.startswith(f"{path}:2 cannot be imported: SyntaxError: ")
    assert message.endswith(": def broken(:")


def test_a_syntax_error_in_an_imported_module_is_that_module_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "broken_module_of_a_test.py"
    module.write_text("x = 1\n\ny = = 2\n")
    path = write(tmp_path, "\nimport broken_module_of_a_test\n")

    assert refused(path).message.startswith(
        f"{path}:2 cannot be imported: {module}:3: SyntaxError: "
    )


def test_a_missing_module_is_named_with_where_to_list_it(tmp_path: Path) -> None:
    path = write(tmp_path, "import no_such_module_here.inner\n")
    error = refused(path)

    assert "needs the module 'no_such_module_here', which is not installed" in error.message
    assert str(path.parent / "requirements.txt") in error.hint


@pytest.mark.parametrize(
    ("line", "named", "nearest"),
    [
        ("import nemo_gym.rollout_colection", "`rollout_colection`", "`rollout_collection`"),
        ("from nemo_gym.prompt import nonesuch", "`prompt.nonesuch`", ""),
        (
            "from resources_servers.gymnasium.app import GymnasiumEnvironmentt",
            "`resources_servers.gymnasium.app.GymnasiumEnvironmentt`",
            "",
        ),
        ("from palestra import environmant", "`palestra.environmant`", "palestra.environment"),
    ],
)
def test_a_name_that_palestra_does_not_provide_is_not_to_be_installed(
    tmp_path: Path, line: str, named: str, nearest: str
) -> None:
    error = refused(write(tmp_path, f"{line}\n"))

    assert f"{named} is not provided by Palestra" in error.message
    assert nearest in error.message
    assert "install" not in error.hint
    assert "requirements.txt" not in error.hint


def test_a_name_that_an_installed_package_lacks_is_a_question_of_its_version(
    tmp_path: Path,
) -> None:
    error = refused(write(tmp_path, "\nfrom pydantic import NoSuchModel\n"))

    assert f"the installed pydantic {version('pydantic')} has no 'pydantic.NoSuchModel'" in (
        error.message
    )
    assert "the version of pydantic" in error.hint


def test_a_misspelt_module_of_the_same_folder_is_not_to_be_installed(tmp_path: Path) -> None:
    path = write(tmp_path, "import scorer\n")
    (path.parent / "scorers.py").write_text("")
    error = refused(path)

    assert "which does not exist" in error.message
    assert error.hint.startswith("did you mean 'scorers'?")


def test_a_name_that_the_author_s_own_module_lacks_is_to_be_defined_there(tmp_path: Path) -> None:
    path = write(tmp_path, "from scoring_rules_here import scor\n")
    rules = path.parent / "scoring_rules_here.py"
    rules.write_text("def score(): ...\n")
    error = refused(path)

    assert f"{rules} has no 'scor'; did you mean 'score'?" in error.message
    assert "install" not in error.hint


def test_a_file_that_failed_to_import_can_be_mended_and_imported(tmp_path: Path) -> None:
    path = write(tmp_path, "raise RuntimeError('not yet')\n")
    refused(path)
    write(tmp_path, SERVER.format(name="Mended"))

    assert load_server_class(path).__name__ == "Mended"


def test_files_of_the_same_place_in_two_projects_are_two_modules(tmp_path: Path) -> None:
    first = write(tmp_path / "one", SERVER.format(name="First"))
    second = write(tmp_path / "two", SERVER.format(name="Second"))

    assert load_server_class(first).__name__ == "First"
    assert load_server_class(second).__name__ == "Second"
    assert load_module(first) is load_module(first)


def test_a_file_that_two_servers_load_at_once_runs_once_and_whole(tmp_path: Path) -> None:
    slow = "import time\ntime.sleep(0.1)\n" + SERVER.format(name="Slow")
    path = write(tmp_path, slow)

    async def both() -> list[type]:
        loads = (asyncio.to_thread(load_server_class, path) for _ in range(2))
        return list(await asyncio.gather(*loads))

    first, second = asyncio.run(both())

    assert first is second


def test_a_file_of_ours_is_imported_by_its_package_name() -> None:
    module = load_module(PACKAGE_ROOT / "resources_servers" / "mcqa" / "app.py")

    assert module.__name__ == "palestra.resources_servers.mcqa.app"


def test_a_server_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    text = "from words_beside_the_server import WORD\n" + SERVER.format(name="Mine")
    path = write(tmp_path, text)
    (path.parent / "words_beside_the_server.py").write_text("WORD = 'hello'\n")

    assert load_module(path).WORD == "hello"


def test_a_file_that_loads_itself_is_imported_once(tmp_path: Path) -> None:
    own = "from pathlib import Path\nfrom palestra.fleet import load_module\n"
    path = write(tmp_path, own + "LOADED = load_module(Path(__file__))\n")

    module = load_module(path)

    assert module.LOADED is module


def test_a_server_class_without_its_required_method_is_named_with_its_line(tmp_path: Path) -> None:
    text = "from nemo_gym.base_resources_server import SimpleResourcesServer\n"
    path = write(tmp_path, text + "class Broken(SimpleResourcesServer):\n    pass\n")
    error = refused(path)

    assert error.message == f"{path}:2: Broken does not define verify"
    assert error.hint == "define verify in Broken"


def test_a_server_whose_module_ends_as_one_of_uvicorn_is_loaded(tmp_path: Path) -> None:
    text = """
from nemo_gym.base_resources_server import SimpleResourcesServer
from nemo_gym.server_utils import is_nemo_gym_fastapi_worker


class Mine(SimpleResourcesServer):
    async def verify(self, body):
        return None


if __name__ == "__main__":
    Mine.run_webserver()
elif is_nemo_gym_fastapi_worker():
    app = Mine.run_webserver()
"""

    assert load_server_class(write(tmp_path, text)).__name__ == "Mine"


def test_the_hint_names_the_base_classes_that_the_file_imports(tmp_path: Path) -> None:
    error = refused(write(tmp_path, "import nemo_gym\n"))

    assert "SimpleResourcesServer" in error.hint


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("from palestra import task", "from palestra import environment"),
        ("from palestra import Task", "from palestra import Environment"),
        ("from palestra import Sample", "from palestra import Environment"),
        ("from palestra import scorer", "`verify` scores"),
        ("from palestra import Rubric", "`verify` scores"),
        ("from palestra import solver", "from palestra import Environment"),
        ("from palestra import SingleTurnEnv", "from palestra import Environment"),
        ("from palestra import MultiTurnEnv", "from palestra import Environment"),
        ("from palestra import ToolEnv", "from palestra import Environment"),
        ("from palestra import load_environment", "from palestra import Environment"),
        ("from palestra.scorer import match", "`verify` scores"),
        ("from palestra.dataset import Sample", "from palestra import Environment"),
    ],
)
def test_a_name_of_another_product_is_answered_with_ours(
    tmp_path: Path, line: str, ours: str
) -> None:
    error = refused(write(tmp_path, f"{line}\n"))

    assert "app.py:1 cannot be imported" in error.message
    assert "the nearest is" not in error.message
    assert ours in error.hint


def test_an_attribute_with_a_name_of_another_product_is_answered_with_ours(tmp_path: Path) -> None:
    error = refused(write(tmp_path, "import palestra\npalestra.task\n"))

    assert "app.py:2 cannot be imported: AttributeError" in error.message
    assert "from palestra import environment" in error.message


@pytest.mark.parametrize(
    ("limit", "near"),
    [("timeout", "wall_s"), ("memory", "memory_mib"), ("timeout_s", "wall_s"), ("cpu", "cpu_s")],
)
def test_a_limit_that_does_not_exist_is_one_line_with_the_one_that_is_meant(
    tmp_path: Path, limit: str, near: str
) -> None:
    error = refused(write(tmp_path, f"from palestra import Limits\nLimits({limit}=10)\n"))

    assert (
        f"app.py:2 cannot be imported: ValidationError: Limits: there is no limit {limit!r}; did you "
        f"mean {near!r}?; the limits: cpu_s, wall_s"
    ) in error.message
    assert "\n" not in error.message
