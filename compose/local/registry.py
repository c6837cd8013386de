"""The schema registry as a child process: Apicurio with Confluent's API over an H2 file."""

import urllib.error
import urllib.request
from pathlib import Path

from compose.local import ivy, jars
from compose.local.java import QUICK_START, java_executable
from compose.local.process import ChildProcess, free_port

READY_LIMIT_S = 120.0
_HEAP = "-Xmx256m"
CONFLUENT_API = "/apis/ccompat/v7"


class SchemaRegistry:
    """One registry over one data directory; can be stopped or killed and started again."""

    def __init__(self, data_dir: Path, *, port: int | None = None, keep: bool = False) -> None:
        """Describes the registry.

        Args:
            data_dir: holds its database and its output; created when missing.
            port: the port for clients; a free one when None.
            keep: let it live on after this process.
        """
        self._data_dir = data_dir
        self._port = port
        self._keep = keep
        self._process: ChildProcess | None = None

    @property
    def url(self) -> str:
        """The URL of the Confluent API, as clients take it for `schema.registry.url`."""
        return f"http://127.0.0.1:{self.port}{CONFLUENT_API}"

    @property
    def port(self) -> int:
        """The port for clients on 127.0.0.1."""
        if self._port is None:
            raise RuntimeError("the schema registry was not started yet")
        return self._port

    @property
    def log(self) -> Path:
        """The file with the registry's output."""
        return self._data_dir / "registry.log"

    @property
    def pid(self) -> int | None:
        """The registry's process id while it runs."""
        return self._process.pid if self._process else None

    def start(self, progress: ivy.Progress | None = None) -> str:
        """Starts the registry, after downloading it when needed.

        Returns:
            The URL of the Confluent API, once it answers: `GET {url}/subjects` lists the subjects.

        Raises:
            ProcessFailed: it ended or did not answer in time.
            ArtifactUnavailable, JavaMissing: what it runs on is missing.
        """
        self._port = self._port or free_port()
        home = jars.registry_home(progress)
        (runner,) = home.glob("*-runner.jar")
        database = (self._data_dir / "registry").resolve()
        settings = _settings(self._port, database)
        command = [java_executable(), _HEAP, *QUICK_START, *settings, "-jar", str(runner)]
        self._process = ChildProcess("Schema registry", command, self.log, keep=self._keep).start()
        self._process.wait_until_ready(self._answers, READY_LIMIT_S)
        return self.url

    def stop(self) -> None:
        """Stops it in order."""
        if self._process:
            self._process.stop()

    def kill(self) -> None:
        """Kills it as a power cut would; H2 recovers its file at the next start."""
        if self._process:
            self._process.kill()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=3) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def _settings(port: int, database: Path) -> list[str]:
    settings = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": str(port),
        "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "h2",
        # H2 writes up to half a second after a commit unless told: a kill would take back a
        # registration that was already answered.
        "apicurio.datasource.url": f"jdbc:h2:file:{database};WRITE_DELAY=0",
        # No telemetry, no user interface that wants the network.
        "quarkus.otel.sdk.disabled": "true",
        "quarkus.log.level": "INFO",
    }
    return [f"-D{name}={value}" for name, value in settings.items()]
