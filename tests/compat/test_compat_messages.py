"""What is missing, doubled or mixed is one error that says what to do."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from field_project import run_tests

from palestra.compat import aliases
from palestra.compat.missing_names import explanation_of
from palestra.config import load_config
from palestra.errors import ConfigError
from palestra.fleet import load_server_class

GLOBAL_CONFIG = "<module 'palestra.compat.nemo_gym.global_config' from 'x.py'>"
PAGE = "docs/reference/from-nemo-gym.md"


@pytest.fixture(autouse=True)
def _importable() -> None:
    aliases.install()


@pytest.mark.parametrize(
    ("line", "missing", "nearest"),
    [
        ("import nemo_gym.opena_utils", "opena_utils", "openai_utils"),
        ("from nemo_gym.sandbox.provider import x", "sandbox.provider", "sandbox."),
        ("from nemo_gym import SimpleResourceServer", "SimpleResourceServer", "SimpleResourcesS"),
        (
            "from nemo_gym.config_types import ModelServerReff",
            "config_types.ModelServerReff",
            "config_types.ModelServerRef",
        ),
        (
            "from nemo_gym.global_config import get_hf_tokens",
            "global_config.get_hf_tokens",
            "global_config.get_hf_token",
        ),
        (
            "from nemo_gym.openai_utils import acumulate_response_usage",
            "openai_utils.acumulate_response_usage",
            "openai_utils.accumulate_response_usage",
        ),
        (
            "from nemo_gym.server_utils import set_is_nemo_gym_fastapi_worker",
            "server_utils.set_is_nemo_gym_fastapi_worker",
            "server_utils.is_nemo_gym_fastapi_worker",
        ),
    ],
)
def test_an_import_that_cannot_be_satisfied_names_the_nearest_name_and_the_page(
    line: str, missing: str, nearest: str
) -> None:
    with pytest.raises(ImportError) as caught:
        exec(line, {})

    assert f"NeMo Gym's `{missing}` is not provided by Palestra" in str(caught.value)
    assert f"`{nearest}" in str(caught.value)
    assert PAGE in str(caught.value)
    assert "install" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        "from nemo_gym.cli import RunHelper",
        "from nemo_gym.cli.env import RunHelper",
        "from nemo_gym import HeadServer",
    ],
)
def test_what_starts_servers_is_named_in_place_of_what_did(line: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(line, {})

    assert "palestra.fleet.Fleet(" in str(caught.value)
    assert "the nearest" not in str(caught.value)
    assert PAGE in str(caught.value)


@pytest.mark.parametrize(
    ("module", "replacement"),
    [("train_data_utils", "`ng_prepare_data`"), ("hf_utils", "`palestra dataset download`")],
)
def test_a_module_whose_work_a_command_does_names_the_command(
    module: str, replacement: str
) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"import nemo_gym.{module}", {})

    assert replacement in str(caught.value)
    assert "the nearest" not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    ["import nemo_gym.zebra", "import nemo_gym.ray_utils", "from nemo_gym.judge import Zebra"],
)
def test_a_name_without_a_similar_one_has_no_nearest(line: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(line, {})

    assert "is not provided by Palestra; docs/" in str(caught.value)


@pytest.mark.parametrize(
    "module", ["resources_servers.gymnasium", "responses_api_models.vllm_model.app"]
)
def test_a_name_that_a_server_of_ours_lacks_is_explained_too(module: str) -> None:
    with pytest.raises(ImportError) as caught:
        exec(f"from {module} import NoSuchName", {})

    assert f"NeMo Gym's `{module}.NoSuchName` is not provided by Palestra" in str(caught.value)
    assert PAGE in str(caught.value)


def test_the_converter_can_be_imported_from_vllm_model() -> None:
    names: dict[str, object] = {}
    line = "from responses_api_models.vllm_model.app import VLLMConverter, split_responses_input_output_items"

    exec(line, names)

    converter = importlib.import_module("nemo_gym.responses_converter")
    assert names["VLLMConverter"] is converter.ResponsesConverter


def test_asking_for_a_missing_name_is_an_attribute_error() -> None:
    module = importlib.import_module("nemo_gym.config_types")

    assert not hasattr(module, "no_such_name")
    assert getattr(module, "no_such_name", 1) == 1


def test_a_servers_file_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text("from nemo_gym.config_types import ModelServerReff\n")

    with pytest.raises(ConfigError) as caught:
        load_server_class(path)

    assert "NeMo Gym's `config_types.ModelServerReff` is not provided" in caught.value.message
    assert PAGE in caught.value.message
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    "message",
    [
        f"{GLOBAL_CONFIG} has no attribute '_cachee'",
        f"{GLOBAL_CONFIG} does not have the attribute '_cachee'",
        "'module' object at nemo_gym.global_config has no attribute '_cachee'",
    ],
)
def test_a_patch_of_a_missing_internal_name_is_explained(message: str) -> None:
    importlib.import_module("nemo_gym.global_config")

    explanation = explanation_of(message)

    assert "NeMo Gym's `global_config._cachee` is not provided by Palestra" in explanation
    assert PAGE in explanation


def test_a_patch_of_a_missing_attribute_of_a_class_is_explained() -> None:
    importlib.import_module("nemo_gym.server_utils")

    explanation = explanation_of(
        "<class 'palestra.compat.client.ServerClient'> has no attribute '_x'"
    )

    assert "NeMo Gym's `ServerClient._x` is not provided by Palestra" in explanation


@pytest.mark.parametrize(
    "message", ["<module 'json' from 'x.py'> has no attribute 'y'", "'int' has no attribute 'y'"]
)
def test_other_missing_attributes_are_left_alone(message: str) -> None:
    assert explanation_of(message) == ""


@pytest.mark.slow
def test_a_suite_that_patches_a_missing_name_fails_with_the_explanation(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import nemo_gym.global_config as g\n"
        "def test_it(monkeypatch):\n"
        "    monkeypatch.setattr(g, '_no_such_cache', 1)\n"
    )

    done = run_tests(tmp_path)

    assert done.returncode == 1
    assert "NeMo Gym's `global_config._no_such_cache` is not provided" in done.stdout


@pytest.mark.slow
def test_the_value_of_an_option_may_be_longer_than_a_path(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")

    done = run_tests(tmp_path, "-k", "test_it or " + "x" * 5000)

    assert done.returncode == 0


REAL = "class SimpleResourcesServer: pass\n"


def installed(folder: Path) -> Path:
    """A stand-in for NeMo Gym itself, as an installed package."""
    (folder / "nemo_gym").mkdir(parents=True)
    (folder / "nemo_gym" / "__init__.py").write_text(REAL)
    (folder / "nemo_gym" / "config_types.py").write_text("HERE = True\n")
    return folder


def run(code: str, *paths: Path) -> str:
    before = f"import sys; sys.path[:0] = {[str(path) for path in paths]}\n"
    install = "from palestra.compat.aliases import install; install()\n"
    done = subprocess.run(
        [sys.executable, "-c", before + install + code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_class_of_the_real_nemo_gym_is_one_error(tmp_path: Path) -> None:
    site = installed(tmp_path / "site")
    app = tmp_path / "app.py"
    app.write_text(
        "from nemo_gym import SimpleResourcesServer\nclass Mine(SimpleResourcesServer): pass\n"
    )

    printed = run(
        "from pathlib import Path\nfrom palestra.fleet import load_server_class\n"
        f"try: load_server_class(Path({str(app)!r}))\n"
        "except Exception as error: print(type(error).__name__, error.message, error.hint)\n",
        site,
    )

    assert printed.startswith("ConfigError")
    assert str(site) in printed
    assert "uninstall nemo-gym" in printed


@pytest.mark.slow
def test_the_pytest_plugin_refuses_two_packages_of_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed(tmp_path / "site")))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text("def test_it(): pass\n")

    done = run_tests(tmp_path / "tests")

    assert done.returncode == 4
    assert "two packages have the name nemo_gym" in done.stderr


def test_a_checkout_around_the_servers_does_not_mix_with_the_alias(tmp_path: Path) -> None:
    checkout = installed(tmp_path / "checkout")
    (checkout / "resources_servers").mkdir()

    printed = run(
        "import nemo_gym, nemo_gym.config_types as c; print(nemo_gym.__name__, c.__name__)",
        checkout,
    )

    assert printed.split() == ["palestra.compat.nemo_gym", "palestra.compat.nemo_gym.config_types"]


BOTH = """
from nemo_gym import SimpleResourcesServer
from palestra import ResourcesServer

class Theirs(SimpleResourcesServer):
    async def verify(self, body): ...

class Ours(ResourcesServer):
    async def verify(self, body): ...
"""


def test_a_file_that_mixes_both_apis_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text(BOTH)

    with pytest.raises(ConfigError) as caught:
        load_server_class(path)

    assert "Ours" in caught.value.message
    assert "Theirs" in caught.value.message
    assert "two APIs" in caught.value.message


def test_a_config_that_names_an_agent_of_another_package_says_how_to_bring_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("a: {responses_api_agents: {swe_agents: {entrypoint: app.py}}}\n")

    with pytest.raises(ConfigError) as caught:
        load_config(config_paths=[str(path)], use_env_yaml=False, cwd=tmp_path)

    assert "swe_agents" in caught.value.message
    assert "NEMO_GYM_EXTRA_ROOTS" in caught.value.message
