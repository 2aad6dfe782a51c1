"""Competitive programming: does the model's program pass every test of its task?"""
