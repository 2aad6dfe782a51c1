"""Find out what is wrong: checks before a run, and a diagnosis of a run afterwards.

Every result is a `Finding` (`palestra.doctor.findings`): layer, cause, quoted evidence, and the
next action that fixes the problem.
"""

from palestra.doctor.checking import CheckRun, Looked, Round
from palestra.doctor.checks.config import findings_of_load
from palestra.doctor.diagnose import diagnose
from palestra.doctor.diagnosis import Diagnosis
from palestra.doctor.examination import examine
from palestra.doctor.faults import finding_of, hint_for
from palestra.doctor.findings import five_parts, has_errors, text_of
from palestra.doctor.grammars import GRAMMARS_EXTRA, grammar_versions
from palestra.doctor.outputs import RowCounts
from palestra.doctor.report import Report
from palestra.doctor.subject import ExaminedRun
from palestra.doctor.tool_schemas import ToolCheck, check_tool_schemas

__all__ = [
    "GRAMMARS_EXTRA",
    "CheckRun",
    "Diagnosis",
    "ExaminedRun",
    "Looked",
    "Report",
    "Round",
    "RowCounts",
    "ToolCheck",
    "check_tool_schemas",
    "diagnose",
    "examine",
    "finding_of",
    "findings_of_load",
    "five_parts",
    "grammar_versions",
    "has_errors",
    "hint_for",
    "text_of",
]
