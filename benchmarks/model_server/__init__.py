"""CPU per request of a model server over HTTP, against a bare proxy in front of the same endpoint."""
