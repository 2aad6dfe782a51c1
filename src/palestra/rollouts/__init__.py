"""Collecting rollouts: materialize rows, run them against agents, record how each one ended.

`prepare` decides (what rows, what remains), `run` does. Every requested rollout ends exactly
once, as a scored row or as a typed failure.
"""

from palestra.rollouts.accounting import Accounting, AccountingError
from palestra.rollouts.collect import Collector, Limits, Progress
from palestra.rollouts.journal import Journal, JournalFailed, repair
from palestra.rollouts.manifest import Manifest, differences, read_manifest
from palestra.rollouts.materialize import Materialized, materialize
from palestra.rollouts.prepare import PreparedRun, StaleRun, discard, prepare
from palestra.rollouts.prompt import PromptTemplate, load_prompt
from palestra.rollouts.results import Failed, Scored
from palestra.rollouts.reverify import (
    Reverification,
    ReverifyLimits,
    ReverifyProgress,
    Verifier,
    check_modes,
)
from palestra.rollouts.reverify_files import Origin, ReverifyPaths, begin, check_places
from palestra.rollouts.run import Collected, first_cause, run
from palestra.rollouts.semantics import semantics_of
from palestra.rollouts.settings import CollectSettings, RunPaths
from palestra.rollouts.stored import Checked, Routes, StoredRollouts
from palestra.rollouts.task_rows import TaskRows

__all__ = [
    "Accounting",
    "AccountingError",
    "Checked",
    "CollectSettings",
    "Collected",
    "Collector",
    "Failed",
    "Journal",
    "JournalFailed",
    "Limits",
    "Manifest",
    "Materialized",
    "Origin",
    "PreparedRun",
    "Progress",
    "PromptTemplate",
    "Reverification",
    "ReverifyLimits",
    "ReverifyPaths",
    "ReverifyProgress",
    "Routes",
    "RunPaths",
    "Scored",
    "StaleRun",
    "StoredRollouts",
    "TaskRows",
    "Verifier",
    "begin",
    "check_modes",
    "check_places",
    "differences",
    "discard",
    "first_cause",
    "load_prompt",
    "materialize",
    "prepare",
    "read_manifest",
    "repair",
    "run",
    "semantics_of",
]
