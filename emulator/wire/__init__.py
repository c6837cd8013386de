"""TDS 7.4 without I/O: bytes in, messages out; tokens in, bytes out."""
