"""A group says which of its members must not enter a baseline, and computes it without them."""

from typing import Any

import pytest
from msgspec.structs import replace
from outcome_samples import completed, failed

from palestra.training import Completed, FailureClass, Fault, Group, Key, Outcome, Turn


def member(rollout: int, reward: float = 0.0, *versions: int | None, **fields: Any) -> Completed:
    """A rollout whose turns are of these weight versions; of version 7 by default."""
    turns = [Turn([1], [2], [-0.5], version, version) for version in versions or (7,)]
    return completed(*turns, rollout=rollout, reward=reward, **fields)


def group(*outcomes: Outcome, left_out: int = 0) -> Group:
    return Group(0, list(outcomes), left_out)


def faults(of: Group) -> dict[Key | None, Fault]:
    return {fault.key: fault.fault for fault in of.faults}


def test_a_group_whose_members_all_ended_well_is_valid() -> None:
    assert group(member(0), member(1)).is_valid


def test_each_member_that_must_not_count_has_its_reason() -> None:
    stale = replace(failed(0, 2), failure=FailureClass.STALE)
    masked = member(3, masked=True, mask_reason="incomplete capture")

    mixed = group(member(0), failed(0, 1), stale, masked, left_out=1)

    assert faults(mixed) == {
        Key(0, 1): Fault.FAILED,
        Key(0, 2): Fault.STALE,
        Key(0, 3): Fault.MASKED,
        None: Fault.LEFT_OUT,
    }
    assert [outcome.key for outcome in mixed.valid()] == [Key(0, 0)]


@pytest.mark.parametrize("versions", [(7, 8), (8,), (None,), (None, 7)])
def test_a_member_of_other_weights_than_most_is_no_valid_member(
    versions: tuple[int | None, ...],
) -> None:
    odd = group(member(0), member(1), member(2, 1.0, *versions))

    assert faults(odd) == {Key(0, 2): Fault.MIXED_WEIGHTS}
    assert len(odd.valid()) == 2
    assert len(odd.valid(mixed_weights=True)) == 3


def test_a_trainer_that_sets_no_version_has_valid_groups() -> None:
    assert group(member(0, 0.0, None), member(1, 0.0, None)).is_valid


def test_advantages_are_of_the_valid_members_alone() -> None:
    made = group(member(0, 1.0), member(1, 0.0), failed(0, 2), member(3, 9.0, masked=True))

    advantages = made.advantages(epsilon=0.0)

    assert (advantages.mean, advantages.std) == (0.5, pytest.approx(0.5**0.5))
    assert [outcome.key for outcome in advantages.members] == [Key(0, 0), Key(0, 1)]
    assert advantages.values == pytest.approx([0.5**0.5, -(0.5**0.5)])
    assert made.advantages(divide=False).values == [0.5, -0.5]


def test_one_valid_member_has_no_baseline() -> None:
    advantages = group(member(0, 1.0), failed(0, 1)).advantages()

    assert (advantages.members, advantages.values, advantages.mean) == ([], [], None)


def test_rewards_that_differ_by_rounding_are_no_advantage() -> None:
    advantages = group(member(0, 0.1 + 0.2), member(1, 0.3)).advantages()

    assert max(map(abs, advantages.values)) < 1e-9
