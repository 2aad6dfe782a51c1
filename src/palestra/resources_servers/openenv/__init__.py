"""Environments behind an OpenEnv server, played over its WebSocket."""
