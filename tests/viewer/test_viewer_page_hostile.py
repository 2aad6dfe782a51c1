"""Rows that attack their reader: nothing runs, nothing is sent, nothing is hidden."""

from collections.abc import Iterator
from typing import Any

import pytest

from browsers import chromium
from viewed_runs import Shape, Viewer, viewing, wait_for_indexes, write_run
from viewer_pages import Opened, opened

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PAYLOADS = {
    "script": "</script><script>window.pwned=1</script>",
    "image": "<img src=http://127.0.0.1:9/x onerror=window.pwned=1>",
    "svg": "<svg onload=window.pwned=1><use href=http://127.0.0.1:9/u></svg>",
    "link": "[read](javascript:window.pwned=1) <a href=javascript:window.pwned=1>x</a>",
    "markdown image": "![x](http://127.0.0.1:9/i.png)",
    "css": "<style>*{display:none;background:url(http://127.0.0.1:9/c)}</style>",
    "direction": "\u202elive\u2066\u2069\U000e0041",
    "marks": "Z" + "\u0301" * 10_000,
    "terminal": "\x1b[2J\x1b]0;title\x07\x1b]8;;http://127.0.0.1:9/\x07",
    "forged": "</pre></article><h1>reward 1.0</h1>",
    "command": "'; touch /tmp/pwned; echo '",
    "template": "{{7*7}} ${7*7} javascript:window.pwned=1",
}
PLACES = (
    *("/r/{run}", "/r/{run}/tasks", "/r/{run}/rollouts", "/r/{run}/t/1", "/r/{run}/t/1/0"),
    *("/r/{run}/t/1/0?md=1", "/r/{run}/t/1/0?panel=raw", "/r/{run}/t/1/0?panel=tree"),
    *("/r/{run}/t/1?diff={run}/1/0,{run}/1/1", "/r/{run}/failures", "/r/{run}/about"),
    *("/r/{run}/t/1/0?panel=tokens", "/r/{run}/rollouts?q=text:residues", "/r/{run}/select"),
)
FRONT = "START"
END = "FINISH"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("runs")
    for name, payload in PAYLOADS.items():
        hostile = f"{FRONT}{payload}{END}"
        shape = Shape(tasks=4, rollouts=3, failing=0.2, hostile=hostile, seed=5)
        write_run(folder / name.replace(" ", "_"), shape)
    write_run(folder / "<img src=x onerror=window.pwned=1>", Shape(tasks=2))
    with viewing(folder, cache=tmp_path_factory.mktemp("cache")) as viewer:
        yield viewer


@pytest.fixture(scope="module")
def ids(viewer: Viewer) -> dict[str, str]:
    return wait_for_indexes(viewer)


@pytest.fixture
def shown(browser: Any, viewer: Viewer) -> Iterator[Opened]:
    with opened(browser, viewer) as shown:
        yield shown


def assert_untouched(shown: Opened) -> None:
    """Nothing ran, nothing left, and the page is the one that we wrote."""
    assert shown.page.evaluate("window.pwned") is None
    assert shown.dialogs == []
    assert [line for line in shown.complaints if "violates" in line] == []
    sent = [url for url in shown.requests if not url.startswith(shown.viewer.origin)]
    assert [url for url in sent if not url.startswith("blob:")] == []
    tags = "document.querySelectorAll('main img, main style, main script, main iframe').length"
    assert shown.page.evaluate(tags) == 0
    assert shown.page.locator("h1").count() == 1


@pytest.mark.parametrize("name", PAYLOADS)
def test_no_payload_does_anything_anywhere(shown: Opened, ids: dict[str, str], name: str) -> None:
    run = ids[name.replace(" ", "_")]
    for place in PLACES:
        shown.go(place.format(run=run)).press("j", "j")
        assert_untouched(shown)


def test_names_of_files_are_texts_too(shown: Opened) -> None:
    assert "<img src=x onerror=window.pwned=1>" in shown.text(".runs")
    assert_untouched(shown)


@pytest.mark.parametrize(
    ("name", "visible"),
    [
        ("direction", "⟨U+202E⟩live⟨U+2066⟩⟨U+2069⟩⟨U+E0041⟩"),
        ("terminal", "␛[2J␛]0;title␇␛]8;;http://127.0.0.1:9/␇"),
        ("forged", "</pre></article><h1>reward 1.0</h1>"),
        ("marks", "more marks⟩"),
    ],
)
def test_what_hides_is_shown_by_name(
    shown: Opened, ids: dict[str, str], name: str, visible: str
) -> None:
    shown.go(f"/r/{ids[name]}/t/1/0")
    shown.page.wait_for_function(f"() => document.body.innerText.includes('{END}')")

    assert visible in shown.text(".conversation .user pre")


def test_text_of_rows_stands_only_in_marked_blocks(shown: Opened, ids: dict[str, str]) -> None:
    unmarked = f"""() => {{
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      const found = [];
      while (walker.nextNode())
        if (walker.currentNode.data.includes("{FRONT}")
            && !walker.currentNode.parentElement.closest(".theirs, .copyable"))
          found.push(walker.currentNode.parentElement.outerHTML.slice(0, 200));
      return found;
    }}"""
    for place in PLACES:
        shown.go(place.format(run=ids["forged"]))
        assert shown.page.evaluate(unmarked) == []


def test_a_block_of_their_text_is_isolated_in_direction(shown: Opened, ids: dict[str, str]) -> None:
    shown.go(f"/r/{ids['direction']}/t/1/0")
    blocks = shown.page.locator("pre.theirs, bdi.theirs").all()

    assert blocks
    assert {block.get_attribute("dir") for block in blocks} == {"auto"}


def test_every_command_to_copy_is_printable_ascii(shown: Opened, ids: dict[str, str]) -> None:
    for name in ("command", "direction", "terminal"):
        shown.go(f"/r/{ids[name]}/t/1/0")
        texts = shown.page.locator(".copyable code").all_inner_texts()
        assert texts
        assert all(text.isascii() for text in texts)
