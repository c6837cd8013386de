"""Commands of whoever sets it up and keeps it running: init, enable, grants, doctor, reshard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.cli.options import (
    CONFIG,
    SET,
    check_options,
    fail,
    fail_settings,
    failing_with,
    settings_of,
)

if TYPE_CHECKING:
    from tailrace.enable.statements import Plan
    from tailrace_publisher.options.source import SourceConfig

RUN = click.option("--run", is_flag=True, help="Run the statements after showing them.")
LOGIN = click.option(
    "--login",
    metavar="NAME",
    help="Look, and run, as this login instead of publisher.source.user, which should not be"
    " allowed to; its password is asked for, or is the first line of --password-file.",
)
PASSWORD_FILE = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the password of --login.",
)


@click.command()
@CONFIG
@SET
@click.option("--json", "as_json", is_flag=True, help="A JSON array of findings.")
@click.option(
    "--fix",
    is_flag=True,
    help="Then run those fixes that are safe, after showing them and asking.",
)
@click.option("--yes", is_flag=True, help="Do not ask before --fix runs something.")
def doctor(
    config: Path | None, flags: tuple[str, ...], as_json: bool, fix: bool, yes: bool
) -> None:
    """Look at source, Kafka, registry and lake, and say what is wrong and how to mend it.

    Ends with 1 where there is a problem, with 0 where there are warnings at most.
    """
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    if settings.has_sink:
        check_options(settings.sink)
    from rich.console import Console

    from tailrace.cli.log_format import quiet_logs
    from tailrace.doctor.findings import Level, worst
    from tailrace.doctor.fixes import run_safe_fixes
    from tailrace.doctor.render import as_json as json_of
    from tailrace.doctor.render import as_text
    from tailrace.doctor.run import examine

    with quiet_logs():
        findings = list(examine(settings))
    if as_json:
        click.echo(json_of(findings))
    else:
        as_text(Console(), findings)
    if fix:
        run_safe_fixes(checked, findings, ask=not yes)
    sys.exit(1 if worst(findings) is Level.PROBLEM else 0)


@click.command()
@CONFIG
@SET
@click.argument("tables", nargs=-1, required=True, metavar="SCHEMA.TABLE...")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help="Capture this column; may be repeated. Without it: all columns.",
)
@click.option("--role", metavar="NAME", help="Gating role; without it, none.")
@click.option("--filegroup", metavar="NAME", help="Filegroup of the change tables.")
@click.option(
    "--capture-instance",
    metavar="NAME",
    help="Name of the capture instance; for the second one of a table, after its columns changed.",
)
@RUN
@LOGIN
@PASSWORD_FILE
def enable(
    config: Path | None,
    flags: tuple[str, ...],
    tables: tuple[str, ...],
    columns: tuple[str, ...],
    role: str | None,
    filegroup: str | None,
    capture_instance: str | None,
    run: bool,
    login: str | None,
    password_file: Path | None,
) -> None:
    """Show the T-SQL that turns change data capture on for tables; with --run, run it."""
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    from tailrace.enable.plan import plan_enable
    from tailrace.enable.tsql import CaptureOptions
    from tailrace.reading.table_names import TableNameError, parse_table
    from tailrace_publisher.errors import PublisherError

    if len(tables) > 1 and (columns or capture_instance):
        fail("--column and --capture-instance are of one table: name one table with them")
    options = CaptureOptions(capture_instance, columns, role, filegroup)
    account = _account(checked.source, login, password_file)
    with failing_with(TableNameError, PublisherError):
        wanted = [parse_table(name) for name in tables]
        plan = plan_enable(checked, account, wanted, options)
    _show_or_run(plan, account, run=run)


@click.command()
@CONFIG
@SET
@click.option("--user", metavar="NAME", help="Database user; default publisher.source.user.")
@RUN
@LOGIN
@PASSWORD_FILE
def grants(
    config: Path | None,
    flags: tuple[str, ...],
    user: str | None,
    run: bool,
    login: str | None,
    password_file: Path | None,
) -> None:
    """Show the least that the publisher's login needs, as T-SQL; with --run, run it."""
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    from tailrace.enable.plan import plan_grants
    from tailrace_publisher.errors import PublisherError

    account = _account(checked.source, login, password_file)
    with failing_with(PublisherError):
        plan = plan_grants(checked, account, user or checked.source.account)
    _show_or_run(plan, account, run=run)


