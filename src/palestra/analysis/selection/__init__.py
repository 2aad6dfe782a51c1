"""Selects the tasks of a run that are worth training on and writes them as a dataset.

`selection_of` judges every task by its pass rate. `export_selection` writes the kept tasks and
their origin.
"""
