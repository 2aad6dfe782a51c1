"""The report as its readers meet it: in a real Chromium, drawn, sorted, filtered, attacked."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from browsers import chromium
from palestra.analysis import write_report
from profiled_runs import Run, failed, materialized, scored

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

WAIT_MS = 20_000
HOSTILE = (
    "</script><script>window.pwned=1</script>"
    "<img src=http://127.0.0.1:9/x onerror=window.pwned=1>"
    "<!--<script>"
    "]]>\x00\x1b[2J\x08"
    "\u202eevil\u2066\u2028\u2029"
    "\ud800"
    "&lt;b&gt; {{7*7}} ${7*7} javascript:window.pwned=1 '\"`"
)
SHOWN = (
    "</script><script>window.pwned=1</script>"
    "<img src=http://127.0.0.1:9/x onerror=window.pwned=1>"
    "<!--<script>"
    "]]>␀␛[2J␈"
    "⟨U+202E⟩evil⟨U+2066⟩⟨U+2028⟩⟨U+2029⟩"
    "⟨U+D800⟩"
    "&lt;b&gt; {{7*7}} ${7*7} javascript:window.pwned=1 '\"`"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@dataclass
class Opened:
    """A page, and all it asked for or complained of."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def tasks(self) -> list[str]:
        """The tasks in the table, top to bottom."""
        return self.page.locator("#rows th a").all_inner_texts()

    def box(self, selector: str) -> dict[str, float]:
        return self.page.locator(selector).first.bounding_box()


