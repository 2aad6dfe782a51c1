"""What trainers want of a rollout: a prompt, and a response of which a mask says what counts."""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from palestra.errors import InputDataError, RunFailed
from palestra.training.errors import Cause, IncompleteRollouts
from palestra.training.outcomes import Chain, Completed, Failed, Outcome


class Sample(msgspec.Struct, frozen=True):
    """A chain, cut where the model said its first token. The response's lists are equally long."""

    prompt_ids: list[int]
    response_ids: list[int]
    response_mask: list[int]
    """1 for what the model sampled and is trained on; 0 for what tools and users said."""
    response_logprobs: list[float]
    """0.0 where nothing was sampled."""


def sample_of(chain: Chain, *, masked: bool = False) -> Sample:
    """One chain; `masked`: nothing of it is trained on."""
    flat = chain.flat
    begins = len(chain.turns[0].prompt_ids) if chain.turns else 0
    mask = [0] * (len(flat.ids) - begins) if masked else flat.loss_mask[begins:]
    return Sample(flat.ids[:begins], flat.ids[begins:], mask, flat.logprobs[begins:])


def the_sample(outcome: Completed, trainer: str, *, pad_id: int) -> Sample:
    """The rollout as the one sequence that `trainer` takes.

    Where there is nothing to train on (no token ids were captured, or the context was full before
    the first token), `pad_id` stands for it, masked. Raises RunFailed for several sequences.
    """
    chain = the_chain(outcome, trainer)
    sample = sample_of(chain, masked=outcome.masked)
    return sample if sample.response_ids else nothing_said(sample.prompt_ids, pad_id)


def the_chain(outcome: Completed, trainer: str) -> Chain:
    """The one chain that `trainer` takes; of a masked rollout, of which nothing counts, the first.

    Raises RunFailed for several.
    """
    if len(outcome.chains) > 1 and not outcome.masked:
        raise RunFailed(
            f"rollout {outcome.key} is {len(outcome.chains)} sequences, and {trainer} takes one",
            hint="on_discontinuity=mask leaves such rollouts out of the loss; =raise stops at them",
        )
    return outcome.chains[0] if outcome.chains else Chain([])


def nothing_said(prompt_ids: list[int], pad_id: int) -> Sample:
    """A sequence of which nothing is trained on, and no list is empty."""
    return Sample(prompt_ids or [pad_id], [pad_id], [0], [0.0])


def all_completed(outcomes: Sequence[Outcome], trainer: str) -> list[Completed]:
    """The outcomes, when each has a reward.

    Raises IncompleteRollouts for any that failed: `trainer` has no rows without a reward, and one
    made up would move the baseline of its group. Raises InputDataError when there is no outcome.
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
    """Their mean, 0.0 of none."""
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0
