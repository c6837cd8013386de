"""Starts the broker in the Kafka stand-in, configured by variables like Kafka's image.

``KAFKA_LOG_DIRS`` sets log.dirs, and so on: one underscore is a dot, two are an underscore, three a
hyphen. The program becomes the broker, so that it is process 1 and gets the container's SIGTERM.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

LIBRARIES = "/opt/kafka/libs/*"
LOG_SETTINGS = "/opt/kafka/config/log4j2.xml"
SETTINGS = Path("/tmp/server.properties")  # noqa: S108 - the container's own
# Variables of Kafka's scripts, which are no settings of the broker.
_NO_SETTINGS = {"KAFKA_HEAP_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS", "KAFKA_OPTS", "KAFKA_LOG4J_OPTS"}
_PREFIX = "KAFKA_"


def settings_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the broker's settings by name."""
    found = {}
    for variable, value in environ.items():
        if variable.startswith(_PREFIX) and variable not in _NO_SETTINGS:
            name = variable.removeprefix(_PREFIX).lower()
            for marks, meant in (("___", "\1"), ("__", "\2"), ("_", "."), ("\1", "-"), ("\2", "_")):
                name = name.replace(marks, meant)
            found[name] = value
    return found


def main() -> int:
    """Format the data folder if it is new, then become the broker."""
    settings = settings_of(os.environ)
    folder = settings.setdefault("log.dirs", "/var/lib/kafka/data")
    SETTINGS.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = ["java", *os.environ.get("KAFKA_HEAP_OPTS", "-Xmx512m").split()]
    java += [f"-Dlog4j2.configurationFile={LOG_SETTINGS}", "-cp", LIBRARIES]
    if not (Path(folder) / "meta.properties").exists():
        fresh = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        cluster_id = os.environ.get("CLUSTER_ID", fresh)
        tool = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}"]
        done = subprocess.run([*tool, f"--config={SETTINGS}"], check=False)  # noqa: S603 - our own
        if done.returncode != 0:
            sys.stderr.write(f"the data folder {folder} could not be formatted\n")
            return done.returncode
    os.execvp("java", [*java, "kafka.Kafka", str(SETTINGS)])  # noqa: S606, S607 - is the purpose


if __name__ == "__main__":
    sys.exit(main())
