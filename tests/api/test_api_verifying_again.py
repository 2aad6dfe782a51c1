"""`Run.reverify` from a script or a notebook: which code verifies, and with which settings."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import palestra
from palestra import Environment, Run
from palestra.api.results import Reverified
from palestra.errors import ConfigError
from palestra.testing import scripted_endpoint

SHOP = """
from palestra import Environment

class Shop(Environment):
    isolated = False
    data = [{"question": "2 + 2 = ?"}]
    prompt = "{question}"
    discount: float = 0.0

    def verify(self, answer):
        return 1 - self.discount
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALESTRA_CACHE_DIR", str(tmp_path / "cache"))
    Path("shop.py").write_text(SHOP)
    with scripted_endpoint(*["4"] * 9) as endpoint:
        yield f"vllm:{endpoint.url}"


def evaluated(model: str, environment: Any = "shop.py", **options: Any) -> Run:
    return palestra.evaluate(environment, model=model, progress=False, **options)


def rewards(again: Reverified) -> list[float]:
    return [json.loads(line)["reward"] for line in again.output.read_text().splitlines()]


def test_the_settings_of_the_run_apply(model: str) -> None:
    run = evaluated(model, settings={"discount": 0.25})

    assert rewards(run.reverify()) == [0.75]


def test_the_settings_of_a_config_file_apply(model: str) -> None:
    block = "shop: {resources_servers: {environment_file: {settings: {discount: 0.5}}}}"
    Path("conf.yaml").write_text(f"config_paths: [shop.py]\n{block}\n")

    assert rewards(evaluated(model, "conf.yaml").reverify()) == [0.5]


def test_another_environment_gets_no_settings_of_the_run(model: str) -> None:
    run = evaluated(model, settings={"discount": 0.25})
    Path("other.py").write_text(SHOP.replace("Shop", "Other"))

    assert rewards(run.reverify(environment="other.py")) == [1.0]


class OfCell(Environment):
    isolated = False
    data = ({"question": "2 + 2 = ?"},)
    prompt = "{question}"

    def verify(self, answer: str) -> float:
        return float(answer == "4")


def test_a_class_verifies_again(model: str) -> None:
    run = evaluated(model, OfCell)

    assert rewards(run.reverify(environment=OfCell)) == [1.0]


def test_the_environment_of_a_cell_must_be_named(model: str, tmp_path: Path) -> None:
    path = tmp_path / "cache" / "notebooks" / "0123456789ab" / "shop.py"
    path.parent.mkdir(parents=True)
    path.write_text(SHOP)
    run = evaluated(model, path)

    with pytest.raises(ConfigError) as refused:
        run.reverify()

    assert "run.reverify(environment=" in refused.value.hint
    assert rewards(run.reverify(environment="shop.py")) == [1.0]


def test_a_run_is_compared_with_its_verification_again(model: str) -> None:
    run = evaluated(model)
    Path("shop.py").write_text(SHOP.replace("return 1", "return 0.5"))

    compared = palestra.compare(run, run.reverify())

    assert compared.metrics[0].difference.value == -0.5


def test_an_awaited_collection_needs_no_agent_where_there_is_one(model: str) -> None:
    rows = [{"question": "2 + 2 = ?"}]
    run = asyncio.run(palestra.acollect("shop.py", data=rows, model=model, progress=False))

    assert (run.scored, run.path.parent.name.partition("-")[0]) == (1, "shop")
