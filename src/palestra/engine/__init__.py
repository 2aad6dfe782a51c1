"""The engine that runs rollouts: jobs with attempts, deadlines, limits and accounting.

`job` defines the states of a job, `engine` runs jobs, and `attempt` sends one request to an agent.
"""

from palestra.engine.accounting import Accounting, AccountingError, truncated_and_empty
from palestra.engine.attempt import attempt, went_on, with_grace
from palestra.engine.concurrency import ConcurrencyLimit
from palestra.engine.deadlines import Deadlines
from palestra.engine.ending import ScoredEnding, ending_in
from palestra.engine.engine import Engine, Work
from palestra.engine.job import MOST_SPARED, Job, JobStage
from palestra.engine.room import JobRoom
from palestra.engine.tasks import BoundedTasks
from palestra.engine.threads import to_its_end

__all__ = [
    "MOST_SPARED",
    "Accounting",
    "AccountingError",
    "BoundedTasks",
    "ConcurrencyLimit",
    "Deadlines",
    "Engine",
    "Job",
    "JobRoom",
    "JobStage",
    "ScoredEnding",
    "Work",
    "attempt",
    "ending_in",
    "to_its_end",
    "truncated_and_empty",
    "went_on",
    "with_grace",
]
