"""When tokens are too old to train on, and what is left of a rollout that has such tokens."""

from msgspec.structs import replace

from palestra.training.outcomes import Chain, Completed, Turn
from palestra.training.settings import ClientSettings, OnStale

OLD_TOKENS = "stale"
"""The start of the mask reason of a rollout whose turns are all too old."""


def too_old(sampled: int | None, now: int | None, max_staleness: int | None) -> bool:
    """Whether tokens of version `sampled` are older than `max_staleness` versions.

    An unknown version counts as too old, because it cannot be shown to be recent.
    """
    if max_staleness is None or now is None:
        return False
    return sampled is None or now - sampled > max_staleness


def stale(sampled: int | None, now: int | None, max_staleness: int | None) -> str:
    """Return the message for a rollout that is too old."""
    if sampled is None:
        return (
            f"its oldest tokens are of an unknown weight version, and the weights are at {now} "
            f"(max_staleness={max_staleness}): call set_weight_version before the first submit"
        )
    return (
        f"its oldest tokens are of weight version {sampled}, and the weights are at {now}: "
        f"more than max_staleness={max_staleness} apart"
    )


def is_stale(outcome: Completed, now: int | None, settings: ClientSettings) -> bool:
    """Whether a completed rollout is too old to be handed out, as `on_stale` says."""
    if settings.on_stale in {OnStale.KEEP, OnStale.CONTINUE}:
        return False
    return too_old(outcome.oldest_weights, now, settings.max_staleness)


def continued(outcome: Completed, now: int | None, settings: ClientSettings) -> Completed:
    """Return the rollout; with `on_stale=continue`, with its turns that are too old marked."""
    if settings.on_stale is not OnStale.CONTINUE:
        return outcome
    return recent_turns_only(outcome, now, settings.max_staleness)


def recent_turns_only(outcome: Completed, now: int | None, max_staleness: int | None) -> Completed:
    """Return the rollout with its turns that are too old marked: they are read, and not trained on.

    A rollout without any other turn is masked.
    """
    if not any(turn.trained and _is_old(turn, now, max_staleness) for turn in outcome.turns):
        return outcome
    chains = [
        Chain(
            [
                replace(turn, trained=turn.trained and not _is_old(turn, now, max_staleness))
                for turn in chain.turns
            ]
        )
        for chain in outcome.chains
    ]
    marked = replace(outcome, chains=chains)
    if outcome.masked or any(turn.is_trained for turn in marked.turns):
        return marked
    newest = max(
        (turn.weights_start for turn in outcome.turns if turn.weights_start is not None),
        default=None,
    )
    reason = f"{OLD_TOKENS}: {stale(newest, now, max_staleness)}"
    return replace(marked, masked=True, mask_reason=reason)


def _is_old(turn: Turn, now: int | None, max_staleness: int | None) -> bool:
    return too_old(turn.weights_start, now, max_staleness)
