"""The report and the viewer's page have one palette."""

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.source

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "src/palestra/analysis/report"
COLOUR = re.compile(r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|oklch|light-dark)a?\(", re.IGNORECASE)
SHEETS = (REPORT / "report.css", ROOT / "viewer-ui/src/style.css")


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda path: path.name)
def test_no_sheet_but_the_palette_names_a_colour(sheet: Path) -> None:
    assert COLOUR.findall(sheet.read_text()) == []


def test_every_variable_of_a_sheet_is_one_of_the_palette_or_its_own() -> None:
    palette = (REPORT / "palette.css").read_text()
    for sheet in SHEETS:
        text = sheet.read_text()
        named = set(re.findall(r"(--[\w-]+)\s*:", palette + text))

        assert set(re.findall(r"var\((--[\w-]+)\)", text)) <= named