@click.command()
@click.argument(
    "file", default=Path("tailrace.yaml"), type=click.Path(dir_okay=False, path_type=Path)
)
@click.option("--host", prompt="SQL Server (host, or host,port)", help="Host, or host,port.")
@click.option("--database", prompt="Database", help="The one database to publish.")
@click.option("--user", prompt="Login", default="tailrace", help="The login that reads it.")
@click.option(
    "--password-file",
    prompt="File whose first line is its password",
    type=click.Path(path_type=Path),
    help="It is read at every connect; the password itself is not written anywhere.",
)
@click.option(
    "--trust",
    is_flag=True,
    prompt="Accept any certificate of the server (tests and private networks)",
    help="Accept any certificate of the server.",
)
@click.option("--bootstrap", prompt="Kafka (host:port,...)", help="Some brokers.")
@click.option("--registry", prompt="Schema registry (URL)", help="Confluent's REST API.")
@click.option("--prefix", prompt="First part of topic names", help="Letters, digits and '-'.")
@click.option(
    "--lake",
    prompt="Lake (folder or URI; empty for none)",
    default="",
    show_default=False,
    help="Folder or URI; empty for none.",
)
def init(
    file: Path,
    host: str,
    database: str,
    user: str,
    password_file: Path,
    trust: bool,
    bootstrap: str,
    registry: str,
    prefix: str,
    lake: str,
) -> None:
    """Ask a few questions and write a configuration file; nothing is overwritten."""
    from tailrace.settings.init import Answers, options_of, write
    from tailrace.settings.load import SettingsError

    answers = Answers(host, database, user, password_file, bootstrap, registry, prefix, lake, trust)
    try:
        write(file, options_of(answers))
    except SettingsError as error:
        fail_settings(error)
    except FileExistsError:
        fail(f"{file} is there already: name another file, or move it away")
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}")
    click.echo(f"{file} is written. Then:")
    for command in ("enable <tables>", "grants", "doctor", "publish"):
        click.echo(f"  tailrace {command} --config {file}")


@click.command()
@CONFIG
@SET
def reshard(config: Path | None, flags: tuple[str, ...]) -> None:
    """Divide what is published among as many shards as publisher.shards says (docs/scaling.md).

    Stop all publishers of the database first. Afterwards start them with the same configuration.
    The sink and subscribers may run. What it cannot do now it refuses, and nothing has changed.
    """
    settings = settings_of(config, flags, "publisher", "source")
    checked = check_options(settings.publisher)
    from tailrace_publisher.daemon.offline.reshard import reshard as divide
    from tailrace_publisher.errors import PublisherError
    from tailrace_service.registry.client import RegistryError

    with failing_with(PublisherError, RegistryError):
        done = divide(checked)
    click.echo(
        f"Divided among {done.after.shards} shards instead of {done.before.shards}, from"
        f" {done.closed_lsn} (closed LSN) on; {done.moved} tables have another shard than before."
    )
    for number, tables in enumerate(done.tables):
        click.echo(f"  shard {number}: {tables} tables")
    click.echo("Start the publishers with this configuration.")


def _account(source: SourceConfig, login: str | None, password_file: Path | None) -> SourceConfig:
    """The source as --login sees it; without that option as the publisher does."""
    from tailrace.enable.statements import account_of

    if login is None:
        return source
    password = None
    if password_file is None:
        password = click.prompt(f"Password of {login}", hide_input=True)
    return account_of(source, login, password, password_file)


def _show_or_run(plan: Plan, account: SourceConfig, *, run: bool) -> None:
    from tailrace.enable.statements import run_plan
    from tailrace.reading.terminal import shown
    from tailrace_publisher.errors import PublisherError

    for note in plan.notes:
        click.echo(f"-- {shown(note)}")
    for statement in plan.statements:
        click.echo(shown(statement.text))
    if not run:
        if plan.statements:
            click.echo("-- Nothing was run: add --run, or paste this where you may.")
        return
    if plan.not_runnable is not None:
        fail(f"Nothing was run. {plan.not_runnable}")
    try:
        run_plan(plan, account)
    except PublisherError as error:
        fail(f"Stopped at this error, what came before it was run: {error}")
    click.echo(f"-- {len(plan.statements)} statements were run; tailrace doctor proves it.")


OPERATE = (init, enable, grants, doctor, reshard)
