"""Scheduling by conversation: does the model's calendar meet every constraint of the user?"""
