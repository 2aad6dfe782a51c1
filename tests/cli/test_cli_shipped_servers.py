"""Every server that is shipped has tests of its own, and passes them where it is installed."""

from pathlib import Path

import pytest
from cli_world import World

from palestra.config import PACKAGE_ROOT

TREES = ("responses_api_agents", "responses_api_models")
SERVERS = sorted(
    f"{path.parents[1].parent.name}/{path.parents[1].name}"
    for tree in TREES
    for path in (PACKAGE_ROOT / tree).glob("*/configs/*.yaml")
)
NEEDS_ITS_OWN_ENVIRONMENT = "responses_api_agents/verifiers_agent"


@pytest.mark.parametrize("server", SERVERS)
def test_a_shipped_server_has_tests(server: str) -> None:
    assert list(Path(PACKAGE_ROOT, server, "tests").glob("test_*.py"))


@pytest.mark.slow
def test_ng_test_passes_for_the_simple_agent(world: World) -> None:
    done = world.run("ng_test", "+entrypoint=responses_api_agents/simple_agent")

    assert done.code == 0, done.out + done.err
    assert "1 of 1 pass" in done.out
    assert world.files() == []


@pytest.mark.slow
@pytest.mark.parametrize("server", [one for one in SERVERS if one != NEEDS_ITS_OWN_ENVIRONMENT])
def test_every_shipped_server_passes(world: World, server: str) -> None:
    done = world.run("ng_test", f"+entrypoint={server}")

    assert done.code == 0, done.out + done.err
