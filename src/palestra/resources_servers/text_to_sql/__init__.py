"""Questions about a database, answered with a query."""
