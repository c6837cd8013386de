"""What the three servers of the stack have in common: a data directory, a kept port, a process."""

from pathlib import Path
from typing import ClassVar

from tailrace_emulator.testing.process import ChildProcess, tail_of


class Service:
    """One server over one data directory; can be stopped or killed and started again.

    Ports are chosen at the first start and kept, so clients find the server again after a restart.
    """

    name: ClassVar[str]
    log_name: ClassVar[str]

    def __init__(self, data_dir: Path, *, port: int | None = None, keep: bool = False) -> None:
        """Describes the server; `start` of each kind runs it.

        Args:
            data_dir: holds its data, its settings and its output; created when missing. A server
                that ran there before continues with what it had.
            port: the port for clients; a free one when None.
            keep: let it live on after this process.
        """
        self._data_dir = data_dir
        self._port = port
        self._keep = keep
        self._process: ChildProcess | None = None

    @property
    def port(self) -> int:
        """The port for clients on 127.0.0.1."""
        if self._port is None:
            raise RuntimeError(f"the {self.name} was not started yet")
        return self._port

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self._data_dir / self.log_name

    @property
    def pid(self) -> int | None:
        """Its process id while it runs."""
        return self._process.pid if self._process else None

    def answers(self) -> bool:
        """Whether it answers a request of its protocol now; tries for a few seconds at most."""
        raise NotImplementedError

    def log_tail(self) -> str:
        """Returns the end of its output, whichever process wrote it."""
        return tail_of(self.log)

    def stop(self) -> None:
        """Stops it in order: clients are notified, files are closed."""
        if self._process:
            self._process.stop()

    def kill(self) -> None:
        """Kills it as a power cut would; the next start recovers what was committed."""
        if self._process:
            self._process.kill()
