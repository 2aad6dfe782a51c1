"""Questions that a reader brings, each answered within three clicks from `palestra view FOLDER`.

The tenth, about shards, is in tests/cluster.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browsers import chromium
from palestra.engine import Accounting, Job
from palestra.rollouts import Progress, announced
from palestra.schema import RolloutKey
from viewed_runs import Shape, Viewer, viewing, wait_for_indexes, write_run
from viewer_pages import Opened, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

MOST_CLICKS = 3


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "before", Shape(failing=0.2))
    write_run(folder / "after", Shape(skill=-0.3, seed=2))
    return folder


@pytest.fixture(scope="module")
def viewer(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    with viewing(folder, cache=tmp_path_factory.mktemp("cache")) as viewer:
        wait_for_indexes(viewer)
        yield viewer


@pytest.fixture
def shown(browser: Any, viewer: Viewer) -> Iterator[Opened]:
    with opened(browser, viewer) as shown:
        yield shown
        assert shown.clicks <= MOST_CLICKS


def run_link(name: str) -> str:
    return f".runs tr:has(small:has-text('/{name}/')) th a"


def test_1_is_the_run_healthy_and_what_do_the_slowest_wait_for(
    browser: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALESTRA_RUN_DIR", str(tmp_path))
    progress = Progress(Accounting(200))
    flight = Job(key=RolloutKey(4, 1), agent="my_agent", attempt=2)
    flight.now("/verify", "judge /v1/responses")
    progress.in_flight[RolloutKey(4, 1)] = flight
    output = folder / "before" / "rollouts.jsonl"
    with (
        announced(output, progress),
        viewing(folder, cache=tmp_path / "cache") as viewer,
        opened(browser, viewer) as shown,
    ):
        shown.page.wait_for_selector(".state.running")
        shown.click(run_link("before"))
        shown.page.wait_for_selector(".live table")
        assert "judge /v1/responses" in shown.text(".live table")
        assert "1 waits for judge /v1/responses" in shown.text(".health")
        assert shown.clicks <= MOST_CLICKS


def test_2_which_tasks_can_teach_this_model_now(shown: Opened) -> None:
    shown.click(run_link("before")).click("a:text-is('Select')")

    assert "palestra select" in shown.text(".copyable code")


def test_3_why_did_these_rollouts_fail_and_what_do_i_do(shown: Opened) -> None:
    shown.click(run_link("before")).click("a:text-is('Failures')")

    assert "the model server did not answer within 600 s" in shown.text(".failure-tree")
    assert "Next:" in shown.text("main")


def test_4_a_zero_is_a_wrong_answer_or_a_wrong_verifier(shown: Opened) -> None:
    shown.click(run_link("before"))
    shown.click(".figure:has(h3:has-text('Rewards of')) a.mark .bar").click(".tasks tbody th a")
    beside = shown.text("aside")

    assert "expected_answer" in beside
    assert "[[A!=B]]" in beside
    assert "The answer is" in shown.text(".conversation .assistant pre")


def test_5_what_did_the_solved_rollout_do_that_the_others_did_not(shown: Opened) -> None:
    shown.click(run_link("before")).click(".legend a:has-text('sometimes')")
    shown.click(".tasks tbody th a")

    assert "Where they first differ" in shown.text()
    assert shown.page.locator(".member.best").count() >= 1
    assert shown.page.locator(".member.worst").count() >= 1


def test_6_is_b_better_and_where_did_it_get_worse(shown: Opened) -> None:
    shown.click(".runs tr:has(small:has-text('/before/')) .button")
    shown.click(".runs tr:has(small:has-text('/after/')) .button")
    assert "reward" in shown.text(".verdict-line")
    shown.click(".tasks tbody th a")

    assert shown.page.locator(".diff-head .side").count() == 2
    assert "of before" in shown.text(".diff-head")


def test_7_is_the_reward_being_gamed(shown: Opened) -> None:
    shown.click(run_link("before"))
    shown.click(".figure:has(h3:has-text('against length')) a.mark .hit")
    assert "tokens.out" in shown.page.locator("#query").input_value()
    shown.click(".tasks tbody th a")
    first = shown.place

    assert shown.press("]").place != first


def test_8_which_answers_were_cut_and_would_more_tokens_have_helped(shown: Opened) -> None:
    shown.click(run_link("before"))
    assert re.search(r"cut off at a limit.* If all of them were right", shown.text(), re.DOTALL)
    shown.click("#outcomes a:text-is('truncated')").click(".tasks tbody th a")

    assert "cut off at a limit" in shown.text(".rollout-head")


def test_9_what_exactly_would_be_trained_on(shown: Opened) -> None:
    shown.click(run_link("before")).click("a:text-is('Rollouts')")
    shown.click(".tasks tbody td a[aria-label*='tokens']")

    assert shown.page.locator(".token-cells .trained").count() == 50
    assert re.search(r"continuity|generated", shown.text(".turn"))
