"""Commands of ``tailrace``, with the configuration of a pipe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tailrace.cli import cli
from tests.pipeline.conftest import Pipe


def invoke(pipe: Pipe, folder: Path, command: str, *arguments: str, **further: Any) -> Result:
    """Run a command, with further options of the publisher; what it prints and how it ends."""
    options = pipe.options(**further)
    options["source"]["password"] = str(options["source"]["password"])
    file = folder / "tailrace.json"  # which is YAML
    file.write_text(json.dumps({"publisher": options}))
    return CliRunner().invoke(cli, [command, "--config", str(file), *arguments])