@pytest.fixture
def show(browser: Any) -> Iterator[Any]:
    contexts = []

    def opened(path: Path, *, width: int = 1280, ending: str = "", **options: Any) -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.set_default_timeout(WAIT_MS)
        context.on("request", lambda request: found.requests.append(request.url))
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.goto(path.as_uri() + ending)
        found.page.wait_for_selector("#rows tr")
        return found

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 120 tasks; task t is solved t % 5 times of 4, or 3 when the fourth has failed."""
    rows, inputs, failures = [], [], []
    for t in range(120):
        for r in range(4):
            inputs.append(materialized(t, r, family=f"family {t % 3}"))
            if (t, r) == (7, 3):
                failures.append(failed(t, r, "timeout"))
                continue
            said = {"role": "assistant", "content": f"answer {r} to {t}"}
            response = {"output": [said], "usage": {"output_tokens": 100 * t + 10 * r + 5}}
            rows.append(
                scored(t, r, float(r < t % 5), family=f"family {t % 3}") | {"response": response}
            )
    return written(tmp_path_factory.mktemp("run"), rows, inputs=inputs, failures=failures)


def written(folder: Path, rows: list[dict[str, Any]], **files: Any) -> Path:
    run = Run.write(folder, rows, **files)
    write_report(run.load(allow_partial=True, group_by="family"), run.paths.report)
    return run.paths.report


def test_every_chart_is_drawn(show: Any, path: Path) -> None:
    opened = show(path)
    charts = opened.page.locator("svg.chart").all()

    assert len(charts) == 4
    for chart in charts:
        drawn = chart.locator('.bar:not([height="0"]), .dot').all()
        boxes = [mark.bounding_box() for mark in drawn]
        assert len(boxes) >= 2
        assert all(box["width"] > 1 and box["height"] > 1 for box in boxes)


@pytest.mark.parametrize("width", [360, 768, 1600])
def test_the_page_fits_its_window(show: Any, path: Path, width: int) -> None:
    opened = show(path, width=width)
    marks = [mark.bounding_box() for mark in opened.page.locator(".chart .bar").all()]

    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in marks)


def test_labels_of_an_axis_do_not_overlap(show: Any, path: Path) -> None:
    for width in (360, 1280):
        labels = show(path, width=width).page.locator("#figure-length .tick-x:visible").all()
        boxes = [label.bounding_box() for label in labels]
        assert len(boxes) > 2
        for left, right in pairwise(boxes):
            assert left["x"] + left["width"] <= right["x"]


def test_columns_sort_both_ways(show: Any, path: Path) -> None:
    opened = show(path)
    head = opened.page.locator("th[data-key=tokens]")
    head.locator("button").click()
    most = opened.tasks()
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").click()

    assert most[:3] == ["119", "118", "117"]
    assert opened.tasks()[:3] == ["0", "1", "2"]
    assert head.get_attribute("aria-sort") == "ascending"


def test_the_table_pages_through_all_tasks(show: Any, path: Path) -> None:
    opened = show(path)
    assert len(opened.tasks()) == 50
    opened.page.click("#next")
    opened.page.click("#next")

    assert opened.tasks() == [str(task) for task in range(100, 120)]
    assert opened.page.inner_text("#shown") == "101 to 120 of 120"
    assert opened.page.is_disabled("#next")


def test_filters_narrow_the_table_together(show: Any, path: Path) -> None:
    opened = show(path)
    opened.page.select_option("#state", "never")
    opened.page.select_option("#group", label="family 1")
    never = opened.tasks()
    opened.page.fill("#find", "QUESTION 100")

    assert never == [str(task) for task in range(120) if task % 5 == 0 and task % 3 == 1]
    assert opened.tasks() == ["100"]
    opened.page.click("#reset")
    assert len(opened.tasks()) == 50


def test_a_bar_lists_its_tasks(show: Any, path: Path) -> None:
    opened = show(path)
    opened.page.locator("#figure-pass-rate a.mark").nth(1).press("Enter")

    assert opened.tasks() == [str(task) for task in range(120) if task % 5 == 1]
    assert opened.page.input_value("#low") == opened.page.input_value("#high") == "25"


def test_tasks_with_missing_rollouts_can_be_found(show: Any, path: Path) -> None:
    opened = show(path)
    opened.page.select_option("#state", "missing")

    assert opened.tasks() == ["7"]


def test_a_row_leads_to_its_rollouts_and_back(show: Any, path: Path) -> None:
    opened = show(path)
    opened.page.locator("#rows a", has_text="12").first.press("Enter")
    reader = opened.page.locator("dialog[open]")

    assert reader.locator("h2").inner_text() == "Task 12"
    assert reader.locator(".rollout h3").all_inner_texts()[0].startswith("Rollout 0: best")
    assert "answer 0 to 12" in reader.inner_text()
    assert "question 12" in reader.inner_text()
    opened.page.keyboard.press("ArrowRight")
    assert reader.locator("h2").inner_text() == "Task 13"
    opened.page.keyboard.press("Escape")
    assert opened.page.locator("dialog[open]").count() == 0
    assert opened.page.evaluate("location.hash") == "#tasks"


def test_the_address_of_a_task_opens_it(show: Any, path: Path) -> None:
    opened = show(path, ending="#task-30")

    assert "answer 0 to 30" in opened.page.locator("dialog[open]").inner_text()


def test_no_request_leaves_the_file(show: Any, path: Path) -> None:
    opened = show(path, ending="#task-3")
    opened.page.keyboard.press("Escape")
    opened.page.click("#theme")
    opened.page.hover("#figure-pass-rate .mark")

    assert opened.requests == [path.as_uri() + "#task-3"] or opened.requests == [path.as_uri()]
    assert opened.complaints == []


def test_a_mark_tells_its_numbers(show: Any, path: Path) -> None:
    opened = show(path)
    opened.page.hover("#figure-pass-rate .mark >> nth=0")

    assert opened.page.inner_text("#tip") == "0 %: 24 tasks (20.0\N{NO-BREAK SPACE}%)"


def test_a_hostile_transcript_stays_text(show: Any, tmp_path: Path) -> None:
    said = [
        {"role": "assistant", "content": HOSTILE},
        {"type": "function_call", "name": HOSTILE, "arguments": HOSTILE},
        {"type": HOSTILE, "x": 1},
    ]
    row = scored(HOSTILE, 0, 1.0, note=HOSTILE, family=HOSTILE, agent_ref={"name": HOSTILE})
    other = scored(1, 0, 0.0, family="plain")
    given = {"input": [{"role": "user", "content": HOSTILE}]}
    inputs = [materialized(HOSTILE, 0) | {"responses_create_params": given}, materialized(1, 0)]
    page = written(tmp_path, [row | {"response": {"output": said}}, other], inputs=inputs)
    opened = show(page, ending="#task-1")

    dialog = opened.page.locator("dialog[open]")
    assert dialog.locator(".entry pre").all_text_contents()[:3] == [SHOWN, SHOWN, SHOWN]
    opened.page.wait_for_load_state("networkidle")
    assert opened.page.evaluate("window.pwned") is None
    assert opened.page.locator("img, iframe, object, script[src]").count() == 0
    assert len(opened.requests) == 1
    assert opened.complaints == []


def luminance(opened: Opened, selector: str, property_: str) -> float:
    color = opened.page.evaluate(
        f"getComputedStyle(document.querySelector('{selector}')).{property_}"
    )
    return sum(float(part) for part in color.strip("rgb()").split(",")[:3]) / 3


def test_the_page_follows_the_system_until_told_otherwise(show: Any, path: Path) -> None:
    light, dark = show(path, color_scheme="light"), show(path, color_scheme="dark")
    assert luminance(light, "body", "backgroundColor") > 240 > luminance(light, "body", "color")
    assert luminance(dark, "body", "backgroundColor") < 40 < luminance(dark, "body", "color")

    dark.page.click("#theme")
    assert dark.page.inner_text("#theme") == "Theme: light"
    assert luminance(dark, "body", "backgroundColor") > 240
    dark.page.reload()
    assert luminance(dark, "body", "backgroundColor") > 240


def test_paper_is_light_and_carries_no_controls(show: Any, path: Path) -> None:
    opened = show(path, color_scheme="dark")
    opened.page.emulate_media(media="print")

    assert luminance(opened, "body", "backgroundColor") > 240
    assert not opened.page.is_visible(".filters")
    assert opened.page.is_visible("#figure-length svg")


def test_without_script_the_charts_and_numbers_still_show(browser: Any, path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())

    assert page.locator("#figure-pass-rate .bar").first.bounding_box()["height"] > 1
    assert "need JavaScript" in page.inner_text("noscript")
    context.close()


def test_twenty_thousand_tasks_are_sorted_and_found(show: Any, tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = [scored(t, 0, float(draw.random() < 0.5), tokens=t) for t in range(20_000)]
    opened = show(written(tmp_path, rows))
    opened.page.locator("th[data-key=tokens] button").click()
    assert opened.tasks()[0] == "19999"
    opened.page.fill("#find", "question 12345")

    assert opened.tasks() == ["12345"]
    assert opened.page.inner_text("#shown") == "1 to 1 of 1 that fit, of 20,000"
