"""The exception tree.

    PalestraError
    ├── BadInput                  the user gave something unusable: exit 2, nothing written
    │   ├── ConfigError           a setting, config file or reference
    │   └── InputDataError        rows, files or outputs on disk
    │       └── RejectedRows      rows without a required field
    ├── RunFailed                 a run started and did not reach its end: exit 1
    │   └── ServerDied            a server process of the fleet ended unexpectedly
    └── CallError                 one call, on behalf of one rollout, failed
        ├── InfraError            connection refused, reset, process gone
        │   └── Bystander             another rollout's code ended the shared process
        ├── ModelError            the model endpoint responded with an error
        ├── ModelRejectedRow      the model endpoint can never serve this row
        │   └── PromptTooLong     the prompt does not fit into the model's context
        ├── RowError              422: the body does not fit the request model
        ├── AgentError            an agent's own code raised
        ├── EnvironmentFault      an environment raised while it was seeded or used
        │   └── NoSession         409: the session holds nothing for the call
        ├── VerifierError         `verify` raised or gave no finite reward
        ├── JudgeFailure          the judge failed or gave no readable verdict
        │   └── JudgeUnavailable      the judge's endpoint responded with an error
        ├── DeadlineExceeded      a deadline passed while something was awaited
        │   └── KeptWaiting           another rollout's code blocked the awaited server
        └── Hopeless              no call can succeed as configured: the run stops
            ├── CredentialsRejected   the endpoint rejects the key
            ├── ModelNotServed        the endpoint does not have the model
            ├── EndpointRefuses       the endpoint refuses everything, for too long
            └── WrongSetting          a setting contradicts the endpoint's behaviour

Catch an error at the level that you can handle. Only a `CallError` is sent between servers: see
`palestra.errors.envelope`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from palestra.errors.causes import KnownCause, Layer, Outcome
from palestra.errors.phrases import Phrase

HINT: Final = "hint: "
"""How the note of an error begins that has its hint."""


class PalestraError(Exception):
    """The base of every error that Palestra raises. A subclass names the layer that failed.

    `message`: what happened, with numbers. `hint`: what to try. Either may be a phrase, which a program
    spells for its users: a message that names flags is one, and so is a hint with flags and with text
    of users.
    """

    layer: ClassVar[Layer] = Layer.INFRA
    exit_code: ClassVar[int] = 1
    cause: KnownCause | None = None
    """The known cause, if the class or the raising code sets one. More reliable than parsing the
    message."""
    usual_cause: ClassVar[KnownCause | None] = None
    """The default cause of the class, used when neither `cause` nor the message gives one."""

    def __init__(self, message: str, *, hint: str = "", cause: KnownCause | None = None) -> None:
        super().__init__(str(message))
        self.message = str(message)
        self.hint = str(hint)
        self.phrases = tuple(text for text in (message, hint) if isinstance(text, Phrase))
        if cause is not None:
            self.cause = cause
        if hint:
            self.add_note(f"{HINT}{hint}")

    def message_in_words(self, spell: Callable[[str], str]) -> str:
        """Return the message for the users of a program; as it is when it is no phrase."""
        phrase = self._phrase_of(self.message)
        return self.message if phrase is None else phrase.spelled(spell)

    def hint_in_words(self, spell: Callable[[str], str]) -> str:
        """Return the hint for the users of a program. All of it is Palestra's when it is no phrase."""
        phrase = self._phrase_of(self.hint)
        return spell(self.hint) if phrase is None else phrase.spelled(spell)

    def _phrase_of(self, text: str) -> Phrase | None:
        return next((phrase for phrase in self.phrases if phrase == text), None)


class BadInput(PalestraError):
    """The user's input cannot be used. Nothing was started and nothing was written."""

    layer = Layer.CONFIG
    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a configuration.

    `key`: the setting, as a dotted path. `file` and `line`: its location. Each is empty (`line`: 0)
    when unknown.
    """

    message: str
    key: str = ""
    file: str = ""
    line: int = 0
    hint: str = ""
    cause: KnownCause | None = None


class ConfigError(BadInput):
    """A setting, a config file or a reference between servers is wrong.

    `problems`: all problems; the message lists them.
    """

    layer = Layer.CONFIG
    usual_cause = KnownCause.CONFIG_INVALID

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        cause: KnownCause | None = None,
        problems: tuple[Problem, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint, cause=cause)
        self.problems = problems or (Problem(self.message, hint=self.hint, cause=cause),)


class UnknownArgument(ConfigError, TypeError):
    """A Python function was called with an argument that it lacks. `argument`: its name."""

    def __init__(self, message: str, *, argument: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.argument = argument


class UnusableCall(ConfigError, TypeError):
    """A Python function was called without an argument that it needs, or with too many."""


class InputDataError(BadInput):
    """A file of rows or an output location is wrong."""

    layer = Layer.DATA
    usual_cause = KnownCause.UNUSABLE_DATA


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One field of a request that its model rejects. `pointer` is a JSON pointer."""

    pointer: str
    expected: str


