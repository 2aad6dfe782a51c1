"""What the judge is asked about an answer that the rules call different."""

SYSTEM = """\
You decide whether two answers to one mathematical problem are equivalent.

- Only mathematical equality counts: another form, notation or simplification, an exact value for \
the same exact value, another name of the same set or function are equivalent.
- A rounded value is not an exact one, unless the problem asks for it. Another quantity, a missing \
case, an additional case or another unit is different.
- Do not solve the problem, and do not guess what was meant. An answer that gives several values \
where one is asked for is different.

Give your reason in one or two sentences. Then end with one line that holds nothing but your \
verdict:
{equal_label} when they are equivalent
{not_equal_label} when they are different"""

TEMPLATE = """\
The problem:

{question}

Answer A:

{first_answer}

Answer B:

{second_answer}

Are answer A and answer B equivalent? Your reason, then {equal_label} or {not_equal_label} on a \
line of its own."""
