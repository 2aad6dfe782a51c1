"""Rollouts as prompt and response sequences, with a mask of the tokens to train on."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from palestra.errors import InputDataError, RunFailed
from palestra.training.errors import Cause, IncompleteRollouts
from palestra.training.outcomes import Chain, Completed, Failed, Outcome


class Sample(msgspec.Struct, frozen=True):
    """One chain, split at the model's first token. The lists of the response have equal length."""

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    """1 for tokens that the model sampled and that are trained on; 0 for text of tools and users.
    """
    response_logprobs: list[float]
    """The log prob of each token; 0.0 for tokens that were not sampled."""


def sample_of(chain: Chain, *, masked: bool = False) -> Sample:
    """Return one chain as a sample. `masked`: the mask is all zeros."""
    flat = chain.flat
    begins = len(chain.turns[0].prompt_ids) if chain.turns else 0
    mask = [0] * (len(flat.ids) - begins) if masked else flat.loss_mask[begins:]
    return Sample(flat.ids[:begins], flat.ids[begins:], mask, flat.logprobs[begins:])


def the_sample(outcome: Completed, trainer: str, *, pad_id: int) -> Sample:
    """Return the rollout as one sequence, because `trainer` takes only one.

    If there is nothing to train on (no token ids were captured, or the context was full before the
    first token), the response is one masked `pad_id`. Raises RunFailed: the rollout has several
    sequences.
    """
    chain = the_chain(outcome, trainer)
    sample = sample_of(chain, masked=outcome.masked)
    return sample if sample.response_ids else nothing_said(sample.prompt_ids, pad_id)


def the_chain(outcome: Completed, trainer: str) -> Chain:
    """Return the rollout's only chain; the first chain when the rollout is masked, as no token
    counts then.

    Raises RunFailed: the rollout has several chains.
    """
    if len(outcome.chains) > 1 and not outcome.masked:
        raise RunFailed(
            f"rollout {outcome.key} has {len(outcome.chains)} sequences, but {trainer} accepts one",
            hint="on_discontinuity=mask leaves such rollouts out of the loss; =raise stops at them",
        )
    return outcome.chains[0] if outcome.chains else Chain([])


def sampled_ranges(mask: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ranges (start, end) in which a mask is 1."""
    edges = [0, *mask, 0]
    changes = [index for index in range(len(edges) - 1) if edges[index] != edges[index + 1]]
    return list(zip(changes[::2], changes[1::2], strict=True))


def nothing_said(prompt_ids: list[int], pad_id: int) -> Sample:
    """Return a sequence with nothing to train on and no empty list."""
    return Sample(prompt_ids or [pad_id], [pad_id], [0], [0.0])


def all_completed(outcomes: Sequence[Outcome], trainer: str) -> list[Completed]:
    """Return the outcomes, if each has a reward.

    Raises IncompleteRollouts: a rollout failed. `trainer` needs a reward in each row, and a made-up
    reward would change the baseline of its group. Raises InputDataError: there is no outcome.
    """
    if not outcomes:
        raise InputDataError(f"there is no outcome for {trainer} to train on: the list is empty")
    completed = [outcome for outcome in outcomes if isinstance(outcome, Completed)]
    failed = [outcome for outcome in outcomes if isinstance(outcome, Failed)]
    if not failed:
        return completed
    incomplete = IncompleteRollouts(
        requested=len(outcomes),
        received=len(completed),
        missing=tuple(outcome.key for outcome in failed),
        cause=Cause(
            sentence=f"{failed[0].message}; {trainer} has no row for a rollout without a reward",
            setting="on_incomplete=drop_group, and hand over whole groups only",
        ),
        failures=dict(Counter(str(outcome.failure) for outcome in failed)),
    )
    incomplete.outcomes = tuple(outcomes)
    raise incomplete


def mean(values: Iterable[float]) -> float:
    """Return the mean of the values; 0.0 without values."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0
