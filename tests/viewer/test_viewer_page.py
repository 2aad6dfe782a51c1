"""The page of the viewer as its readers meet it: in a real Chromium, over a real server."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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


def test_an_error_of_a_query_is_in_sentences_and_examples_fit_the_table(
    show: Open, ids: dict[str, str]
) -> None:
    shown = show().go(f"/r/{next(iter(ids.values()))}/rollouts?q=foo:1")

    assert "'foo'. The fields: task" in shown.text(".query-error p")
    assert not [t for t in shown.page.locator("button.term").all_inner_texts() if "pass_rate" in t]


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


def test_a_short_question_to_the_judge_is_read_without_a_click(show: Open) -> None:
    shown = show("rollout")

    assert "equal to 14?" in shown.text(".judge details:has(summary:text-is('Question')) pre")
    assert shown.page.locator(".judge details pre").first.is_visible()


def test_any_rollout_of_a_group_is_one_click_from_its_difference_to_the_best(show: Open) -> None:
    shown = show("task")
    others = shown.page.locator(".member a:text-is('Against the best')")
    assert others.count() == 3
    others.first.click()

    assert shown.settled().page.locator(".diff-head .side").count() == 2


def test_what_is_in_one_rollout_only_is_marked_alike_on_both_sides(show: Open) -> None:
    shown = show("difference")
    looks = shown.page.locator(".diff-pair mark.only").evaluate_all(
        "marks => marks.map(mark => { const style = getComputedStyle(mark);"
        " return style.background + style.textDecorationLine; })"
    )

    assert len(looks) >= 2
    assert len(set(looks)) == 1
    assert "line-through" not in looks[0]


def test_a_difference_shows_colours_of_terminals_as_the_transcript_does(
    show: Open, ids: dict[str, str]
) -> None:
    first = ids["first"]
    shown = show("runs").go(f"/r/{first}/t/12?diff={first}/12/1,{first}/12/2&equal=true")

    assert shown.page.locator(".diff-items .ansi-2").count() >= 1
    assert "[32m" not in shown.text(".diff-items")


def test_the_verdict_of_a_comparison_names_both_runs(show: Open) -> None:
    assert re.search("A is first.*, B is second", show("compare").text(".verdict-line"))


def test_a_task_on_an_edge_of_the_band_says_so(show: Open, ids: dict[str, str]) -> None:
    shown = show("runs").go(f"/r/{ids['first']}/select?low=0.25&high=0.75")

    assert "borderline" in shown.text(".key-figures")
    assert shown.page.locator("tbody td:last-child:has-text('on an edge itself')").count() >= 1


def test_means_that_differ_from_those_of_the_runs_are_explained(
    show: Open, ids: dict[str, str]
) -> None:
    shown = show("runs").go(f"/c/{ids['first']}/{ids['third']}?unmatched=true")

    assert "means over the paired tasks" in shown.text()


def test_a_tip_leaves_the_title_of_its_figure_free(show: Open) -> None:
    shown = show("run")
    figure = shown.page.locator(".figure:has(h3:has-text('against length'))")
    for mark in figure.locator("[data-tip]").all():
        mark.hover(force=True)
        tip = shown.page.locator("#tip")
        tip.wait_for()
        top = figure.locator("svg").first.bounding_box()["y"]
        assert tip.bounding_box()["y"] >= top


def test_a_tip_stays_with_its_mark_while_the_page_scrolls(show: Open) -> None:
    shown = show("run")
    shown.page.set_viewport_size({"width": 900, "height": 300})
    mark = shown.page.locator(".figure:has(h3:has-text('against length')) a.mark").first
    mark.focus()
    shown.page.evaluate("scrollBy(0, 40); new Promise(requestAnimationFrame)")
    shown.page.evaluate("new Promise(requestAnimationFrame)")

    tip = shown.page.locator("#tip")
    assert tip.text_content() == mark.get_attribute("data-tip")
    shown.page.keyboard.press("Escape")
    assert tip.count() == 0


def test_a_row_without_token_ids_says_so_of_itself(browser: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "plain", Shape(tasks=1, tokens=False))
    with viewing(tmp_path, cache=tmp_path / "cache") as viewer, opened(browser, viewer) as shown:
        shown.go(f"/r/{wait_for_indexes(viewer)['plain']}/t/0/0?panel=tokens")

        assert "This row holds no token ids" in shown.text(".tokens")


@contextmanager
def unread(browser: Any, folder: Path, cache: Path) -> Iterator[tuple[Opened, dict[str, str], Any]]:
    """A page, the ids of two runs, and their indexes, in which another viewer has read nothing."""
    outputs = [write_run(folder / name, Shape(tasks=3)) for name in ("first", "second")]
    with ExitStack() as stack:
        others = [stack.enter_context(open_index([path], cache=cache)) for path in outputs]
        for path, other in zip(outputs, others, strict=True):
            files = (path, RunPaths(path).materialized_inputs)
            texts = [file.read_text() for file in files]
            for file in files:
                file.write_text("")
            other.refresh(inf)
            for file, text in zip(files, texts, strict=True):
                file.write_text(text)
        viewer = stack.enter_context(viewing(folder, cache=cache))
        shown = stack.enter_context(opened(browser, viewer))
        ids = {run["name"]: run["id"] for run in viewer.ask("/api/runs")["runs"]}
        yield shown, ids, others


def test_a_comparison_of_runs_that_are_not_read_yet_appears_by_itself(
    browser: Any, tmp_path: Path
) -> None:
    with unread(browser, tmp_path / "runs", tmp_path / "cache") as (shown, ids, others):
        shown.page.goto(f"{shown.viewer.origin}/c/{ids['first']}/{ids['second']}")
        shown.page.wait_for_selector(".first .waiting[role=status]")
        assert not shown.page.get_by_text("Compare them anyway").count()
        for other in others:
            other.close()

        shown.page.wait_for_selector(".verdict-line")
        shown.page.wait_for_selector(".tasks tbody tr")


def test_tasks_of_a_run_that_is_not_read_yet_appear_by_themselves(
    browser: Any, tmp_path: Path
) -> None:
    with unread(browser, tmp_path / "runs", tmp_path / "cache") as (shown, ids, others):
        shown.go(f"/r/{ids['first']}/tasks")
        assert shown.page.locator(".tasks tbody tr").count() == 0
        others[0].close()

        shown.page.locator(".tasks tbody tr").nth(2).wait_for()


def test_every_token_has_its_number_beside_its_colour(show: Open) -> None:
    shown = show("tokens")
    cells = shown.page.locator(".token-cells .token.trained").all()

    assert len(cells) == 50
    assert all(float(cell.locator("small").inner_text()) <= 0 for cell in cells[:10])


def test_the_intervals_of_select_name_their_level(show: Open) -> None:
    heads = show("select").text(".scrolling thead")

    assert f"{LEARNABILITY_CONFIDENCE:.0%}".replace("%", " %") in heads
