"""The exception tree.

    PalestraError
    ├── BadInput                  the user gave something unusable: exit 2, nothing written
    │   ├── ConfigError           a setting, config file or reference
    │   └── InputDataError        rows, files or outputs on disk
    │       └── RejectedRows      rows that lack what they are read for, each with its field
    ├── RunFailed                 a run started and did not reach its end: exit 1
    │   └── ServerDied            a server process of the fleet ended by itself
    └── CallError                 one call, on behalf of one rollout, failed
        ├── InfraError            connection refused, reset, process gone
        │   └── Bystander             another rollout's code took this one's process with it
        ├── ModelError            the model endpoint answered with an error
        ├── ModelRejectedRow      the model endpoint can never serve this row
        │   └── PromptTooLong     it does not fit into the model's context
        ├── RowError              422: the body does not fit the request model
        ├── AgentError            an agent's own code raised
        ├── EnvironmentFault      an environment raised while it was seeded or used
        │   └── NoSession         409: its session has no place for the call
        ├── VerifierError         `verify` raised or gave no finite reward
        ├── JudgeFailure          the judge failed or gave no readable verdict
        ├── DeadlineExceeded      a deadline passed while something was awaited
        └── Hopeless              no call can succeed as configured: the run stops
            ├── CredentialsRejected   the endpoint rejects the key
            ├── ModelNotServed        the endpoint has no such model
            ├── EndpointRefuses       the endpoint refuses everything, for too long
            └── WrongSetting          a setting contradicts what the endpoint does

A caller picks the height at which to catch. `CallError` is what crosses the wire: see
`palestra.errors.envelope`.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from palestra.errors.causes import KnownCause, Layer, Outcome


class PalestraError(Exception):
    """Base of every error raised here; a subclass names the layer that failed.

    `message` says what happened, with numbers; `hint` says what to try.
    """

    layer: ClassVar[Layer] = Layer.INFRA
    exit_code: ClassVar[int] = 1
    cause: KnownCause | None = None
    """What went wrong, where the class or its raiser knows: surer than the words of the message."""
    usual_cause: ClassVar[KnownCause | None] = None
    """What an error of this layer is where neither `cause` nor its words say more."""

    def __init__(self, message: str, *, hint: str = "", cause: KnownCause | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if cause is not None:
            self.cause = cause
        if hint:
            self.add_note(f"hint: {hint}")


class BadInput(PalestraError):
    """What the user gave cannot be used; nothing was started and nothing written."""

    layer = Layer.CONFIG
    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a configuration.

    `key`: the setting, as a dotted path. `file` and `line`: where it stands. Each is empty (0) where
    it is not known.
    """

    message: str
    key: str = ""
    file: str = ""
    line: int = 0
    hint: str = ""
    cause: KnownCause | None = None


class ConfigError(BadInput):
    """A setting, a config file or a reference between servers is wrong.

    `problems`: all that is wrong; the message lists them.
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
        self.problems = problems or (Problem(message, hint=hint, cause=cause),)


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
    """Rows lack what they are read for. A server that was sent them answers 422."""

    def __init__(
        self, message: str, *, hint: str = "", problems: tuple[FieldProblem, ...] = ()
    ) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


class RunFailed(PalestraError):
    """Something that had started could not reach its end."""


class ServerDied(RunFailed):
    """A server process ended by itself, never became ready, or was ended for a call that hung.

    `server` is the process's name, where one is known. Of a call that did not return: `function`,
    `file` and `line` say where its code was, and `failure` what that means to its rollout.
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
        """The rollout whose call did not return."""
        return None if self.failure is None else self.failure.evidence.row


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """Which rollout a call was made for. `task` and `rollout` are the row's two indices."""

    task: int | str | None = None
    rollout: int | None = None
    attempt: int = 1
    agent: str = ""
    run: str = ""


@dataclass(frozen=True, slots=True)
class Hop:
    """One server on the way to the failure, innermost last.

    `body` is an excerpt of what that server answered; only the innermost hop has one.
    """

    server: str
    url: str = ""
    status: int | None = None
    body: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about a failed call besides its message."""

    hops: tuple[Hop, ...] = ()
    row: RowIdentity | None = None
    problems: tuple[FieldProblem, ...] = field(default=())
    traceback: str = ""
    """The last frames of the environment's own code, when it raised."""
    retry_after_s: float | None = None
    """How long the endpoint asked us to wait, when it did."""


