"""The replies about the token ids of a rollout."""

from palestra.viewer.replies.base import Reply


class TokenTurn(Reply, frozen=True, kw_only=True):
    """One turn of the model with token ids."""

    turn: int
    at: int | None
    """The item that carries the ids, or ends the turn; null when it is not known."""
    prompt_ids: int
    generation_ids: int
    ids_before: int
    """The ids with which the prompt must start to continue the turn before; 0 for the first turn."""
    break_at: int | None
    """The position at which the prompt differs from them; null when it starts with all of them."""
    mean_log_prob: float | None
    continuity: str
    """`token_continuity`, empty when the row has none."""
    reason: str
    findings: list[str]
    """What is wrong with the ids, as training would say."""
    weight_version: str
    """The version of the weights that sampled the turn, or `7 to 8`; empty when unknown."""


class TokenTurns(Reply, frozen=True, kw_only=True):
    """`…/tokens`: the turns that have token ids."""

    turns: list[TokenTurn]
    findings: list[str]
    """What is wrong with the trajectory as a whole, as an outcome and `on_policy` say."""
    absent: str
    text: bool
    """Whether ranges have text (`--tokenizer`)."""


class TokenRange(Reply, frozen=True, kw_only=True):
    """`…/tokens/{turn}`: at most 2,000 tokens of a turn, prompt first, then generation."""

    turn: int
    start: int
    total: int
    prompt_ids: int
    ids: list[int | None]
    log_probs: list[float | None]
    mask: list[int]
    """1 for a token that is trained on."""
    texts: list[str]
    """Empty without `--tokenizer`."""
