"""Transfer a dataset's file to or from another machine, completely or not at all, with a timeout
for every wait.

    TransferPatience  how long network errors are retried
    UploadProgress    receives the number of bytes transferred
    arriving          a partial file beside its destination, renamed when it is complete
    Digest            the expected digest of the bytes

The code in this package is independent of the hub and the registry.
"""
