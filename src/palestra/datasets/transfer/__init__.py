"""Moving a dataset's file to or from another machine: whole or not at all, and nobody waits forever.

    Patience     how long trouble of the network is put up with
    Progress     who is told how many bytes have moved
    arriving     a file that grows beside its destination and takes its place when it is whole
    Digest       what the bytes must be

Nothing here knows of a hub or a registry.
"""
