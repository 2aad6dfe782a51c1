"""HTTP/1.1, with TLS and through proxies, at a quarter of what a general client costs.

A model call is one POST and one JSON answer on a connection that stays open. `HttpClient` does
that and no more: no redirects, no streaming, no cookie jar.

- `requests`: from an `HttpRequest` to the bytes of its head. Pure.
- `answers`: from bytes, however they are cut, to an `HttpReply`. Pure.
- `proxies`: which proxy a URL goes through, by the environment. Pure.
- `connection`: one socket, one exchange at a time, its deadline.
- `dialing`: how a connection comes about: resolved, tunnelled, with TLS.
- `pool`: which connections to a host are idle, and how many may be opened at once.
- `client`: what goes on which connection, and what may be sent again.
"""
