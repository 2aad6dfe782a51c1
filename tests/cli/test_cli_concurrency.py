"""What a bound on rollouts in flight may be."""

import pytest

from palestra.errors import ConfigError
from palestra.settings import CollectArgs, args_from, concurrency


@pytest.mark.parametrize(
    ("given", "meant"), [(None, None), ("auto", "auto"), ("16", 16), (1, 1), ("16000", 16_000)]
)
def test_a_bound_is_a_number_or_auto(given: str | int | None, meant: str | int | None) -> None:
    assert concurrency(given) == meant


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5", "", True, [3]])
def test_anything_else_is_refused_by_name(given: object) -> None:
    tree = {"output_jsonl_fpath": "o", "input_jsonl_fpath": "i", "num_samples_in_parallel": given}
    with pytest.raises(ConfigError, match=r"num_samples_in_parallel: .*from 1 on, or auto"):
        args_from(CollectArgs, tree)
