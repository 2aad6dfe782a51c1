"""How a requested rollout ended: `Completed` with a reward, or `Failed` with a reason.

Both can be pickled, and written as JSON with `outcome_to_json`. Neither contains a tensor.

- turn: one call of the model: the new part of its prompt, and the ids that it sampled.
- chain: turns where each prompt starts with all ids of the turns before it. A rollout is one chain;
  if its history was rewritten during the rollout and the policy is `split`, it is several.
- flat view: a chain as one sequence: ids, which of them to train on, and their log probs.
"""

from typing import Any, TypeAlias

import msgspec

import palestra.errors
from palestra.schema import encodable
from palestra.training.raw import RawRow
from palestra.training.requests import Key

FailureClass: TypeAlias = palestra.errors.Outcome
"""Why a requested rollout has no reward. Renamed, because `Outcome` in this module is another type.
"""


class Turn(msgspec.Struct, frozen=True):
    """One call of the model. `generated_ids` and `logprobs` have equal length.

    The lists are the model server's own lists: read them, do not change them.
    """

    prompt_ids: list[int]
    """Only the prompt ids that are new in this turn; in the first turn of a chain, the whole
    prompt."""
    generated_ids: list[int]
    logprobs: list[float]
    """The log prob of each generated id when it was sampled. Empty when the original values are
    invalid (a NaN, too few): such a turn is not trained on."""
    weights_start: int | None = None
    """The trainer's weight version when the call began; None when the trainer never set one."""
    weights_end: int | None = None
    """The weight version when the call ended; higher than at the start if it changed during the
    call."""
    trained: bool = True
    """Whether its weights are recent enough to train on it; false only with `on_stale=continue`."""

    @property
    def is_trained(self) -> bool:
        """Whether it has ids with a loss mask of 1: its weights are recent, it has sampled ids, and
        their log probs are valid.
        """
        return self.trained and 0 < len(self.generated_ids) == len(self.logprobs)


class Flat(msgspec.Struct, frozen=True):
    """A chain as one sequence; the three lists have equal length."""

    ids: list[int]
    loss_mask: list[int]
    """1 for ids that the model sampled, 0 for ids that it read."""
    logprobs: list[float]
    """The log prob of each id; 0.0 where the mask is 0."""


class Chain(msgspec.Struct, frozen=True):
    """Turns that form one sequence."""

    turns: list[Turn]

    @property
    def flat(self) -> Flat:
        """All turns as one sequence."""
        ids: list[int] = []
        mask: list[int] = []
        logprobs: list[float] = []
        for turn in self.turns:
            trained = turn.is_trained
            ids += turn.prompt_ids
            ids += turn.generated_ids
            mask += [0] * len(turn.prompt_ids)
            mask += [int(trained)] * len(turn.generated_ids)
            logprobs += [0.0] * len(turn.prompt_ids)
            logprobs += turn.logprobs if trained else [0.0] * len(turn.generated_ids)
        return Flat(ids, mask, logprobs)


class TokenUsage(msgspec.Struct, frozen=True):
    """The numbers of tokens that the model server counted."""

    input_tokens: int = 0
    output_tokens: int = 0


class Timings(msgspec.Struct, frozen=True):
    """Times of a rollout in seconds; None when another process did not report its time."""

    queue_s: float
    """Seconds from the submission to the start of the last attempt."""
    total_s: float
    """Seconds of the last attempt."""
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
    """The reward, always a finite number."""
    reward_components: dict[str, float] = {}
    """Parts of the reward that the environment reports by name."""
    chains: list[Chain] = []
    """Usually one chain; several after a `split`; none when no token ids were captured."""
    stop_reason: str = ""
    """Why the model stopped: `stop`, `max_output_tokens`, `context_full`, `content_filter`, …"""
    truncated: bool = False
    """Whether the rollout was cut off by a limit on tokens or context. It was scored nevertheless.
    """
    masked: bool = False
    """Whether the rollout must not be trained on; `mask_reason` says why. Its reward still counts
    for statistics."""
    mask_reason: str = ""
    usage: TokenUsage = TokenUsage()
    timings: Timings
    weights_start: int | None = None
    """The weight version when the attempt began; `weights_end` is the one when it ended."""
    weights_end: int | None = None
    agent: str = ""
    """The agent instance that ran it."""
    raw: RawRow

    @property
    def key(self) -> Key:
        """The key of the rollout."""
        return Key(self.task_id, self.rollout_index)

    @property
    def turns(self) -> list[Turn]:
        """All turns, in order."""
        return [turn for chain in self.chains for turn in chain.turns]

    @property
    def flat(self) -> Flat:
        """The rollout as one sequence, empty without token ids.

        Raises ValueError when the rollout has several chains: train on `chain.flat` of each chain
        then.
        """
        if len(self.chains) > 1:
            raise ValueError(
                f"rollout {self.key} has {len(self.chains)} chains: read this value from each chain"
            )
        return self.chains[0].flat if self.chains else Flat([], [], [])

    @property
    def oldest_weights(self) -> int | None:
        """The oldest weight version that may have sampled any of the tokens; None when unknown."""
        versions = [turn.weights_start for turn in self.turns]
        known_versions = [version for version in versions if version is not None]
        # A turn of an unknown version began after its attempt did.
        return (
            min(known_versions)
            if known_versions and len(known_versions) == len(versions)
            else self.weights_start
        )

    @property
    def weight_versions(self) -> list[int | None]:
        """The weight versions that may have sampled its tokens, oldest first: more than one when it
        went on over a change of the weights. None stands for an unknown version.
        """
        turns = [(turn.weights_start, turn.weights_end) for turn in self.turns]
        pairs = turns or [(self.weights_start, self.weights_end)]
        versions = {version for pair in pairs for version in pair}
        return sorted(versions, key=lambda version: -1 if version is None else version)


