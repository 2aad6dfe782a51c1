"""Measures of rows: exact, in bounded memory, and independent of the order of rows.

Each measure can add values, merge another measure of the same class, and return a summary. The
result is identical for any order of the rows and any split into parts.
"""
