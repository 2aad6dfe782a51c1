"""State per session: a counter that tool calls change."""
