"""Which tasks of a run are worth training on, as a dataset of their own.

`selection_of` judges every task by its pass rate; `export_selection` writes the kept ones and where they come from.
"""
