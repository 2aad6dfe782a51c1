"""An agent with the tool-calling loop over MCP: it uses the environment's tools and those of any
MCP server.
"""
