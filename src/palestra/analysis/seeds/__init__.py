"""Computes the table of pass@1, maj@k and pass@k that papers report: per model, over seeds.

`read_answers` reads the extracted answers of rollouts; `score_model` computes the scores, without
I/O.
"""
