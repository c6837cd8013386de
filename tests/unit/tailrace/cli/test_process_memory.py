"""A process that holds little memory shares one arena, unless its environment says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

IN_A_PROCESS = """
import ctypes, threading
from tailrace.cli.process_memory import hold_little
hold_little()
import pyarrow
c = ctypes.CDLL(None)
c.malloc.restype = ctypes.c_void_p
together = threading.Barrier(6)
def take():
    together.wait(20)
    for _ in range(200):
        c.malloc(1000)
    together.wait(20)
threads = [threading.Thread(target=take) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(pyarrow.default_memory_pool().backend_name, flush=True)
c.malloc_stats()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="malloc_stats is glibc's")
@pytest.mark.parametrize(
    ("given", "arenas", "pool"),
    [
        ({}, 1, b"system"),
        ({"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "mimalloc"}, 2, b"mimalloc"),
    ],
    ids=["ours", "the environment's"],
)
def test_all_threads_share_one_arena(given: dict[str, str], arenas: int, pool: bytes):
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"MALLOC_ARENA_MAX", "ARROW_DEFAULT_MEMORY_POOL"}
    }
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS], env=kept | given, capture_output=True, check=True
    )

    assert done.stdout.split() == [pool]
    assert done.stderr.count(b"Arena ") == arenas
