"""Server classes of authors that are not complete: the error names their file and line."""

import asyncio
from pathlib import Path

import pytest
from hosted_apps import HEAD

from palestra.config import load_config
from palestra.errors import ConfigError, ServerDied
from palestra.fleet import EMBEDDED, PROCESS, Fleet

ENVIRONMENT = "class Mine(SimpleResourcesServer):\n    config: BaseResourcesServerConfig\n"
AGENT = "class Mine(SimpleResponsesAPIAgent):\n    config: BaseResponsesAPIAgentConfig\n"
MODEL = "class Mine(SimpleResponsesAPIModel):\n    config: BaseResponsesAPIModelConfig\n"
VERIFY = "    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse: ...\n"
SERVED = 'if __name__ == "__main__":\n    Mine.run_webserver()\n'
KINDS = {
    ENVIRONMENT: "resources_servers",
    AGENT: "responses_api_agents",
    MODEL: "responses_api_models",
}
RUN_AND_ANSWER = "    async def run(self): ...\n    async def respones(self): ...\n"
TWO_SLIPS = "    async def rnu(self): ...\n    async def respones(self): ...\n"
PLACEMENTS = [EMBEDDED, pytest.param(PROCESS, marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where a server process looks for its files


def start(folder: Path, head: str, body: str, placement: str = EMBEDDED) -> None:
    """Start and stop a fleet whose only server has this class."""
    kind = KINDS[head]
    (folder / kind / "mine").mkdir(parents=True)
    (folder / kind / "mine" / "app.py").write_text(HEAD + head + body + SERVED)
    start_project(folder, kind, placement)


def start_project(folder: Path, kind: str, placement: str = EMBEDDED) -> None:
    """Start and stop a fleet of the server `mine` in this folder."""
    tree = {"mine": {kind: {"mine": {"entrypoint": "app.py"}}}}
    config = load_config(extra=tree, cwd=folder, use_env_yaml=False)

    async def run() -> None:
        async with asyncio.timeout(30), Fleet(config, default_placement=placement):
            pass

    asyncio.run(run())


def refused(folder: Path, head: str, body: str, placement: str = EMBEDDED) -> ConfigError:
    """Return the error of a fleet whose only server has this class."""
    with pytest.raises(ConfigError) as caught:
        start(folder, head, body, placement)
    return caught.value


def line_of(text: str, head: str) -> int:
    return (HEAD + head).count("\n") + text.count("\n") + 1


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_misspelt_verify_is_named_with_its_line(tmp_path: Path, placement: str) -> None:
    error = refused(tmp_path, ENVIRONMENT, VERIFY.replace("verify", "verfy"), placement)

    place = f"resources_servers/mine/app.py:{line_of('', ENVIRONMENT)}: "
    assert f"{place}Mine does not define verify, but verfy" in error.message
    assert error.hint == "rename verfy to verify"


@pytest.mark.parametrize(
    ("head", "body", "message", "hint"),
    [
        (ENVIRONMENT, "", "Mine does not define verify", "define verify in Mine"),
        (
            AGENT,
            RUN_AND_ANSWER,
            "Mine does not define responses, but respones",
            "rename respones to responses",
        ),
        (
            AGENT,
            TWO_SLIPS,
            "Mine does not define responses and run, but respones and rnu",
            "rename respones to responses, rnu to run",
        ),
        (
            AGENT,
            "",
            "Mine does not define responses and run",
            "define responses and run in Mine",
        ),
        (
            MODEL,
            "    async def respones(self): ...\n",
            "Mine does not define responses, but respones",
            "rename respones to responses",
        ),
        (MODEL, "", "Mine does not define responses", "define responses in Mine"),
    ],
)
def test_a_class_without_a_required_method_is_refused(
    tmp_path: Path, head: str, body: str, message: str, hint: str
) -> None:
    error = refused(tmp_path, head, body)

    assert error.message.endswith(f": {message}")
    assert "app.py:" in error.message
    assert error.hint == hint


def test_an_abstract_class_from_another_file_is_named_with_that_file(tmp_path: Path) -> None:
    folder = tmp_path / "resources_servers" / "mine"
    folder.mkdir(parents=True)
    (folder / "unfinished_neighbour.py").write_text(HEAD + ENVIRONMENT)
    (folder / "app.py").write_text("from unfinished_neighbour import Mine\n" + SERVED)

    with pytest.raises(ConfigError) as caught:
        start_project(tmp_path, "resources_servers")
    line = HEAD.count("\n") + 1
    assert f"unfinished_neighbour.py:{line}: Mine does not define verify" in caught.value.message


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_setup_webserver_that_returns_nothing_is_named_with_its_line(
    tmp_path: Path, placement: str
) -> None:
    setup = "    def setup_webserver(self):\n        super().setup_webserver()\n"
    error = refused(tmp_path, ENVIRONMENT, VERIFY + setup, placement)

    place = f"app.py:{line_of(VERIFY, ENVIRONMENT)}: "
    assert f"{place}setup_webserver returned None, which is no FastAPI app" in error.message
    assert "return app" in error.hint


def test_a_setup_webserver_that_returns_another_thing_is_refused(tmp_path: Path) -> None:
    setup = "    def setup_webserver(self):\n        return 'app'\n"
    error = refused(tmp_path, ENVIRONMENT, VERIFY + setup)

    assert error.message.endswith("setup_webserver returned 'app', which is no FastAPI app")


def test_a_setup_webserver_with_async_is_refused(tmp_path: Path) -> None:
    setup = "    async def setup_webserver(self):\n        return super().setup_webserver()\n"
    error = refused(tmp_path, ENVIRONMENT, VERIFY + setup)

    assert "without `async`" in error.hint


def test_a_field_that_nothing_sets_is_named_with_the_class(tmp_path: Path) -> None:
    error = refused(tmp_path, ENVIRONMENT, "    table: dict\n" + VERIFY)

    line = HEAD.count("\n") + 1
    assert f"app.py:{line}: Mine cannot be made: " in error.message
    assert "/table: Field required" in error.message
    assert "default" in error.hint


def test_a_class_that_raises_when_it_is_made_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ServerDied) as caught:
        start(
            tmp_path, ENVIRONMENT, VERIFY + "    def __init__(self, **fields):\n        {}['x']\n"
        )

    line = line_of(VERIFY, ENVIRONMENT) + 1
    assert "KeyError: 'x', at " in caught.value.message
    assert caught.value.message.endswith(f"app.py:{line} in __init__")
