"""The names that docs/topics/training.md lists are those that there are."""

import dataclasses
import re
from pathlib import Path

import pytest

from palestra.training import Attempts, ClientSettings, FailureClass, OnIncomplete, Outage

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "topics" / "training.md"


@pytest.mark.parametrize("kind", [ClientSettings, Attempts])
def test_the_document_lists_every_setting(kind: type[ClientSettings | Attempts]) -> None:
    row = re.search(rf"^\| `{kind.__name__}` \|(.*)\|$", DOCUMENT.read_text(), re.MULTILINE)

    assert row is not None
    assert re.findall("`(.*?)`", row[1]) == [field.name for field in dataclasses.fields(kind)]


def test_the_policies_that_the_document_shows_are_valid() -> None:
    (shown,) = re.findall(r"^ClientSettings\(on_incomplete=.*$", DOCUMENT.read_text(), re.MULTILINE)

    settings = eval(shown, {"ClientSettings": ClientSettings}).checked()

    assert settings.policies.for_failure(FailureClass.VERIFIER_ERROR) is OnIncomplete.MASK
    assert settings.policies.for_outage(Outage.STUCK) is OnIncomplete.RAISE
