"""The agents. Each folder holds one agent: a loop of model calls and tool calls."""
