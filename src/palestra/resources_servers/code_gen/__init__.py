"""Competitive programming: does the program that the model wrote pass every test of its task?"""
