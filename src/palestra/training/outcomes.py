"""How a requested rollout ended: `Completed` with a reward, or `Failed` with a reason.

Both can be pickled, and written as JSON with `outcome_to_json`. Neither holds a tensor.

turn: one call of the model: what it read that no turn before it had read, and what it sampled.
chain: turns of which each one's prompt starts with all ids of those before it. A rollout is one
chain; where its history was rewritten on the way and the policy is `split`, it is several.
flat view: a chain as one sequence: ids, which of them to train on, and their log probs.
"""

from typing import Any, TypeAlias

import msgspec

import palestra.errors
from palestra.training.raw import RawRow
from palestra.training.requests import Key

FailureClass: TypeAlias = palestra.errors.Outcome
"""Why a requested rollout has no reward. `Outcome` is another thing to a trainer: see below."""


class Turn(msgspec.Struct, frozen=True):
    """One call of the model. `generated_ids` and `logprobs` are of equal length.

    The lists are those that came from the model server: read them, do not change them.
    """

    prompt_ids: list[int]
    """Only what is new in this turn; in the first of a chain, the whole prompt."""
    generated_ids: list[int]
    logprobs: list[float]
    """Of each generated id as it was sampled. Empty when those that came are none (a NaN, too
    few): such a turn is not trained on, and its rollout is masked."""
    weights_start: int | None = None
    """The trainer's version of the weights when the call began; None when it never said one."""
    weights_end: int | None = None
    """The version when the call ended; another one when it was bumped meanwhile."""


class Flat(msgspec.Struct, frozen=True):
    """A chain as one sequence; the three lists are of equal length."""

    ids: list[int]
    loss_mask: list[int]
    """1 for what the model sampled, 0 for what it read."""
    logprobs: list[float]
    """0.0 where the mask is 0."""


class Chain(msgspec.Struct, frozen=True):
    """Turns that make one sequence."""

    turns: list[Turn]

    @property
    def flat(self) -> Flat:
        """All of it in a row."""
        ids: list[int] = []
        mask: list[int] = []
        logprobs: list[float] = []
        for turn in self.turns:
            trained = len(turn.logprobs) == len(turn.generated_ids)
            ids += turn.prompt_ids
            ids += turn.generated_ids
            mask += [0] * len(turn.prompt_ids)
            mask += [int(trained)] * len(turn.generated_ids)
            logprobs += [0.0] * len(turn.prompt_ids)
            logprobs += turn.logprobs if trained else [0.0] * len(turn.generated_ids)
        return Flat(ids, mask, logprobs)


class TokenUsage(msgspec.Struct, frozen=True):
    """Tokens that the model server counted."""

    input_tokens: int = 0
    output_tokens: int = 0


class Timings(msgspec.Struct, frozen=True):
    """Seconds. What happens in other processes is None where they do not tell."""

    queue_s: float
    """From its submission to the start of its last attempt."""
    total_s: float
    """Of its last attempt."""
    model_s: float | None = None
    tool_s: float | None = None
    verify_s: float | None = None


class Completed(msgspec.Struct, frozen=True, kw_only=True, tag_field="outcome", tag="completed"):
    """A rollout with its reward."""

    task_id: int | str
    rollout_index: int
    group_id: int | str
    attempt: int
    reward: float
    """Finite."""
    reward_components: dict[str, float] = {}
    """Parts of the reward that the environment reports by name."""
    chains: list[Chain] = []
    """One, as a rule; several after a `split`; none when no token ids were captured."""
    stop_reason: str = ""
    """Why the model stopped: `stop`, `max_output_tokens`, `context_full`, `content_filter`, …"""
    truncated: bool = False
    """Cut off by a limit on tokens or context, and scored as it was."""
    masked: bool = False
    """Not to be trained on, for `mask_reason`; its reward counts for statistics all the same."""
    mask_reason: str = ""
    usage: TokenUsage = TokenUsage()
    timings: Timings
    weights_start: int | None = None
    """The weight version when the attempt began, and when it ended."""
    weights_end: int | None = None
    raw: RawRow

    @property
    def key(self) -> Key:
        """Which rollout this is."""
        return Key(self.task_id, self.rollout_index)

    @property
    def turns(self) -> list[Turn]:
        """All turns, in their order."""
        return [turn for chain in self.chains for turn in chain.turns]

    @property
    def flat(self) -> Flat:
        """The rollout as one sequence, empty without token ids.

        Raises ValueError when it is several: train on `chain.flat` of each of its `chains` then.
        """
        if len(self.chains) > 1:
            raise ValueError(f"rollout {self.key} is {len(self.chains)} chains: take each one's")
        return self.chains[0].flat if self.chains else Flat([], [], [])

    @property
    def oldest_weights(self) -> int | None:
        """The oldest version that may have sampled any of its tokens; None when that is unknown."""
        versions = [turn.weights_start for turn in self.turns]
        known_versions = [version for version in versions if version is not None]
        # A turn of an unknown version began after its attempt did.
        return (
            min(known_versions)
            if known_versions and len(known_versions) == len(versions)
            else self.weights_start
        )


