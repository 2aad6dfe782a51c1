"""Convert existing data (CSV, Parquet, JSON, chats, questions with answers) to task rows.

sources    read any supported file into records (plain objects)
mapping    turn a record into a row: rename columns, convert chats to request items
writing    write all rows to a file, or nothing if any row is bad
"""
