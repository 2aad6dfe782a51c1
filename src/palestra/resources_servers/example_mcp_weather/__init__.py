"""One tool over MCP, one sentence to repeat: the smallest environment whose tools are at `/mcp`."""