class Evidence(msgspec.Struct, frozen=True):
    """What is known of a failure besides its message."""

    body: str = ""
    """What the innermost server answered, an excerpt."""
    where: str = ""
    """The servers that the failure passed through, outermost first."""
    log_tail: list[str] = []
    """The last lines of the process that died, or of the environment's traceback."""
    hint: str = ""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag_field="outcome", tag="failed"):
    """A rollout without one. There is no reward here, and none is to be made up."""

    task_id: int | str
    rollout_index: int
    group_id: int | str
    failure: FailureClass
    layer: str
    """Where it belongs: a value of `palestra.errors.Layer`."""
    retriable: bool
    """Whether another attempt might have succeeded."""
    attempts: int
    """How many were begun; 0 when it never ran."""
    message: str
    evidence: Evidence = Evidence()

    @property
    def key(self) -> Key:
        """Which rollout this is."""
        return Key(self.task_id, self.rollout_index)


Outcome = Completed | Failed


class Group(msgspec.Struct, frozen=True):
    """The outcomes of one group, in the order of their requests.

    Statistics are made of `completed` alone: a failed row never enters them.
    """

    group_id: int | str
    outcomes: list[Outcome]

    @property
    def completed(self) -> list[Completed]:
        """Those with a reward."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Completed)]

    @property
    def rewards(self) -> list[float]:
        """Of the completed ones, in their order."""
        return [outcome.reward for outcome in self.completed]


class Summary(msgspec.Struct, frozen=True):
    """What became of a submission: requested = completed + failed + pending."""

    requested: int
    completed: int
    failed: dict[str, int]
    """By class; classes without a failure are left out."""
    pending: int
    masked: int = 0
    """Of the completed."""
    truncated: int = 0
    """Of the completed."""
    retried: int = 0
    """Attempts that were followed by another one."""

    @property
    def adds_up(self) -> bool:
        """Whether every requested rollout is accounted for exactly once."""
        return self.requested == self.completed + sum(self.failed.values()) + self.pending

    def line(self) -> str:
        """`requested 8 = completed 6 (1 masked) + failed 2 (timeout 2)`."""
        masked = f" ({self.masked} masked)" if self.masked else ""
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.failed.items()))
        failed = f"failed {sum(self.failed.values())}" + (f" ({kinds})" if kinds else "")
        pending = f" + pending {self.pending}" if self.pending else ""
        return (
            f"requested {self.requested} = completed {self.completed}{masked} + {failed}{pending}"
        )


def outcome_to_json(outcome: Outcome) -> bytes:
    """One line of JSON, the raw row included."""
    return msgspec.json.encode(outcome, enc_hook=_raw_to_json)


def outcome_from_json(line: bytes) -> Outcome:
    """The inverse of `outcome_to_json`. Raises `msgspec.ValidationError` for anything else."""
    outcome: Outcome = msgspec.json.decode(line, type=Completed | Failed, dec_hook=_raw_of_json)
    return outcome


def _raw_to_json(value: object) -> Any:
    if isinstance(value, RawRow):
        return msgspec.Raw(value.line)
    raise NotImplementedError(f"{type(value).__name__} is no part of an outcome")


def _raw_of_json(kind: type, value: Any) -> Any:
    if kind is RawRow:
        return RawRow(value)
    raise NotImplementedError(f"{kind.__name__} is no part of an outcome")
