"""Environments of an OpenEnv server, played over its WebSocket."""
