"""The Responses API and Chat Completions as authors in the field hold them: models whose names
and fields mirror the openai package, without needing it.
"""
