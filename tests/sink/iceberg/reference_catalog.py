"""Iceberg's own REST catalog as a child process: its reference server, on SQLite and local files.

It checks the requirements of a commit of several tables, and then commits one after the other.
"""

from __future__ import annotations

import importlib.util
import urllib.error
import urllib.request
from pathlib import Path

from tailrace_compose.local import jars
from tailrace_compose.local.java import QUICK_START, java_executable
from tailrace_emulator.testing.process import ChildProcess, free_port
from tailrace_emulator.testing.service import Service

READY_LIMIT_S = 120.0
_MAIN = "org.apache.iceberg.rest.RESTCatalogServer"
_OF_SPARK = ("hadoop-client-api", "hadoop-client-runtime", "jcl-over-slf4j")
"""Jars of PySpark with which it reads and writes metadata files."""


class ReferenceCatalog(Service):
    """One catalog; a restart continues with the same tables."""

    name = "Iceberg's REST catalog"
    log_name = "catalog.log"

    @property
    def options(self) -> dict[str, str]:
        """Options of the sink for it."""
        return {"uri": self.url, "warehouse": self._warehouse}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> str:
        """Start it.

        Raises:
            ProcessFailed: it ended or did not answer in time.
            ArtifactUnavailable, JavaMissing: a file or program that it needs is missing.
        """
        self._port = self._port or free_port()
        class_path = ":".join(map(str, [*jars.ensure("iceberg_rest"), *_spark_jars()]))
        # Its settings are variables: rest.port is CATALOG_REST_PORT.
        settings = {
            "CATALOG_REST_PORT": str(self._port),
            "CATALOG_WAREHOUSE": self._warehouse,
            "CATALOG_URI": f"jdbc:sqlite:{self._data_dir.resolve() / 'catalog.db'}",
        }
        variables = [f"{name}={text}" for name, text in settings.items()]
        java = [java_executable(), "-Xmx256m", *QUICK_START, "-cp", class_path, _MAIN]
        command = ["env", *variables, *java]
        self._process = ChildProcess(self.name, command, self.log, keep=self._keep).start()
        self._process.wait_until_ready(self.answers, READY_LIMIT_S)
        return self.url

    def answers(self) -> bool:
        """As in `Service`: its configuration."""
        try:
            with urllib.request.urlopen(f"{self.url}/v1/config", timeout=3) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    @property
    def _warehouse(self) -> str:
        return (self._data_dir.resolve() / "warehouse").as_uri()


def _spark_jars() -> list[Path]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "jars"
    return [jar for name in _OF_SPARK for jar in folder.glob(f"{name}-[0-9]*.jar")]