class CallError(PalestraError):
    """One call failed; carries the chain of servers that led there.

    `retriable` means another attempt at the whole rollout may succeed; whether one is
    made is the collector's decision.
    """

    outcome: ClassVar[Outcome] = Outcome.INFRA_ERROR
    """How a rollout ends that this failure ends."""
    reason: ClassVar[str] = ""
    """What tells a class from its siblings of the same outcome and layer; empty where none needs it."""
    retriable: bool = True

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        cause: KnownCause | None = None,
        evidence: Evidence | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message, hint=hint, cause=cause)
        self.evidence = evidence or Evidence()
        self.status = status
        self.verify_request: Any = None
        """What `/verify` was asked, when the rollout had come so far: it holds the model's answer,
        which must not be lost with the verification. Empty where nothing is to be verified another
        time. No message and no log shows it."""


class InfraError(CallError):
    """A connection, process or disk failed underneath the call."""

    layer = Layer.INFRA
    outcome = Outcome.INFRA_ERROR
    usual_cause = KnownCause.UNREACHABLE


class Bystander(InfraError):
    """The process that held this rollout's session ended because of another rollout's code.

    No attempt of this rollout, as long as it does not happen to it again and again.
    """

    reason = "bystander"


class ModelError(CallError):
    """The model endpoint answered with an error of its own."""

    layer = Layer.MODEL
    outcome = Outcome.POLICY_ERROR
    usual_cause = KnownCause.MODEL_FAILS


class ModelRejectedRow(ModelError):
    """The model endpoint says this row can never be served (a tool schema, a parameter)."""

    outcome = Outcome.DATA_ERROR
    usual_cause = KnownCause.ENDPOINT_REFUSES_ROW
    retriable = False


class PromptTooLong(ModelRejectedRow):
    """The model never read the row: its prompt does not fit into the model's context."""

    layer = Layer.DATA
    cause = KnownCause.PROMPT_TOO_LONG
    reason = "prompt_too_long"


class RowError(CallError):
    """A body does not fit the request model of the server that got it (HTTP 422)."""

    layer = Layer.DATA
    outcome = Outcome.DATA_ERROR
    usual_cause = KnownCause.ROW_REFUSED
    retriable = False


class AgentError(CallError):
    """The agent's own code raised, or what it answered is no result."""

    layer = Layer.VERIFIER
    outcome = Outcome.AGENT_ERROR
    usual_cause = KnownCause.AGENT_RAISES


class EnvironmentFault(CallError):
    """The environment's own code raised while it was seeded or used: a tool, a turn."""

    layer = Layer.VERIFIER
    outcome = Outcome.ENVIRONMENT_ERROR
    usual_cause = KnownCause.ENVIRONMENT_RAISES


class NoSession(EnvironmentFault):
    """The session that a call belongs to holds nothing for it: it was not opened, or has ended."""

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


class DeadlineExceeded(CallError):
    """The rollout's deadline passed; the message names what was being awaited."""

    layer = Layer.THROUGHPUT
    outcome = Outcome.TIMEOUT
    usual_cause = KnownCause.NO_ANSWER_IN_TIME


class Hopeless(CallError):
    """No call can succeed as things are configured: every further one would fail the same way."""

    layer = Layer.MODEL
    usual_cause = KnownCause.MODEL_NOT_SERVED
    retriable = False
    exit_code = 2


class CredentialsRejected(Hopeless):
    """The endpoint rejects the API key."""

    reason = "credentials_rejected"
    cause = KnownCause.KEY_REFUSED


class ModelNotServed(Hopeless):
    """The endpoint has no such model, or no such path."""

    reason = "model_not_served"
    cause = KnownCause.MODEL_NOT_SERVED


class EndpointRefuses(Hopeless):
    """The endpoint has refused all that was asked, for longer than the run's patience."""

    reason = "endpoint_refuses"
    cause = KnownCause.ENDPOINT_REFUSES_EVERYTHING
    exit_code = 1  # nothing that was given is wrong


class WrongSetting(Hopeless):
    """The endpoint does not behave as the model server's settings say."""

    layer = Layer.CONFIG
    cause = KnownCause.ENDPOINT_LACKS_SETTING
