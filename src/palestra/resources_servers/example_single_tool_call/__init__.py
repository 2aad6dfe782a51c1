"""The smallest environment with a tool: the model asks for the weather, and the reward is always
1.0.
"""
