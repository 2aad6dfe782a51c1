"""Merge the shards of one run: decide the contents of the merged files, then write them.

`plan_merge` reads every shard once, checks that they belong together, and makes the plan. The
plan's `write` copies rows byte by byte and renames the files. The result is byte-identical for any
order of shards and rows, and for rows that occur twice.

    sources.py       find the shard files; check that they belong to one run and do not change
    scan.py          one pass over each file: the key and position of every row
    plan.py          work on numbers only: order, duplicates, conflicts, gaps, accounting
    completeness.py  describe which part of the run is present and what is missing
    write.py         write temporary files, sync, compare with existing ones, rename
    merge.py         the whole merge
"""
