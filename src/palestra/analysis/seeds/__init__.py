"""The table of the field: pass@1, maj@k and pass@k of models, over seeds.

`read_answers` reads what rollouts voted for; `score_model` is pure.
"""

from palestra.analysis.seeds.answers import SeedAnswers, read_answers
from palestra.analysis.seeds.scores import (
    ModelScores,
    SeedRun,
    SeedScore,
    majorities_of,
    score_model,
)

__all__ = [
    "ModelScores",
    "SeedAnswers",
    "SeedRun",
    "SeedScore",
    "majorities_of",
    "read_answers",
    "score_model",
]
