"""The patience of a collection, as it is given."""

import pytest

from palestra.settings import CollectArgs, args_from


@pytest.mark.parametrize(
    ("value", "patience_s"),
    [(None, 120.0), (90, 90.0), ("2.5", 2.5), (0, None), ("none", None), ("never", None)],
)
def test_a_patience_is_a_number_of_seconds_or_has_no_end(
    value: object, patience_s: float | None
) -> None:
    given = {"input_jsonl_fpath": "a.jsonl", "output_jsonl_fpath": "b.jsonl", "patience": value}

    assert args_from(CollectArgs, given).patience == patience_s
