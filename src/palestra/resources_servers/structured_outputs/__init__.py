"""Structured answers: does a document in JSON, YAML, XML, TOML or CSV match its schema?"""
