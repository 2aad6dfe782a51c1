"""`nemo_skills.pipeline.cli`: submit rollouts and commands from Python.

`ctx` holds the overrides, or the words of a command. Notices go to stderr.
"""

from typing import Any

from palestra.cluster import Arguments, Submission, nemo_gym_rollouts, wrap_arguments
from palestra.cluster import run_cmd as run_command
from palestra.cluster.executors.here import to_stderr
from palestra.compat.missing_names import names_not_provided

__all__ = ["nemo_gym_rollouts", "run_cmd", "wrap_arguments"]

__getattr__ = names_not_provided("nemo_skills.pipeline.cli", __name__)


def run_cmd(ctx: Arguments | None = None, **options: Any) -> Submission:
    """Call `palestra.cluster.run_cmd` with the field's signature: `ctx` may hold a line of bash."""
    line = ctx.text.strip() if ctx is not None else ""
    return run_command(extra=(line,) if line else (), report=to_stderr, **options)
