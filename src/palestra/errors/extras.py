"""Errors of imports that cannot succeed as the package is installed: an optional extra is missing, or
Palestra does not provide the name.
"""

from importlib.util import find_spec
from typing import Final

from palestra.errors.tree import ConfigError


class MissingExtra(ImportError):
    """A module of Palestra needs a library of an optional extra, which is not installed."""

    def __init__(self, reason: str, extra: str) -> None:
        """`reason`: what needs which library."""
        self.reason, self.extra = reason, extra
        super().__init__(f"{reason}: {self.install}")

    @property
    def install(self) -> str:
        """The command that installs the library."""
        return f"pip install 'palestra[{self.extra}]'"

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.reason, self.extra)


class NotProvided(ImportError):
    """Palestra does not provide a name of another product."""


def not_provided_text(name: str, owner: str = "") -> str:
    """Return the sentence for a name that Palestra does not provide. `owner`: the product that has
    it, in the possessive form; empty for Palestra's own names.
    """
    return f"{owner} `{name}` is not provided by Palestra".lstrip()


_AS_CLASS: Final = "write a class: from palestra import Environment"
_AS_DATA: Final = (
    "a row is a mapping in `data`, or a line of the file that `data` names: from palestra import "
    "Environment"
)
_AS_VERIFY: Final = "its method `verify` scores the answer: from palestra import Environment"
_AS_MESSAGES: Final = (
    "its `prompt`, `system`, `messages` or `reply` say what the model is asked: from palestra import "
    "Environment"
)
_INSTEAD_OF: Final = {
    "task": "decorate a verify function: from palestra import environment",
    **dict.fromkeys(
        (
            "Env",
            "MultiTurnEnv",
            "SandboxEnv",
            "SingleTurnEnv",
            "StatefulToolEnv",
            "Task",
            "ToolEnv",
            "load_environment",
        ),
        _AS_CLASS,
    ),
    **dict.fromkeys(
        (
            "Dataset",
            "MemoryDataset",
            "Sample",
            "csv_dataset",
            "dataset",
            "example_dataset",
            "hf_dataset",
            "json_dataset",
            "load_example_dataset",
        ),
        _AS_DATA,
    ),
    **dict.fromkeys(
        (
            "JudgeRubric",
            "Parser",
            "Rubric",
            "Score",
            "Scorer",
            "Target",
            "accuracy",
            "exact",
            "includes",
            "match",
            "model_graded_fact",
            "model_graded_qa",
            "scorer",
        ),
        _AS_VERIFY,
    ),
    **dict.fromkeys(
        ("Solver", "TaskState", "chain", "generate", "prompt_template", "solver", "system_message"),
        _AS_MESSAGES,
    ),
    "eval": "write palestra.evaluate(…): from palestra import evaluate",
}
"""What an author writes for names of Inspect AI and of verifiers."""


def instead_of(name: str) -> str:
    """Return what an author writes for a name of Inspect AI or verifiers; empty for another name."""
    return _INSTEAD_OF.get(name, "")


class ModuleNotProvided(NotProvided, ModuleNotFoundError):
    """Palestra does not provide a module of another product."""


def require_extra(library: str, *, extra: str, what: str) -> None:
    """Raise ConfigError that names the extra: `library` is not installed. `what` needs it."""
    if find_spec(library) is None:
        raise ConfigError(
            f"{what} needs {library}, which is not installed",
            hint=f"pip install 'palestra[{extra}]'",
        )
