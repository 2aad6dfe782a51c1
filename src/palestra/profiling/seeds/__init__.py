"""The table of the field: pass@1, majority@k and pass@k of models, over seeds.

`read_answers` reads what rollouts voted for; `score_model` is pure.
"""

from palestra.profiling.seeds.answers import Answers, read_answers
from palestra.profiling.seeds.scores import ModelScores, SeedRun, SeedScore, score_model

__all__ = ["Answers", "ModelScores", "SeedRun", "SeedScore", "read_answers", "score_model"]
