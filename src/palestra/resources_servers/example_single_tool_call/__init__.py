"""The smallest environment with a tool: ask for the weather, always get the reward."""
