"""``tailrace doctor``: looks at everything in the configuration and judges it.

Each part of the way has a file: the server, its capture jobs, its tables, the login's permissions,
the brokers, the registry, the lake, the clocks. A file gives findings; ``run`` connects, asks them
all and goes on where a part does not answer; ``render`` shows them.
"""
