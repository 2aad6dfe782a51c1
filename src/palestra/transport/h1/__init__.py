"""HTTP/1.1, with TLS and through proxies, at a quarter of a general client's cost.

A model call is one POST and one JSON answer on a connection that stays open. `HttpClient` does only
this: no redirects, no streaming, no cookie jar.

- `requests`: converts an `HttpRequest` to the bytes of its head. Pure.
- `answers`: converts received bytes, in chunks of any size, to an `HttpReply`. Pure.
- `proxies`: chooses the proxy for a URL, from the environment variables. Pure.
- `connection`: one socket, one exchange at a time, its deadline.
- `dialing`: opens a connection: name resolution, proxy tunnel, TLS.
- `pool`: the idle connections to a host, and the limit on opening connections.
- `client`: assigns requests to connections, and decides what may be sent again.
"""
