"""Agents: one folder per loop of model calls and tool calls."""
