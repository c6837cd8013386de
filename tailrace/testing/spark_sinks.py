"""The process of a ``SparkHost``: one Spark, and one sink after another in it.

A connection is a sink: it brings the path of a configuration. STOP or its end stops the sink.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import TYPE_CHECKING

from tailrace.testing.spark_host import ENDED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(arguments: Sequence[str]) -> None:
    """Serve sinks until SIGTERM.

    Args:
        arguments: the folder of the host.
    """
    folder = Path(arguments[0])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    # Before Spark starts, so that nobody who connects has to wait for it.
    with Listener(str(folder / "socket"), "AF_UNIX") as listener:
        begun = time.monotonic()
        spark = _start_spark(folder)
        line = f"Spark started ({time.monotonic() - begun:.1f} s)"
        try:
            while True:
                with listener.accept() as connection:
                    connection.send(line)
                    _run_sink(spark, connection)
                line = "Spark runs already"
        finally:
            spark.stop()


def _start_spark(folder: Path) -> SparkSession:
    from tailrace.testing.configuration import SPARK
    from tailrace_compose.local.jars import spark_jars
    from tailrace_sink.spark.session import session_with

    return session_with({**SPARK, "spark.local.dir": str(folder)}, spark_jars())


def _run_sink(spark: SparkSession, connection: Connection) -> None:
    """Run the sink of a connection until the other side stops it."""
    from tailrace.settings.load import load
    from tailrace.settings.settings import SettingsError
    from tailrace_service.registry.client import RegistryError
    from tailrace_sink.daemon.application import serve
    from tailrace_sink.errors import SinkError

    config = Path(connection.recv())
    stop = threading.Event()

    def wait_for_stop() -> None:
        with contextlib.suppress(EOFError, OSError):
            connection.recv()
        stop.set()

    waiting = threading.Thread(target=wait_for_stop, name="stop", daemon=True)
    waiting.start()
    try:
        serve(spark, load(config, os.environ).sink(), stop)
    except (SinkError, RegistryError, SettingsError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    with contextlib.suppress(OSError):
        connection.send(ENDED)
    waiting.join()


if __name__ == "__main__":
    main(sys.argv[1:])
