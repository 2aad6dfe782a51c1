"""The smallest environment with tools at `/mcp`: one MCP tool, and one sentence to repeat."""
