"""``tailrace doctor``: check everything in the configuration, and judge it.

Each part has a file: the server, its capture jobs, its tables, the login's permissions, the
brokers, the registry, the lake, the clocks. A file yields findings. ``run`` connects, runs them
all, and continues if a part does not answer. ``render`` prints them.
"""
