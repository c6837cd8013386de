"""``tailrace init``: a configuration file of a few answers, checked before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tailrace.settings.load import load
from tailrace.settings.settings import Settings

_HEAD = """\
# Options of tailrace publish and tailrace sink. All of them, with their bounds, are explained in
# docs/configuration.md; `tailrace doctor --config {name}` looks at everything that is named here.
# At metrics_port each daemon reports its state: without it, `tailrace web` cannot watch it.
"""
_PUBLISHER_PORT = 9404
_SINK_PORT = 9405
"""Those of the container images."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What is asked.

    Attributes:
        host: of SQL Server; ``host,port`` or ``host`` with port 1433.
        user: the login that reads it.
        password_file: file whose first line is its password.
        registry: URL of the schema registry.
        prefix: first part of every topic name.
        lake: folder or URI of the lake; empty for none.
        is_trusted: whether any certificate of the server is accepted.
    """

    host: str
    database: str
    user: str
    password_file: Path
    bootstrap: str
    registry: str
    prefix: str
    lake: str
    is_trusted: bool


def source_options(
    host: str, database: str, user: str, password_file: Path, *, is_trusted: bool
) -> dict[str, Any]:
    """The options of the source that some answers mean; see :class:`Answers`."""
    name, _, port = host.replace(":", ",").partition(",")
    source: dict[str, Any] = {"host": name.strip()}
    if port.strip():
        source["port"] = int(port) if port.strip().isdigit() else port
    source |= {"database": database, "user": user, "password_file": str(password_file)}
    if is_trusted:
        source["trust_server_certificate"] = True
    return source


def options_of(answers: Answers) -> dict[str, Any]:
    """The options that the answers mean."""
    source = source_options(
        answers.host,
        answers.database,
        answers.user,
        answers.password_file,
        is_trusted=answers.is_trusted,
    )
    options: dict[str, Any] = {
        "prefix": answers.prefix,
        "kafka": {"bootstrap": answers.bootstrap},
        "registry": {"url": answers.registry},
        "publisher": {"metrics_port": _PUBLISHER_PORT, "source": source},
    }
    if answers.lake:
        options["sink"] = {"lake": answers.lake, "metrics_port": _SINK_PORT}
    return options


def write(path: Path, options: Mapping[str, Any]) -> Settings:
    """Write a configuration file if it is usable; what was there before stays otherwise.

    Returns:
        The settings as they are read back.

    Raises:
        SettingsError: names every wrong answer.
        OSError: the file cannot be written.
    """
    text = _HEAD.format(name=path.name) + yaml.safe_dump(dict(options), sort_keys=False)
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        settings = load(partial, {})
        settings.check()
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return settings