class Evidence(msgspec.Struct, frozen=True):
    """Details of a failure, besides its message."""

    body: str = ""
    """An excerpt of the innermost server's reply."""
    where: str = ""
    """The servers that the failure passed through, outermost first."""
    log_tail: list[str] = []
    """The last lines of the process that died, or of the environment's traceback."""
    hint: str = ""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag_field="outcome", tag="failed"):
    """A rollout without a reward. Do not make up a reward for it."""

    task_id: int | str
    rollout_index: int
    group_id: int | str
    failure: FailureClass
    layer: str
    """The layer that the failure belongs to: a value of `palestra.errors.Layer`."""
    retriable: bool
    """Whether another attempt might have succeeded."""
    attempts: int
    """The number of attempts that began; 0 when the rollout never ran."""
    message: str
    evidence: Evidence = Evidence()
    agent: str = ""
    """The agent instance that it was for."""

    @property
    def key(self) -> Key:
        """The key of the rollout."""
        return Key(self.task_id, self.rollout_index)


Outcome = Completed | Failed


class Summary(msgspec.Struct, frozen=True):
    """The counts of a submission: requested = completed + failed + pending."""

    requested: int
    completed: int
    failed: dict[str, int]
    """The number of failures by class; classes without a failure are left out."""
    pending: int
    masked: int = 0
    """The number of completed rollouts that are masked."""
    truncated: int = 0
    """The number of completed rollouts that are truncated."""
    retried: int = 0
    """The number of attempts that were followed by another attempt."""

    @property
    def adds_up(self) -> bool:
        """Whether every requested rollout is counted exactly once."""
        return self.requested == self.completed + sum(self.failed.values()) + self.pending

    def line(self) -> str:
        """Return the counts as text: `requested 8 = completed 6 (1 masked) + failed 2 (timeout 2)`."""
        masked = f" ({self.masked} masked)" if self.masked else ""
        kinds = ", ".join(f"{name} {count}" for name, count in sorted(self.failed.items()))
        failed = f"failed {sum(self.failed.values())}" + (f" ({kinds})" if kinds else "")
        pending = f" + pending {self.pending}" if self.pending else ""
        return (
            f"requested {self.requested} = completed {self.completed}{masked} + {failed}{pending}"
        )


def outcome_to_json(outcome: Outcome) -> bytes:
    """Return the outcome as one line of JSON, with the raw row."""
    return json_of(outcome)


def outcome_from_json(line: bytes) -> Outcome:
    """Read an outcome from JSON. Raises `msgspec.ValidationError`: the line is no outcome."""
    outcome: Outcome = from_json(line, Completed | Failed)
    return outcome


def json_of(value: object) -> bytes:
    """Return a value that may contain outcomes as one line of JSON."""
    return msgspec.json.encode(value, enc_hook=_raw_to_json)


def packed_of(value: object) -> bytes:
    """Return a value that may contain outcomes as MessagePack, in a tenth of the time of JSON."""
    return msgspec.msgpack.encode(value, enc_hook=_packable)


def from_json(text: bytes | msgspec.Raw, kind: Any) -> Any:
    """Read a value of type `kind`, which may contain outcomes, from JSON.

    Raises `msgspec.ValidationError` or `msgspec.DecodeError`: the text is no such value.
    """
    return msgspec.json.decode(text, type=kind, dec_hook=_raw_of_json)


def _raw_to_json(value: object) -> Any:
    if isinstance(value, RawRow):
        return msgspec.Raw(value.line)
    raise NotImplementedError(f"{type(value).__name__} is not part of an outcome")


def _packable(value: object) -> Any:
    return value.packable if isinstance(value, RawRow) else encodable(value)


def _raw_of_json(kind: type, value: Any) -> Any:
    if kind is RawRow:
        return RawRow(value)
    raise NotImplementedError(f"{kind.__name__} is not part of an outcome")
