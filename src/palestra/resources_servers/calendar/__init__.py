"""Scheduling by conversation: does the model's calendar keep everything that was asked of it."""
