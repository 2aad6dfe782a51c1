"""The query language for rollouts and tasks: `outcome:scored reward<1 tools:search -"please"`.

    query   = terms beside each other (all must match), `and`, `or`, `not`, `-term`, parentheses
    term    = field:value | field<value (= != < <= > >=, without spaces) | has:field | word | "phrase"
    value   = value | value,value (any of them) | low..high (ends included) | ~part (contained)
    sort:field, sort:-field: the order, smallest or largest first
    text:word, text:"a phrase": looked for in the whole transcript, without case
    text=word, text="a phrase": the same, with case

Numbers compare as numbers, texts without case; to compare a field of numbers with a text is an error.
A field that a row lacks matches only `-has:field`: a comparison with it is neither true nor false, and
so is its negation.

`parsing.py` makes a tree of a text; `tree.py` has the tree and decides it for one row or for
columns of rows; `absent.py` says why a query matches nothing.
"""
