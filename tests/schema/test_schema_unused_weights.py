"""The weights of a run that had no effect, found from its rows."""

from typing import Any

import pytest

from palestra.schema import UnusedWeights, WeightUse


def test_a_weight_is_unused_where_no_row_of_its_agent_has_the_component() -> None:
    use = WeightUse()
    use.add("shelf", ["state", "style"], {"layout": 1.0})
    use.add("shelf", ["style"], {"state": 1.0})
    use.add("shop", ["style"], {"style": 1.0})

    assert list(use.unused()) == [UnusedWeights("shelf", ("style",), ("layout", "state"))]


@pytest.mark.parametrize("unused", [None, "style", {"style": 1}, [1]])
@pytest.mark.parametrize("components", [None, "style", 1, [1]])
def test_fields_of_another_form_name_no_weight(unused: Any, components: Any) -> None:
    use = WeightUse()
    use.add("shelf", unused, components)

    assert list(use.unused()) == []


def test_a_row_without_readable_components_leaves_the_weight_unused() -> None:
    use = WeightUse()
    use.add("shelf", ["s"], "s")

    assert list(use.unused()) == [UnusedWeights("shelf", ("s",), ())]
