"""The table of the field: pass@1, maj@k and pass@k of models, over seeds.

`read_answers` reads what rollouts voted for; `score_model` is pure.
"""
