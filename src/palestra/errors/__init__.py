"""One exception tree for the whole system: each error carries its layer, its evidence and a hint.

Imports nothing of ours. Raise the narrowest class; catch at the height you can handle.
"""

from palestra.errors.envelope import add_hop, add_row, excerpt, from_body, status_for, to_body
from palestra.errors.layers import FailureKind, Layer
from palestra.errors.masking import mask_error
from palestra.errors.tree import (
    BadInput,
    CallError,
    ConfigError,
    CredentialsRejected,
    DeadlineExceeded,
    Evidence,
    FieldProblem,
    Hop,
    Hopeless,
    InfraError,
    InputDataError,
    JudgeFailure,
    ModelError,
    ModelNotServed,
    ModelRejectedRow,
    PalestraError,
    RowError,
    RowIdentity,
    RunFailed,
    ServerDied,
    VerifierError,
    WrongSetting,
)

__all__ = [
    "BadInput",
    "CallError",
    "ConfigError",
    "CredentialsRejected",
    "DeadlineExceeded",
    "Evidence",
    "FailureKind",
    "FieldProblem",
    "Hop",
    "Hopeless",
    "InfraError",
    "InputDataError",
    "JudgeFailure",
    "Layer",
    "ModelError",
    "ModelNotServed",
    "ModelRejectedRow",
    "PalestraError",
    "RowError",
    "RowIdentity",
    "RunFailed",
    "ServerDied",
    "VerifierError",
    "WrongSetting",
    "add_hop",
    "add_row",
    "excerpt",
    "from_body",
    "mask_error",
    "status_for",
    "to_body",
]
