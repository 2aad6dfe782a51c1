"""The tool-calling loop over MCP: the environment's tools, and those of any MCP server."""
