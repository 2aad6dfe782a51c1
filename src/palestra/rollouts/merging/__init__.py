"""Merging the shards of one run: decide what the merged files hold, then put them in place.

`plan_merge` reads every shard once, checks that they belong together, and decides; the plan's
`write` copies rows, byte by byte, and renames. What is merged is a set of rows: the order of
shards, the order of rows in them and rows that are there twice make no difference to a byte.

    sources.py       which files are shards, that they are of one run, and stay as they were
    scan.py          one pass over each file: the key and the place of every row
    plan.py          numbers in, numbers out: order, duplicates, conflicts, gaps, accounting
    completeness.py  what is there of the run and what is missing, in words
    write.py         beside temporary names, synced, compared with what is there, renamed
    merge.py         all of it
"""