class RejectedRows(InputDataError):
    """Rows lack fields that they must have. A server that receives such rows responds with status
    422.
    """

    def __init__(
        self, message: str, *, hint: str = "", problems: tuple[FieldProblem, ...] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


class RunFailed(PalestraError):
    """A run or another started operation could not be completed."""


class ServerDied(RunFailed):
    """A server process ended unexpectedly, never became ready, or was killed because a call hung.

    `server`: the process's name, if known. Only for a call that hung: `function`, `file` and `line`
    are where its code was. `failure`: the error for the rollout whose call hung or ended the process.
    """

    usual_cause = KnownCause.SERVER_DOES_NOT_START

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        server: str = "",
        function: str = "",
        file: str = "",
        line: int = 0,
        failure: "CallError | None" = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.server = server
        self.function = function
        self.file = file
        self.line = line
        self.failure = failure

    @property
    def row(self) -> "RowIdentity | None":
        """The rollout whose call hung or ended the process; None without one."""
        return None if self.failure is None else self.failure.evidence.row


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """The identity of the rollout that made a call. `task` and `rollout` are the row's two indices."""

    task: int | str | None = None
    rollout: int | None = None
    attempt: int = 1
    agent: str = ""
    run: str = ""


@dataclass(frozen=True, slots=True)
class Hop:
    """One server that a failed call passed; in a list of hops the innermost is last.

    `body`: an excerpt of the server's response; only the innermost hop has one.
    """

    server: str
    url: str = ""
    status: int | None = None
    body: str = ""


@dataclass(frozen=True, slots=True)
class CallEvidence:
    """The details of a failed call besides its message."""

    hops: tuple[Hop, ...] = ()
    row: RowIdentity | None = None
    problems: tuple[FieldProblem, ...] = field(default=())
    traceback: str = ""
    """The last frames of the environment's own code, when it raised."""
    judge_question: str = ""
    """What the judge was asked, when a judge failed; the end of a long question is left out."""
    retry_after_s: float | None = None
    """Seconds after which the endpoint allows a retry, if it sent them."""


class CallError(PalestraError):
    """One call failed. The error carries the chain of servers that the call passed.

    `retriable`: another attempt at the whole rollout may succeed. The collector decides whether to
    make one.
    """

    outcome: ClassVar[Outcome] = Outcome.INFRA_ERROR
    """The outcome of a rollout that this error ends."""
    reason: ClassVar[str] = ""
    """A name that separates classes of the same outcome and layer; empty when not needed."""
    retriable: bool = True

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        cause: KnownCause | None = None,
        evidence: CallEvidence | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint, cause=cause)
        self.evidence = evidence or CallEvidence()
        self.status = status
        self.verify_request: Any = None
        """What `/verify` was asked, when the rollout had come so far: it holds the model's answer,
        which must not be lost with the verification. Empty where nothing is to be verified another
        time. No message and no log shows it."""


class InfraError(CallError):
    """A connection, process or disk failed during the call."""

    layer = Layer.INFRA
    outcome = Outcome.INFRA_ERROR
    usual_cause = KnownCause.UNREACHABLE


class Bystander(InfraError):
    """The process that held this rollout's session ended because of another rollout's code.

    This failure does not count as an attempt of the rollout, up to a limit.
    """

    reason = "bystander"


class ModelError(CallError):
    """The model endpoint responded with an error."""

    layer = Layer.MODEL
    outcome = Outcome.POLICY_ERROR
    usual_cause = KnownCause.MODEL_FAILS


class ModelRejectedRow(ModelError):
    """The model endpoint can never serve this row, for example because of a tool schema or a
    parameter.
    """

    outcome = Outcome.DATA_ERROR
    usual_cause = KnownCause.ENDPOINT_REFUSES_ROW
    retriable = False


