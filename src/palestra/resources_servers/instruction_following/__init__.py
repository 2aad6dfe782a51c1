"""Verifiable instructions: does an answer do, to the letter, what its prompt asks of its form?"""
