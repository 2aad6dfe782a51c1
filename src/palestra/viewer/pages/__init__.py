"""The pages of the viewer: each function answers one endpoint from a run's index and files.

No number is computed here that a command computes: the functions behind the commands are called.
"""
