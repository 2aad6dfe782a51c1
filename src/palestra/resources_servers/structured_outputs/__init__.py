"""Structured answers: is a document in JSON, YAML, XML, TOML or CSV what its schema asks for?"""
