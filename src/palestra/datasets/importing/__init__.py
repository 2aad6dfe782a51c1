"""Rows of tasks from what people have: CSV, Parquet, JSON, chats, questions with answers.

sources    any file -> records, as plain objects
chats      messages of a chat -> the items of a request
mapping    a record -> a row, as the columns are named
writing    records -> a file of rows, all of them good, or none
"""
