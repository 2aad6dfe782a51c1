"""Nothing of a page needs a mouse, a wide window or a screen; long transcripts cost no more than short ones."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browsers import chromium
from viewed_runs import Shape, Viewer, message, viewing, wait_for_indexes, write_run
from viewer_pages import Opened, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LONG_ITEMS = 20_000
MOST_DRAWN = 60
MOST_MIB = 300
PLACES = {
    "runs": "/",
    "run": "/r/{second}",
    "tasks": "/r/{second}/tasks",
    "rollouts": "/r/{second}/rollouts",
    "wrong query": "/r/{second}/rollouts?q=tokns>1",
    "task": "/r/{first}/t/3",
    "rollout": "/r/{first}/t/3/1",
    "tokens": "/r/{first}/t/3/1?panel=tokens",
    "raw": "/r/{first}/t/3/1?panel=raw",
    "tree": "/r/{first}/t/3/1?panel=tree",
    "difference": "/r/{first}/t/3?diff={first}/3/0,{first}/3/1",
    "failures": "/r/{second}/failures",
    "compare": "/c/{first}/{second}?unmatched=true",
    "select": "/r/{first}/select",
    "about": "/r/{first}/about",
}
TABLES = ("runs", "tasks", "rollouts", "compare")
_ACTIONS = """() => [...document.querySelectorAll(
    "a[href], button:not(:disabled), input, select, summary, [tabindex='0']")]
  .filter((one) => one.checkVisibility({ contentVisibilityAuto: true, visibilityProperty: true }))
  .map((one, at) => { one.dataset.action = at; return one.outerHTML.slice(0, 120); })"""
_FOCUSED = "() => document.activeElement?.dataset.action ?? null"
_CLIPPED = """() => [...document.querySelectorAll("main *")]
  .filter((one) => one.checkVisibility() && !one.matches(".hidden, .hidden *, svg, svg *"))
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 1
    || getComputedStyle(one).overflow !== "visible"
      && (one.scrollHeight > one.clientHeight + 2 || one.scrollWidth > one.clientWidth + 2))
  .map((one) => `${one.tagName}.${one.getAttribute("class")}`)"""
_COLUMNS = """() => [...document.querySelectorAll("main thead th")]
  .filter((one) => one.checkVisibility()).map((one) => one.innerText)"""
MOUSE = {"click", "pointerdown", "mousedown", "dblclick"}
KEYED = {"A", "BUTTON", "INPUT", "SELECT", "SUMMARY"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "first", Shape(tasks=6, rollouts=2))
    write_run(folder / "second", Shape(tasks=8, rollouts=3, failing=0.33))
    lengthen(write_run(folder / "long", Shape(tasks=1, rollouts=1, tokens=False)))
    with viewing(folder, cache=tmp_path_factory.mktemp("cache")) as viewer:
        yield viewer


def lengthen(output: Path) -> None:
    """Give the only rollout many items."""
    [row] = map(json.loads, output.read_text().splitlines())
    row["response"]["output"] = [
        message("assistant", f"step {number} " + "and so on " * (number % 90))
        for number in range(LONG_ITEMS)
    ]
    output.write_text(json.dumps(row) + "\n")


@pytest.fixture(scope="module")
def ids(viewer: Viewer) -> dict[str, str]:
    """The ids of the runs by the names of their folders."""
    return wait_for_indexes(viewer)


@pytest.fixture(scope="module")
def shown(browser: Any, viewer: Viewer) -> Iterator[Opened]:
    with opened(browser, viewer) as shown:
        yield shown


@pytest.mark.parametrize("name", PLACES)
def test_every_action_of_a_page_is_reached_by_tab(
    shown: Opened, ids: dict[str, str], name: str
) -> None:
    page = shown.go(PLACES[name].format(**ids)).page
    actions = page.evaluate(_ACTIONS)
    missing = dict(enumerate(actions))
    for _ in range(len(actions) + 5):
        page.keyboard.press("Tab")
        missing.pop(int(page.evaluate(_FOCUSED) or -1), None)

    assert len(actions) > 5
    assert missing == {}


@pytest.mark.parametrize("name", PLACES)
def test_what_listens_to_the_mouse_listens_to_keys(
    shown: Opened, ids: dict[str, str], name: str
) -> None:
    page = shown.go(PLACES[name].format(**ids)).page
    session = page.context.new_cdp_session(page)
    root = session.send("Runtime.evaluate", {"expression": "document.body"})["result"]
    found = session.send(
        "DOMDebugger.getEventListeners", {"objectId": root["objectId"], "depth": -1}
    )
    by_node: dict[int, set[str]] = {}
    for listener in found["listeners"]:
        by_node.setdefault(listener["backendNodeId"], set()).add(listener["type"])

    mute = []
    for number, types in by_node.items():
        node = session.send("DOM.describeNode", {"backendNodeId": number})["node"]
        # a brush is dragged, and the two fields below it do the same
        if types & MOUSE and node["nodeName"] not in KEYED and "keydown" not in types:
            mute.append((node["nodeName"], sorted(types & MOUSE)))
    assert set(map(str, mute)) <= {"('svg', ['pointerdown'])"}


def test_arrows_choose_a_token(shown: Opened, ids: dict[str, str]) -> None:
    shown.go(PLACES["tokens"].format(**ids))
    shown.page.locator(".token-cells").focus()

    shown.press("ArrowRight", "ArrowRight")
    assert "token=0.41" in shown.place
    assert "position 41" in shown.text(".turn [role=status]")


@pytest.mark.parametrize("name", TABLES)
def test_a_phone_leaves_out_no_column(
    browser: Any, viewer: Viewer, ids: dict[str, str], name: str
) -> None:
    columns = []
    for width in (360, 1440):
        with opened(browser, viewer, width=width) as shown:
            columns.append(shown.go(PLACES[name].format(**ids)).page.evaluate(_COLUMNS))

    assert columns[0] == columns[1]


def test_paper_cuts_nothing(browser: Any, viewer: Viewer, ids: dict[str, str]) -> None:
    clipped = {}
    with opened(browser, viewer, width=900) as shown:
        for name, place in PLACES.items():
            shown.go(place.format(**ids)).page.emulate_media(media="print")
            clipped[name] = shown.page.evaluate(_CLIPPED)
            shown.page.emulate_media(media="screen")

    assert clipped == {name: [] for name in PLACES}


@pytest.mark.parametrize("item", [19_990, 12_345, 3])
def test_any_item_of_a_long_transcript_is_drawn_alone(
    shown: Opened, ids: dict[str, str], item: int
) -> None:
    page = shown.go(f"/r/{ids['long']}/t/0/0?item={item}").page
    page.wait_for_function(f"document.activeElement?.dataset.index === '{item}'")
    page.wait_for_selector(f'[data-index="{item}"] pre')
    page.wait_for_function(f"""() => {{
      const box = document.querySelector('[data-index="{item}"]')?.getBoundingClientRect();
      return box && box.top >= 40 && box.bottom <= innerHeight; }}""")

    assert page.locator("[data-index]").count() <= MOST_DRAWN
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    metrics = session.send("Performance.getMetrics")["metrics"]
    heap = next(one["value"] for one in metrics if one["name"] == "JSHeapUsedSize")
    assert heap / 2**20 < MOST_MIB
