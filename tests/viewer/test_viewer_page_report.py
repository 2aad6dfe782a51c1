"""The page of a run and its report have the same words and the same numbers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browsers import chromium
from palestra import api
from palestra.schema import RunPaths
from viewed_runs import Shape, viewing, wait_for_indexes, write_run
from viewer_pages import opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

SHOWN = """() => {
  const text = (element) => element.textContent.replace(/\\s+/g, " ").trim();
  const texts = (selector) => [...document.querySelectorAll(selector)].map(text);
  const rows = (table) => [...table.querySelectorAll("tr")]
    .map((row) => [...row.cells].map(text).filter((cell) => cell && cell !== "Share as a bar"));
  const tables = [...document.querySelectorAll("table")].filter((table) => table.rows.length);
  const named = (head) => tables.find((table) => text(table.rows[0].cells[0]) === head);
  const body = (head) => named(head) ? rows(named(head)).slice(1) : null;
  return {
    key_figures: texts("dl.key-figures > div"),
    // the page links to the rollouts, the report has the query that lists them
    findings: texts(".findings li").map((said) => said.replace(/ (List them|In the viewer: \\S+)$/, "")),
    solved: texts(".split .legend li"),
    figures: Object.fromEntries([...document.querySelectorAll(".figure")]
      .map((figure) => [text(figure.querySelector("h3")), rows(figure.querySelector("table"))])),
    outcomes: body("Outcome"), components: body("Component"),
    groups: body("Family") ?? body("family"),
  };
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.mark.parametrize("skill", [0.0, 0.4])
def test_the_report_and_the_page_say_the_same(browser: Any, tmp_path: Path, skill: float) -> None:
    output = write_run(tmp_path / "a", Shape(tasks=60, rollouts=6, failing=0.33, skill=skill))
    api.profile(output, allow_partial=True, group_by="family")
    report = browser.new_page()
    report.goto(RunPaths(output).report.as_uri())
    options = ("--group-by", "family")
    with (
        viewing(output, cache=tmp_path / "cache", options=options) as viewer,
        opened(browser, viewer) as shown,
    ):
        shown.go(f"/r/{wait_for_indexes(viewer)['a']}")
        page, written = shown.page.evaluate(SHOWN), report.evaluate(SHOWN)

    assert len(written["figures"]) == 4
    assert len(written["outcomes"]) == 4
    assert len(written["groups"]) == 3
    assert page == written
