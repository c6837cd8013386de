"""The schema registry as a child process: Apicurio with Confluent's API over an H2 file."""

import urllib.error
import urllib.request
from pathlib import Path

from tailrace_compose.local import ivy, jars
from tailrace_compose.local.java import QUICK_START, java_executable
from tailrace_emulator.testing.process import ChildProcess, free_port
from tailrace_emulator.testing.service import Service

READY_LIMIT_S = 120.0
_HEAP = "-Xmx256m"
CONFLUENT_API = "/apis/ccompat/v7"


class SchemaRegistry(Service):
    """One registry; a restart continues with the same subjects and ids."""

    name = "schema registry"
    log_name = "registry.log"

    @property
    def url(self) -> str:
        """The URL of the Confluent API, as clients expect it for `schema.registry.url`."""
        return f"http://127.0.0.1:{self.port}{CONFLUENT_API}"

    def start(self, progress: ivy.Progress | None = None) -> str:
        """Start the registry, after downloading it if needed.

        Returns:
            The URL of the Confluent API, once it answers: `GET {url}/subjects` lists the subjects.

        Raises:
            ProcessFailed: it ended or did not answer in time.
            ArtifactUnavailable, JavaMissing: a file or program that it needs is missing.
        """
        self._port = self._port or free_port()
        home = jars.registry_home(progress)
        (runner,) = home.glob("*-runner.jar")
        database = (self._data_dir / "registry").resolve()
        settings = _settings(self._port, database)
        command = [java_executable(), _HEAP, *QUICK_START, *settings, "-jar", str(runner)]
        self._process = ChildProcess(self.name, command, self.log, keep=self._keep).start()
        self._process.wait_until_ready(self.answers, READY_LIMIT_S)
        return self.url

    def answers(self) -> bool:
        """As in `Service`: the list of subjects."""
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
