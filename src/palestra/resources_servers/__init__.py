"""Environments: one folder per resources server, each with its tools, state and verifier."""
