"""One Spark for the lakes of a whole test session, in a process of its own."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from importlib.util import find_spec
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Final, Self

from tailrace.testing.errors import SinkNotInstalled
from tailrace.testing.steps import Say, silent
from tailrace_emulator.testing.errors import NotStarted, ProcessFailed
from tailrace_emulator.testing.process import ChildProcess

STOP: Final = "stop"
ENDED: Final = "ended"
"""All that host and sink say to each other, but for lines to show and the configuration's path."""
_PACKAGES: Final = ("pyspark", "deltalake")
_LISTENS_LIMIT_S: Final = 60.0
_STOP_LIMIT_S: Final = 60.0


def require_sink() -> None:
    """Raise SinkNotInstalled unless the packages of a lake are installed."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise SinkNotInstalled(
            f"a pipeline with a lake needs {' and '.join(missing)}, which the extra testing does"
            " not install. Fix: pip install 'tailrace[testing,sink]'; for topics alone use the"
            " fixture tailrace_topics or TailracePipeline(..., lake=False)"
        )


class SparkHost:
    """A process with one Spark, in which sinks run one after another.

    Args:
        folder: has the log, also after ``stop``.
        say: gets a line for each step.
    """

    def __init__(self, folder: Path, say: Say = silent) -> None:
        # Not in the given folder: the path of a socket has room for about a hundred characters.
        self._folder = Path(tempfile.mkdtemp(prefix="tailrace-spark-"))
        self._socket = self._folder / "socket"
        command = [sys.executable, "-m", "tailrace.testing.spark_sinks", str(self._folder)]
        self.process = ChildProcess("The sinks' Spark", command, folder / "spark.log")
        self.say = say

    def start(self) -> Self:
        """Start it unless it runs; return without waiting for Spark."""
        if not self.process.is_running:
            self.say("starting Spark, which later pipelines of the session use again")
            self._socket.unlink(missing_ok=True)
            self.process.start()
        return self

    def connect(self) -> Connection:
        """Connect to it; the sink of this connection runs once Spark has started.

        Raises:
            ProcessFailed: it ended; the message has the end of its log.
        """
        opened: list[Connection] = []

        def connects() -> bool:
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                opened.append(Client(str(self._socket), "AF_UNIX"))
            return bool(opened)

        self.start().process.wait_until_ready(connects, _LISTENS_LIMIT_S)
        return opened[0]

    def stop(self) -> None:
        """Stop it with its Spark, and remove its files but the log."""
        self.process.stop(_STOP_LIMIT_S)
        shutil.rmtree(self._folder, ignore_errors=True)


class HostedSink:
    """A sink in the Spark of a host; it is started, stopped and killed like a ``ChildProcess``.

    Args:
        config: path of ``tailrace.yaml``, whose section ``sink.spark`` has no effect here.
    """

    def __init__(self, host: SparkHost, config: Path) -> None:
        self._host = host
        self._config = config
        self._connection: Connection | None = None

    @property
    def log(self) -> Path:
        """The log of the host, with those of its earlier sinks."""
        return self._host.process.log

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._connection is not None and not self._ended_within(0)

    def start(self) -> Self:
        """Start the sink, and the host if that was killed."""
        self._connection = self._host.connect()
        self._connection.send(str(self._config))
        return self

    def stop(self, limit_s: float) -> None:
        """Stop the sink; kill the host if the sink does not end in time."""
        if self._connection is None:
            return
        with contextlib.suppress(OSError):
            self._connection.send(STOP)
        if not self._ended_within(limit_s):
            self._host.process.kill()
        self._connection.close()
        self._connection = None

    def kill(self) -> None:
        """Kill the whole Spark, as a power cut would."""
        if self._connection is None:
            raise NotStarted("the sink does not run")
        self._host.process.kill()
        self._connection.close()
        self._connection = None

    def failure(self, reason: str) -> ProcessFailed:
        """Compose the error with the end of the host's log."""
        return self._host.process.failure(reason)

    def _ended_within(self, limit_s: float) -> bool:
        """Wait for the sink's end; pass on the lines that it says until then."""
        assert self._connection is not None  # noqa: S101 - both callers have looked
        try:
            while self._connection.poll(limit_s):
                line = self._connection.recv()
                if line == ENDED:
                    return True
                self._host.say(line)
        except (EOFError, OSError):
            return True
        return False
