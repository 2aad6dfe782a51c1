"""What rows are measured by: exact, in memory that does not grow with them, in any order.

Each measure takes values, takes another measure of its kind, and says what it has found. Whatever
the order, and however the rows were cut into parts, the result is the same to the last digit.
"""
