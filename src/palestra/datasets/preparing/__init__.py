"""Preparing datasets: every row checked, everything measured, and rows written with their agent.

In steps that can be told apart from outside: which datasets are wanted (`in_scope`), whether their
files are there (`locate`, `fetch`), and the rest, which writes (`prepare_datasets`).
"""
