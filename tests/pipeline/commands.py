"""Commands of ``tailrace``, with the configuration of a pipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tailrace.cli.root import cli
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running


def invoke(pipe: Pipe, folder: Path, command: str, *arguments: str, **further: Any) -> Result:
    """Run a command, with further options of the publisher; what it prints and how it ends."""
    file = configuration(pipe, folder, **further)
    return CliRunner().invoke(cli, [command, "--config", file, *arguments])


def configuration(pipe: Pipe, folder: Path, **further: Any) -> str:
    """Write a pipe's configuration; return the file."""
    options = pipe.options(**further)
    options["source"]["password"] = str(options["source"]["password"])
    file = folder / "tailrace.json"  # which is YAML
    file.write_text(json.dumps({"publisher": options}))
    return str(file)


def assert_carries(pipe: Pipe, folder: Path, kafka: dict[str, Any]) -> None:
    """A publisher takes a snapshot and a change over a connection to Kafka, and it can be audited.

    Args:
        pipe: without tables.
        folder: for the configuration.
        kafka: the publisher's options of the connection.
    """
    pipe.source.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY)")
    pipe.source.enable("orders")
    pipe.source.execute("INSERT dbo.orders VALUES (1), (2)")
    with Running(pipe.config(kafka=kafka)) as publisher:
        publisher.until(pipe.is_caught_up, "the snapshot is out")
        pipe.source.execute("DELETE dbo.orders WHERE id = 2")
        publisher.until(pipe.is_caught_up, "the change is out")
    answer = invoke(pipe, folder, "audit", kafka=kafka)
    assert (answer.exit_code, "3" in answer.output) == (0, True), answer.output
