"""Provide other frameworks' names, so that environments written against those frameworks run
unchanged.

`aliases` makes the names importable; `nemo_gym` holds the implementations; `hosting` runs a server
written against another framework in a fleet.
"""
