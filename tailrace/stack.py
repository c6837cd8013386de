"""``tailrace up`` and ``tailrace down``: the local stack, kept for a user's own work."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from compose.local.errors import LocalStackError
from compose.local.stack import LocalStack, addresses, stop_kept

CONFIG_FILE = "tailrace.yaml"


def start(data_dir: Path) -> int:
    """Start the stack, keep it, and write a configuration that fits it; returns the exit status."""
    stack = LocalStack(data_dir, keep=True)
    try:
        stack.start(lambda line: click.echo(f"  {line}"))
    except LocalStackError as error:
        click.echo(f"{error}", err=True)
        return 1
    config = _write_config(data_dir)
    found = addresses(data_dir)
    server = found["sqlserver"]
    click.echo(
        f"Kafka            {found['bootstrap_servers']}\n"
        f"Schema registry  {found['registry_url']}\n"
        f"SQL Server       {server['host']},{server['port']}  login sa, password in"
        f" {server['password_file']}\n"
        f"Configuration    {config}\n\n"
        "Create a database with change data capture, set publisher.source.database there, then\n"
        f"  tailrace publish --config {config}\n"
        f"  tailrace sink --config {config}\n"
        f"  tailrace down --data-dir {data_dir}"
    )
    return 0


def stop(data_dir: Path) -> int:
    """Stop what :func:`start` left running; returns the exit status."""
    if stop_kept(data_dir):
        click.echo(f"Stopped. The data stays in {data_dir}.")
    else:
        click.echo(f"Nothing runs in {data_dir}.")
    return 0


def _write_config(data_dir: Path) -> Path:
    """Write the configuration unless the user has one there already."""
    path = data_dir / CONFIG_FILE
    if not path.exists():
        config = stack_config(data_dir, prefix="local", database="master")
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


def stack_config(data_dir: Path, *, prefix: str, database: str) -> dict[str, object]:
    """The configuration of a pipeline over a started stack, as ``settings.load`` reads it."""
    found = addresses(data_dir)
    server = found["sqlserver"]
    return {
        "prefix": prefix,
        "kafka": {"bootstrap": found["bootstrap_servers"]},
        "registry": {"url": found["registry_url"]},
        "publisher": {
            "source": {
                "host": server["host"],
                "port": server["port"],
                "database": database,
                "user": "sa",
                "password_file": server["password_file"],
                "trust_server_certificate": True,
            },
        },
        "sink": {"lake": str(data_dir / "lake")},
    }