class PromptTooLong(ModelRejectedRow):
    """The prompt does not fit into the model's context, so the model never read the row."""

    layer = Layer.DATA
    cause = KnownCause.PROMPT_TOO_LONG
    reason = "prompt_too_long"


class RowError(CallError):
    """A body does not fit the request model of the server that received it (HTTP 422)."""

    layer = Layer.DATA
    outcome = Outcome.DATA_ERROR
    usual_cause = KnownCause.ROW_REFUSED
    retriable = False


class AgentError(CallError):
    """The agent's own code raised, or returned something that is not a result."""

    layer = Layer.VERIFIER
    outcome = Outcome.AGENT_ERROR
    usual_cause = KnownCause.AGENT_RAISES


class EnvironmentFault(CallError):
    """The environment's own code raised in its seeding, a tool or a turn."""

    layer = Layer.VERIFIER
    outcome = Outcome.ENVIRONMENT_ERROR
    usual_cause = KnownCause.ENVIRONMENT_RAISES


class NoSession(EnvironmentFault):
    """The session of a call holds nothing for it, because it was never opened or has ended."""

    reason = "no_session"


class VerifierError(CallError):
    """The environment's `verify` raised, or returned no finite reward."""

    layer = Layer.VERIFIER
    outcome = Outcome.VERIFIER_ERROR
    usual_cause = KnownCause.VERIFIER_RAISES


class JudgeFailure(CallError):
    """The judge model failed, or its verdict cannot be read."""

    layer = Layer.VERIFIER
    outcome = Outcome.JUDGE_ERROR
    usual_cause = KnownCause.JUDGE_UNREADABLE

    @staticmethod
    def relayed(error: CallError) -> CallError:
        """Return the error of a call that an environment made, as a failure of the judge when a model
        failed: a model that an environment asks is a judge, not the policy, and what it refuses is
        the environment's question, not the row.
        """
        is_of_model = error.outcome is Outcome.POLICY_ERROR or isinstance(error, ModelRejectedRow)
        return JudgeFailure.of(error) if is_of_model else error

    @classmethod
    def of(cls, error: CallError) -> "JudgeFailure":
        """Return `error`, of a call to a judge, as a failure of the judge."""
        is_of_endpoint = error.layer is Layer.MODEL
        failure = (JudgeUnavailable if is_of_endpoint else JudgeFailure)(
            error.message,
            hint=error.hint,
            cause=KnownCause.JUDGE_REFUSES if isinstance(error, ModelRejectedRow) else None,
            evidence=error.evidence,
            status=error.status,
        )
        failure.retriable = error.retriable
        return failure


class JudgeUnavailable(JudgeFailure):
    """The judge's endpoint responded with an error."""

    layer = Layer.MODEL
    usual_cause = KnownCause.MODEL_FAILS


class DeadlineExceeded(CallError):
    """The rollout's deadline passed. The message names what was being awaited."""

    layer = Layer.THROUGHPUT
    outcome = Outcome.TIMEOUT
    usual_cause = KnownCause.NO_ANSWER_IN_TIME


class KeptWaiting(DeadlineExceeded):
    """The rollout's deadline passed while another rollout's code blocked a server that it awaited.

    This failure does not count as an attempt of the rollout, up to a limit.
    """

    reason = "kept_waiting"


class Hopeless(CallError):
    """No call can succeed with this configuration: every further call would fail in the same way."""

    layer = Layer.MODEL
    usual_cause = KnownCause.MODEL_NOT_SERVED
    retriable = False
    exit_code = 2


class CredentialsRejected(Hopeless):
    """The endpoint rejects the API key."""

    reason = "credentials_rejected"
    cause = KnownCause.KEY_REFUSED


class ModelNotServed(Hopeless):
    """The endpoint does not have the model, or does not have the path."""

    reason = "model_not_served"
    cause = KnownCause.MODEL_NOT_SERVED


class EndpointRefuses(Hopeless):
    """The endpoint has refused every request for longer than the run tolerates."""

    reason = "endpoint_refuses"
    cause = KnownCause.ENDPOINT_REFUSES_EVERYTHING
    exit_code = 1  # nothing that was given is wrong


class WrongSetting(Hopeless):
    """The endpoint's behaviour contradicts the model server's settings."""

    layer = Layer.CONFIG
    cause = KnownCause.ENDPOINT_LACKS_SETTING
