"""Causes and layers of failures as values, so that the doctor need not parse error messages."""

import re
from enum import StrEnum
from typing import Final


class Layer(StrEnum):
    """The layer in which a failure occurred. The doctor's reports use the same words."""

    INFRA = "infra"
    MODEL = "model serving"
    CONFIG = "config"
    DATA = "data/schema"
    VERIFIER = "verifier/runtime"
    CACHE = "cache/resume"
    THROUGHPUT = "throughput/resources"


class Outcome(StrEnum):
    """How one requested rollout ended. Every rollout ends exactly once, in one of these ways.

    The outcome depends on whose code raised. Only `SCORED` and `TRUNCATED` have a reward. The other
    values are failures: they appear in the failures file, in `palestra.training.Failed.failure`,
    and as `error.type` of a failed response.
    """

    SCORED = "scored"
    TRUNCATED = "truncated"
    """The rollout was scored, but the model had reached its context limit or token limit."""
    POLICY_ERROR = "policy_error"
    """The model endpoint responded with an error or with an invalid response."""
    INFRA_ERROR = "infra_error"
    """A process, connection or disk failed; the task was not really attempted."""
    DATA_ERROR = "data_error"
    """The row is not accepted by a server, a tool schema or the endpoint."""
    AGENT_ERROR = "agent_error"
    """The agent's own code raised, or returned something that is not a result."""
    ENVIRONMENT_ERROR = "environment_error"
    """The environment's own code raised in its seeding, a tool or a turn."""
    VERIFIER_ERROR = "verifier_error"
    """The environment's `verify` raised, or returned something that is not a reward."""
    JUDGE_ERROR = "judge_error"
    """The judge model failed or gave no readable verdict."""
    TIMEOUT = "timeout"
    """A deadline passed; the message names what was being awaited."""
    CANCELLED = "cancelled"
    """The run was stopped, or the trainer cancelled the rollout, before this rollout ended."""
    STALE = "stale"
    """The rollout used weights older than the trainer accepts. Never occurs in a collection."""

    @property
    def has_reward(self) -> bool:
        """Whether a rollout with this outcome has a reward."""
        return self in {Outcome.SCORED, Outcome.TRUNCATED}


FAILURES: Final = tuple(outcome for outcome in Outcome if not outcome.has_reward)
"""Every outcome without a reward."""


class KnownCause(StrEnum):
    """A cause id: an entry of the doctor's table, with the reason and what to do.

    The part before the dot is the layer. The table is documented in
    `docs/reference/troubleshooting.md`.
    """

    NO_FLEET = "infra.no-fleet"
    SERVER_DOES_NOT_START = "infra.server-does-not-start"
    UNREACHABLE = "infra.unreachable"
    NO_SANDBOX = "infra.no-sandbox"
    ENDPOINT_REFUSES_EVERYTHING = "model.refuses-everything"
    KEY_REFUSED = "model.key-refused"
    JUDGE_REFUSES = "model.judge-refuses"
    MODEL_FAILS = "model.fails"
    MODEL_NOT_SERVED = "model.not-served"
    NO_CREDIT = "model.no-credit"
    NO_OPENAI_ENDPOINT = "model.no-openai-endpoint"
    NO_TOOLS = "model.no-tools"
    TLS = "model.tls"
    ANSWER_BROKEN_OFF = "model.broken-off"
    BAD_OVERRIDE = "config.bad-override"
    BAD_VALUE = "config.bad-value"
    BAD_YAML = "config.bad-yaml"
    CONFIG_FILE_MISSING = "config.file-missing"
    CONFIG_INVALID = "config.invalid"
    ENDPOINT_LACKS_SETTING = "config.endpoint-lacks-setting"
    MISSING_REFERENCE = "config.missing-reference"
    MISSING_VALUE = "config.missing-value"
    MISSPELT_SETTING = "config.misspelt-override"
    NO_TOKEN = "config.no-token"  # noqa: S105 - the name of a cause
    REASONING_PARSER = "config.reasoning-parser"
    NO_DATASET = "config.no-dataset"
    NO_EPISODE = "config.no-episode"
    NO_JUDGE = "config.no-judge"
    OTHER_FLEET = "config.other-fleet"
    ENDPOINT_REFUSES_ROW = "data.endpoint-refuses-row"
    PROMPT_TOO_LONG = "data.prompt-too-long"
    ROW_REFUSED = "data.row-refused"
    UNUSABLE_DATA = "data.unusable"
    AGENT_RAISES = "verifier.agent-raises"
    ENVIRONMENT_RAISES = "verifier.environment-raises"
    JUDGE_UNREADABLE = "verifier.judge-unreadable"
    VERIFIER_RAISES = "verifier.raises"
    JUDGE_CUT_OFF = "verifier.judge-cut-off"
    VERDICT_NOT_JSON = "verifier.not-json"
    BROKEN_MANIFEST = "cache.broken-manifest"
    SETTINGS_CHANGED = "cache.settings-changed"
    STALE_INPUTS = "cache.stale-inputs"
    BROKEN_JOURNAL = "cache.broken-journal"
    DUPLICATES = "cache.duplicates"
    OUTPUT_EXISTS = "cache.output-exists"
    OUTPUT_IN_USE = "cache.in-use"
    NO_ANSWER_IN_TIME = "throughput.no-answer"
    STILL_GOING = "throughput.still-going"


_MARK: Final = re.compile(r" \[cause: ([a-z]+\.[a-z0-9-]+)\]$")


def with_cause(message: str, cause: str | None) -> str:
    """Return `message` as written to a log: its first line ends with `[cause:
    data.prompt-too-long]`.
    """
    first, line_break, remainder = message.partition("\n")
    return f"{first} [cause: {cause}]{line_break}{remainder}" if cause else message


def split_cause(line: str) -> tuple[str, str]:
    """Return a log line without its cause, and the cause; the cause is empty when the line has
    none.
    """
    marked = _MARK.search(line)
    return (line[: marked.start()], marked[1]) if marked else (line, "")
