"""Which entry of the table an error is, told by its class where its words do not say it.

What a message says decides first, as it does after a run. Most classes say many things; the entry
here is for what is left. Why, and what to do, is the table's.
"""

import re
from dataclasses import dataclass, field
from typing import Final

from palestra.errors import (
    AgentError,
    CallError,
    ConfigError,
    CredentialsRejected,
    DeadlineExceeded,
    EndpointRefuses,
    EnvironmentFault,
    Hopeless,
    InfraError,
    InputDataError,
    JudgeFailure,
    ModelError,
    ModelNotServed,
    ModelRejectedRow,
    PalestraError,
    PromptTooLong,
    RowError,
    ServerDied,
    VerifierError,
    WrongSetting,
)
from palestra.fleet import NoFleet
from palestra.rollouts import StaleRun


@dataclass(frozen=True, slots=True)
class Known:
    """The cause of an error of this class in whose message `says` is found."""

    error: type[PalestraError]
    cause: str
    says: re.Pattern[str] = field(default=re.compile(""))


def _known(error: type[PalestraError], cause: str, says: str = "") -> Known:
    return Known(error, cause, re.compile(says, re.IGNORECASE))


SURE: Final = (
    _known(
        # A wrong setting to some model servers, a refused row to others.
        CallError,
        "model.no-tools",
        r"tool-choice|tool-call-parser|not support (?:tools|tool|function)|tool(?:s| calling) "
        r"(?:is|are) not",
    ),
    _known(WrongSetting, "config.reasoning-parser", r"uses_reasoning_parser"),
    _known(WrongSetting, "config.bad-value", r"is not a URL of HTTP|is no http:// URL"),
    _known(WrongSetting, "model.tls", r"certificate verify failed"),
    _known(WrongSetting, "config.no-token", r"asks for its fleet's token"),
    _known(WrongSetting, "config.endpoint-lacks-setting"),
    # A page of HTML, or a path that there is not, says nothing of keys and models.
    _known(EndpointRefuses, "model.refuses-everything"),
    _known(Hopeless, "model.no-openai-endpoint", r"answered \d+[^<]{0,60}<(?:!doctype )?html"),
    _known(
        ModelNotServed,
        "model.no-openai-endpoint",
        r"answered 40[45] for model '[^']*': (?:not found\b|404 page|cannot post|no such route)",
    ),
    _known(Hopeless, "model.no-credit", r"quota|billing|credit|answered 402"),
    _known(CredentialsRejected, "model.key-refused"),
    _known(ModelNotServed, "model.not-served"),
    _known(StaleRun, "cache.stale-inputs", r"input rows differ"),
    _known(StaleRun, "cache.settings-changed"),
    _known(NoFleet, "infra.no-fleet"),
    _known(InputDataError, "cache.broken-manifest", r"manifest"),
)
"""Tried before the words of the table: the class, or both together, is surer than they are."""

OTHERWISE: Final = (
    _known(Hopeless, "model.key-refused", r"answered 40[13]|api key"),
    _known(Hopeless, "model.not-served"),
    _known(PromptTooLong, "data.prompt-too-long"),
    _known(AgentError, "verifier.agent-raises"),
    _known(EnvironmentFault, "verifier.environment-raises"),
    _known(ModelRejectedRow, "data.endpoint-refuses-row"),
    _known(JudgeFailure, "verifier.judge-unreadable"),
    _known(VerifierError, "verifier.raises"),
    _known(RowError, "data.row-refused"),
    _known(DeadlineExceeded, "throughput.no-answer"),
    _known(ModelError, "model.fails"),
    _known(InfraError, "infra.unreachable"),
    _known(InputDataError, "data.unusable"),
    _known(ConfigError, "config.invalid"),
    _known(ServerDied, "infra.server-does-not-start"),
)
"""Tried after them."""

KNOWN: Final = (*SURE, *OTHERWISE)
