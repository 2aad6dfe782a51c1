"""The page of the viewer as its readers meet it: in a real Chromium, over a real server."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from math import inf
from pathlib import Path
from typing import Any

import pytest

from browsers import chromium
from palestra.analysis.task_rows import LEARNABILITY_CONFIDENCE
from palestra.schema import RunPaths
from palestra.viewer.index import open_index
from viewed_runs import Shape, Viewer, viewing, wait_for_indexes, write_run
from viewer_pages import Opened, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

Open = Callable[..., Opened]
PLACES = {
    "runs": "/",
    "run": "/r/{third}",
    "tasks": "/r/{third}/tasks",
    "rollouts": "/r/{third}/rollouts",
    "search": "/r/{third}/rollouts?q=text:residues",
    "wrong query": "/r/{third}/rollouts?q=tokns>1",
    "task": "/r/{first}/t/12",
    "rollout": "/r/{first}/t/12/1",
    "failed rollout": "/r/{third}/rollouts?q=outcome:timeout",
    "tokens": "/r/{first}/t/12/1?panel=tokens",
    "raw": "/r/{first}/t/12/1?panel=raw",
    "tree": "/r/{first}/t/12/1?panel=tree",
    "difference": "/r/{first}/t/12?diff={first}/12/0,{first}/12/3",
    "failures": "/r/{third}/failures",
    "compare": "/c/{first}/{second}",
    "select": "/r/{first}/select",
    "about": "/r/{first}/about",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "first", Shape())
    write_run(folder / "second", Shape(skill=0.2, seed=2))
    write_run(folder / "third", Shape(tasks=60, rollouts=6, failing=0.33))
    with viewing(folder, cache=tmp_path_factory.mktemp("cache")) as viewer:
        yield viewer


@pytest.fixture(scope="module")
def ids(viewer: Viewer) -> dict[str, str]:
    """The ids of the runs by the names of their folders."""
    return wait_for_indexes(viewer)


@pytest.fixture
def show(browser: Any, viewer: Viewer, ids: dict[str, str]) -> Iterator[Open]:
    with ExitStack() as stack:

        def show(name: str = "runs", **options: Any) -> Opened:
            shown = stack.enter_context(opened(browser, viewer, **options))
            return shown.go(PLACES[name].format(**ids))

        yield show


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PLACES)
def test_no_page_breaks_a_rule_of_accessibility(show: Open, name: str, theme: str) -> None:
    assert show(name, color_scheme=theme).violations() == []


@pytest.mark.parametrize("width", [360, 900, 1440])
def test_every_page_fits_its_window(show: Open, ids: dict[str, str], width: int) -> None:
    shown = show(width=width)
    places = {name: place.format(**ids) for name, place in PLACES.items()}

    assert {name: shown.go(place).outside() for name, place in places.items()} == {
        name: [] for name in PLACES
    }


def test_no_page_asks_another_origin_or_complains(show: Open, ids: dict[str, str]) -> None:
    shown = show()
    places = [place.format(**ids) for name, place in PLACES.items() if "wrong" not in name]
    for place in places:
        shown.go(place)

    assert shown.complaints == []
    origins = {re.sub(r"^(?:blob:)?(https?://[^/]+).*", r"\1", url) for url in shown.requests}
    assert origins == {shown.viewer.origin}


def test_the_token_leaves_the_address_and_stays_for_the_next_tab(show: Open) -> None:
    shown = show()
    assert "token" not in shown.page.url

    other = shown.page.context.new_page()
    other.goto(f"{shown.viewer.origin}/")
    other.wait_for_selector(".runs tbody tr")


def test_an_old_tab_is_told_that_the_viewer_has_a_new_address(show: Open) -> None:
    shown = show()
    shown.page.evaluate("localStorage.setItem('palestra-token', 'old')")

    assert "new address" in shown.go("/").text(".error")


def test_a_table_is_read_by_keys_alone(show: Open) -> None:
    shown = show("rollouts")
    shown.press("j", "j", "Enter")
    second = shown.place
    shown.press("]").press("[")
    assert shown.place == second
    assert "panel=tokens" in shown.press("t").place
    assert "panel=raw" in shown.press("r").place
    assert "panel" not in shown.press("Escape").place
    assert re.fullmatch(r"/r/\w+/t/\d+", shown.press("g").place)
    assert "diff=" in shown.press("d").place
    assert "diff=" not in shown.press("Escape").place


def test_question_mark_lists_the_keys_and_slash_goes_to_the_query(show: Open) -> None:
    shown = show("rollouts").press("?")
    assert shown.page.locator("dialog[open] kbd").count() >= 12
    shown.press("Escape", "/")
    shown.page.keyboard.type("reward:1")

    assert "q=reward%3A1" in shown.press("Enter").place


def test_what_is_shown_is_what_the_address_says(show: Open) -> None:
    shown = show("tasks")
    shown.click("thead button:has-text('pass')")
    shown.click(".facet button")
    rows, place = shown.text(".tasks tbody"), shown.place

    assert "sort=" in place
    assert "q=" in place
    assert shown.go(place).text(".tasks tbody") == rows


def test_a_brush_writes_the_query(show: Open) -> None:
    shown = show("rollouts")
    box = shown.page.locator(".brush:has(legend:has-text('tokens.out')) svg").bounding_box()
    middle = box["y"] + box["height"] / 2
    shown.page.mouse.move(box["x"] + 2, middle)
    shown.page.mouse.down()
    shown.page.mouse.move(box["x"] + box["width"] / 3, middle)
    shown.page.mouse.up()
    shown.settled()

    assert "tokens.out%3A" in shown.place
    before = shown.place
    shown.page.get_by_label("tokens.out to", exact=True).fill("400")
    assert shown.press("Enter").place != before


def test_a_bar_of_a_chart_opens_the_rows_that_it_counts(show: Open) -> None:
    shown = show("run")
    bar = shown.page.locator(".figure:has(h3:has-text('Rewards')) a.mark").first
    counted = re.search(r": ([\d,]+) rollouts", bar.get_attribute("aria-label") or "")
    shown.click(".figure:has(h3:has-text('Rewards')) a.mark .bar")

    assert counted
    assert f"of {counted[1]} " in shown.text(".pages p")


def test_a_wrong_query_is_marked_and_the_page_lives(show: Open) -> None:
    shown = show("wrong query")
    assert shown.text(".query-error mark") == "tokns>1"

    shown.click("button:has-text('Clear')")
    assert shown.page.locator(".tasks tbody tr").count() == 100


def test_text_that_was_searched_in_a_transcript_is_marked(show: Open) -> None:
    shown = show("rollout").press("/")
    shown.page.keyboard.type("residues")
    shown.press("Enter")

    shown.page.wait_for_selector("mark.hit")
    assert shown.text("mark.hit") == "residues"
    assert "1 of" in shown.text(".find [role=status]")


def test_markdown_is_formatted_on_demand_only(show: Open) -> None:
    shown = show("rollout")
    assert shown.page.locator(".conversation strong").count() == 0

    shown.click("button:has-text('Markdown')")
    assert shown.text(".conversation strong") == "two residues"


def test_the_theme_of_the_reader_wins_over_the_systems(show: Open) -> None:
    shown = show(color_scheme="light")
    paper = "getComputedStyle(document.body).backgroundColor"
    light = shown.page.evaluate(paper)
    shown.click("#theme").click("#theme")
    shown.page.reload()

    assert shown.settled().page.evaluate(paper) != light


def test_a_row_that_is_written_appears_without_a_reload(browser: Any, tmp_path: Path) -> None:
    output = write_run(tmp_path / "grows", Shape(tasks=3))
    *rows, last = output.read_text().splitlines(keepends=True)
    output.write_text("".join(rows))
    with viewing(tmp_path, cache=tmp_path / "cache") as viewer, opened(browser, viewer) as shown:
        shown.go(f"/r/{wait_for_indexes(viewer)['grows']}/rollouts?q=outcome:scored")
        assert shown.page.locator(".tasks tbody tr").count() == 11
        with output.open("a") as file:
            file.write(last)

        shown.page.locator(".tasks tbody tr").nth(11).wait_for()


def test_a_rollout_that_is_not_read_yet_appears_by_itself(browser: Any, tmp_path: Path) -> None:
    output, cache = write_run(tmp_path / "grows", Shape(tasks=3)), tmp_path / "cache"
    RunPaths(output).materialized_inputs.unlink()
    rows = output.read_text().splitlines(keepends=True)
    output.write_text("".join(rows[:4]))
    with open_index([output], cache=cache) as other:
        other.refresh(inf)  # another viewer writes the index
        output.write_text("".join(rows))
        with viewing(tmp_path, cache=cache) as viewer, opened(browser, viewer) as shown:
            [run] = viewer.ask("/api/runs")["runs"]
            shown.page.goto(f"{viewer.origin}/r/{run['id']}/t/2/3")
            shown.page.wait_for_selector(".rollout-head .waiting[role=status]")
            assert " KB so far" in shown.text(".rollout-head .waiting")
            other.close()

            shown.page.wait_for_selector(".rollout-head h1")
            assert shown.page.locator(".rollout-head .error").count() == 0


def test_every_token_has_its_number_beside_its_colour(show: Open) -> None:
    shown = show("tokens")
    cells = shown.page.locator(".token-cells .token.trained").all()

    assert len(cells) == 50
    assert all(float(cell.locator("small").inner_text()) <= 0 for cell in cells[:10])


def test_the_intervals_of_select_name_their_level(show: Open) -> None:
    heads = show("select").text(".scrolling thead")

    assert f"{LEARNABILITY_CONFIDENCE:.0%}".replace("%", " %") in heads
