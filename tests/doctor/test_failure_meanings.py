"""What a recorded failure means does not depend on other failures, nor on how long its text is."""

import pytest

from palestra.causes import FailureMeanings, Signature, SignatureTable
from palestra.causes.failure_meanings import MOST_REMEMBERED
from palestra.causes.needed_texts import needed_text
from palestra.causes.signatures import LONGEST_TEXT, short_text

TABLE = SignatureTable.load()
LINES = [line for entry in TABLE.signatures for line in (*entry.examples, *entry.unlike)]
REFUSED = "policy: answered 400: temperature must be"


def meaning_of(meanings: FailureMeanings, message: str) -> str:
    return meanings.layer_and_cause({"message": message})[1]


def test_a_failure_after_thousands_of_others_has_its_own_meaning() -> None:
    late, first = FailureMeanings(), FailureMeanings()
    for number in range(MOST_REMEMBERED + 1):
        late.of("", None, "oddity " + "x" * number)

    assert meaning_of(late, REFUSED) == meaning_of(first, REFUSED) == "data.endpoint-refuses-row"


def test_failures_with_other_statuses_are_looked_up_each() -> None:
    meanings = FailureMeanings()
    busy = meaning_of(meanings, REFUSED.replace("400", "429"))

    assert busy != meaning_of(meanings, REFUSED) == "data.endpoint-refuses-row"


@pytest.mark.parametrize("line", LINES)
def test_the_table_and_the_meanings_agree(line: str) -> None:
    matched = TABLE.match(line)

    assert FailureMeanings().of("", None, line) == (matched[0] if matched else None)


def test_the_ends_of_a_long_text_are_looked_at() -> None:
    long_text = "x " * 500_000

    assert meaning_of(FailureMeanings(), long_text + REFUSED) == "data.endpoint-refuses-row"
    assert len(short_text(long_text)) <= LONGEST_TEXT
    assert short_text(short_text(long_text)) == short_text(long_text)


@pytest.mark.parametrize("entry", TABLE.signatures, ids=lambda entry: entry.cause)
def test_a_pattern_matches_no_text_without_the_text_that_it_needs(entry: Signature) -> None:
    for pattern in entry.says:
        matched_lines = [line for line in LINES if pattern.search(line)]
        assert [n for n in matched_lines if needed_text(pattern.pattern) not in n.lower()] == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"Address (?:in|at) use\b", "address "),
        (r"colou?r of (?:a|b(?:c|d))? the [\w|(]+ bag", "r of "),
        (r"one|another", ""),
        (r"call\(\) took \d{2,} seconds", " seconds"),
        (r"ends* with a{2}", " with "),
    ],
)
def test_what_is_optional_is_not_needed(pattern: str, text: str) -> None:
    assert needed_text(pattern) == text
