"""What the judge is asked about two queries that cannot be run here."""

SYSTEM = """\
You decide whether two SQL queries are equivalent: whether, on every database that conforms to \
the schema, they return the same rows with the same values in the same columns.

No difference: layout, letter case of keywords, aliases, names of result columns, one join syntax \
or another, a subquery or a common table expression, parentheses that change nothing, a DISTINCT \
that removes nothing because of a key.

A difference: other columns or another order of columns, another filter, aggregation, grouping, \
join type or limit, another treatment of NULL or of ties, rows in another order where the question \
asks for an order. Equal results on the sample rows alone are not enough. Mind the dialect.

Give your reason in a few sentences. Then end with one line that holds nothing but your verdict:
{equal_label} when they are equivalent
{not_equal_label} when they are not"""

TEMPLATE = """\
The SQL dialect:

{sql_dialect}

The schema, with sample rows:

{sql_context}

The question that both queries are to answer:

{sql_prompt}

Query A:

{first_query}

Query B:

{second_query}

Are query A and query B equivalent? Your reason, then {equal_label} or {not_equal_label} on a line \
of its own."""
