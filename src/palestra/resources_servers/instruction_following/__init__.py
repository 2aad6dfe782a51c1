"""Verifiable instructions: does an answer follow exactly the format instructions of its prompt?"""
