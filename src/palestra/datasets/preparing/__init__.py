"""Preparing datasets: every row checked, everything measured, and rows written with their agent.

In steps that can be told apart from outside: which datasets are wanted (`in_scope`), whether their
files are there (`locate`, `fetch`), and the rest, which writes (`prepare_datasets`).
"""

from palestra.datasets.preparing.files import Located, fetch, in_scope, locate
from palestra.datasets.preparing.prepare import PreparedFile, PrepareSettings, prepare_datasets
from palestra.datasets.preparing.rows import tokenizer_at

__all__ = [
    "Located",
    "PrepareSettings",
    "PreparedFile",
    "fetch",
    "in_scope",
    "locate",
    "prepare_datasets",
    "tokenizer_at",
]
