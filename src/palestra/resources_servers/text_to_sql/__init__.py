"""Questions about a database, which the model answers with a SQL query."""
