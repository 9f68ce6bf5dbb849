"""Single events of requests, from gateways in other languages, into reports as the SDK makes them.

No clock and no I/O: bytes, append times and state go in, rows and reports come out.
"""
