"""An office with tools (mail, calendar, tasks, customers, analytics): did the model make the right
changes?
"""
