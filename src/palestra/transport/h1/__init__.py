"""HTTP/1.1 over plain sockets, at a quarter of what a general client costs.

A model call is one POST and one JSON answer on a connection that stays open. `PlainTransport`
does that and no more: no TLS, no proxies, no redirects, no streaming.

- `requests`: from an `HttpRequest` to the bytes of its head. Pure.
- `answers`: from bytes, however they are cut, to an `HttpReply`. Pure.
- `connection`: one socket, one exchange at a time, its deadline.
- `pool`: which connections to a host are idle, and how many may be opened at once.
- `plain`: the transport, and what may be sent again.
"""

from palestra.transport.h1.plain import PlainTransport

__all__ = ["PlainTransport"]
