"""Types of the Responses API and Chat Completions, as existing environments use them.

Names and fields mirror the openai package, which need not be installed.
"""
