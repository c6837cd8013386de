"""``tailrace up`` and ``tailrace down``: the local stack, kept for a user's own work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import yaml

from tailrace_compose.local.kept import Outcome, PartReport
from tailrace_compose.local.stack import LocalStack, addresses, stop_kept
from tailrace_emulator.testing.errors import LocalStackError
from tailrace_emulator.testing.process import free_port

CONFIG_FILE = "tailrace.yaml"
_SAID: dict[Outcome, str] = {
    "left alone": "ran already (process {pid}), left alone",
    "started": "started (process {pid})",
    "started again": "had ended, started again (process {pid}); its log: {log}",
    "stopped": "stopped (process {pid})",
    "killed": "did not stop when asked to, killed (process {pid})",
    "already gone": "was already gone (process {pid} ended on its own); its log: {log}",
    "not running": "was not running",
}


def start(data_dir: Path) -> int:
    """Start what is missing of the stack, keep it, and write a configuration that fits it.

    Says of each part what was found and done; returns the exit status.
    """
    stack = LocalStack(data_dir, keep=True)
    try:
        stack.start(lambda line: click.echo(f"  {line}"))
    except LocalStackError as error:
        click.echo(f"{error}", err=True)
        return 1
    click.echo(f"{_said(stack.reports)}\n")
    config = _write_config(data_dir)
    found = addresses(data_dir)
    server = found["sqlserver"]
    click.echo(
        f"Kafka            {found['bootstrap_servers']}\n"
        f"Schema registry  {found['registry_url']}\n"
        f"SQL Server       {server['host']},{server['port']}  login sa, password in"
        f" {server['password_file']}\n{_of_store(found)}"
        f"Configuration    {config}\n\n"
        "Create a database and its tables, set publisher.source.database in the configuration,"
        " then capture and publish a table (docs/tutorial.md has each step):\n"
        f'  tailrace sql --data-dir {data_dir} "CREATE DATABASE Shop"\n'
        f"  tailrace enable --config {config} dbo.orders --run\n"
        f"  tailrace publish --config {config}\n"
        f"  tailrace sink --config {config}\n"
        f"  tailrace down --data-dir {data_dir}"
    )
    return 0


def _of_store(found: dict[str, Any]) -> str:
    """The line of the object store; empty if the stack has none."""
    store = found.get("object_store")
    if store is None:
        return ""
    options = store["options"]
    return (
        f"Object store     {options['endpoint']}  bucket {store['bucket']}, access key"
        f" {options['access_key']}, secret key in {options['secret_key_file']}\n"
    )


def stop(data_dir: Path) -> int:
    """Stop what :func:`start` left running, and say so of each part; returns the exit status."""
    reports = stop_kept(data_dir)
    click.echo(_said(reports))
    if any(report.outcome != "not running" for report in reports):
        click.echo(f"The data stays in {data_dir}.")
    else:
        click.echo(f"Nothing runs in {data_dir}.")
    return 0


def _said(reports: list[PartReport]) -> str:
    """One line for each part."""
    return "\n".join(
        f"{report.name:<20} {_SAID[report.outcome].format(pid=report.pid, log=report.log)}"
        for report in reports
    )


def _write_config(data_dir: Path) -> Path:
    """Write the configuration unless the user has one there already."""
    path = data_dir / CONFIG_FILE
    if not path.exists():
        config = stack_config(data_dir, prefix="local", database="master")
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    return path


def stack_config(data_dir: Path, *, prefix: str, database: str) -> dict[str, object]:
    """The configuration of a pipeline over a started stack, as ``settings.load`` reads it.

    The lake is in the stack's object store if it has one, else in the data directory.
    """
    found = addresses(data_dir)
    server, store = found["sqlserver"], found.get("object_store")
    lake: dict[str, object] = {"lake": str(data_dir / "lake")}
    if store is not None:
        lake = {"lake": f"s3://{store['bucket']}/{prefix}", "s3": store["options"]}
    return {
        "prefix": prefix,
        "kafka": {"bootstrap": found["bootstrap_servers"]},
        "registry": {"url": found["registry_url"]},
        "publisher": {
            # Without it, status --check and the page cannot see how the daemons are.
            "metrics_port": free_port(),
            "source": {
                "host": server["host"],
                "port": server["port"],
                "database": database,
                "user": "sa",
                "password_file": server["password_file"],
                "trust_server_certificate": True,
            },
        },
        "sink": {**lake, "metrics_port": free_port()},
    }
