"""TDS without I/O: bytes in, messages out; tokens in, bytes out.

Nothing here opens a socket, knows TLS, reads a clock or imports another room, so the whole protocol
runs in tests byte by byte. The protocol is MS-TDS 7.4 with the login steps of TDS 8.
"""
