"""Commands that set a pipeline up: enable, grants, plan, doctor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tailrace.cli.options import Configuration, configured, fail, failing_with

if TYPE_CHECKING:
    from tailrace.enable.statements import Plan
    from tailrace_publisher.options.source import SourceConfig

_RUN = click.option("--run", is_flag=True, help="Run the statements after printing them.")
_LOGIN = click.option(
    "--login",
    metavar="NAME",
    help="Look, and run, as this login. Default: publisher.source.user.",
)
_PASSWORD_FILE = click.option(
    "--password-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File whose first line is the password of --login. Default: a prompt.",
)


@click.command()
@click.argument("tables", nargs=-1, required=True, metavar="SCHEMA.TABLE...")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME",
    help="Capture only this column. Repeatable. Without it: all columns.",
)
@click.option("--role", metavar="NAME", help="Gating role; without it there is none.")
@click.option("--filegroup", metavar="NAME", help="Filegroup of the change tables.")
@click.option(
    "--capture-instance",
    metavar="NAME",
    help="Name of the capture instance, for the second one of a table.",
)
@_RUN
@_LOGIN
@_PASSWORD_FILE
@configured
def enable(
    configuration: Configuration,
    tables: tuple[str, ...],
    columns: tuple[str, ...],
    role: str | None,
    filegroup: str | None,
    capture_instance: str | None,
    run: bool,
    login: str | None,
    password_file: Path | None,
) -> None:
    """Print, or run, the T-SQL that turns CDC on.

    After the columns of a table changed, --capture-instance adds its second capture instance.
    """
    config = configuration.publisher
    from tailrace.enable.plan import plan_enable
    from tailrace.reading.table_names import TableNameError, parse_table
    from tailrace_publisher.source.catalog.capture_tsql import CaptureOptions

    if len(tables) > 1 and (columns or capture_instance):
        fail("--column and --capture-instance apply to one table. Fix: name one table")
    options = CaptureOptions(capture_instance, columns, role, filegroup)
    account = _account(config.source, login, password_file)
    with failing_with(TableNameError):
        wanted = [parse_table(name) for name in tables]
    _show_or_run(plan_enable(config, account, wanted, options), account, run=run)


@click.command()
@click.option("--user", metavar="NAME", help="Database user. Default: publisher.source.user.")
@_RUN
@_LOGIN
@_PASSWORD_FILE
@configured
def grants(
    configuration: Configuration,
    user: str | None,
    run: bool,
    login: str | None,
    password_file: Path | None,
) -> None:
    """Print, or run, the least grants for the publisher.

    Creates the publisher's login and user too, if they do not exist.
    """
    config = configuration.publisher
    from tailrace.enable.plan import plan_grants

    account = _account(config.source, login, password_file)
    _show_or_run(plan_grants(config, account, user or config.source.account), account, run=run)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@configured
def plan(configuration: Configuration, as_json: bool) -> None:
    """Show what publish would do, before anything starts.

    Lists each table with key, capture instance, topic, partitions, rows, size and expected
    snapshot time. Names the tables that are left out, with the reason. Queries the source only.
    Ends with 1 if a first start would be refused, or would leave out a table with a problem.
    """
    from tailrace.cli.log_format import quiet_logs
    from tailrace.plan.plan import plan_publish
    from tailrace.plan.report import as_json as json_of
    from tailrace.plan.report import as_text
    from tailrace_publisher.source.connection.connection import OdbcConnection

    config = configuration.publisher
    with quiet_logs(), OdbcConnection(config.source) as connection:
        planned = plan_publish(config, connection)
    if as_json:
        click.echo(json_of(planned))
    else:
        click.echo("\n".join(as_text(planned)))
    sys.exit(1 if planned.problems else 0)


@click.command()
@configured
def facts(configuration: Configuration) -> None:
    """Query the source for what no document says of it.

    Runs the read-only questions of docs/genuine/facts.sql as the configured login, and changes
    nothing. The answers have no rows and no names of tables; a refusal may name the database. The
    project wants to see those of servers that it cannot reach: docs/genuine says how to send them.
    """
    from tailrace.cli.log_format import quiet_logs
    from tailrace.facts.ask import answers
    from tailrace_publisher.source.connection.connection import OdbcConnection

    config = configuration.publisher
    with quiet_logs(), OdbcConnection(config.source) as connection:
        for line in answers(connection):
            click.echo(line)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--fix", is_flag=True, help="Then run the safe fixes, after printing and confirming each."
)
@click.option("--yes", is_flag=True, help="With --fix: do not ask for confirmation.")
@configured
def doctor(configuration: Configuration, as_json: bool, fix: bool, yes: bool) -> None:
    """Check every part; print a fix for each problem.

    Checks source, Kafka, registry, lake, and what runs. Ends with 1 if there is a problem, and with
    0 if there are only warnings.
    """
    configuration.check()
    from rich.console import Console

    from tailrace.cli.log_format import quiet_logs
    from tailrace.doctor.findings import Level, worst
    from tailrace.doctor.fixes import run_safe_fixes
    from tailrace.doctor.render import as_json as json_of
    from tailrace.doctor.render import as_text
    from tailrace.doctor.run import examine

    with quiet_logs():
        findings = list(examine(configuration.settings))
    if as_json:
        click.echo(json_of(findings))
    else:
        as_text(Console(), findings)
    if fix:
        run_safe_fixes(configuration.publisher, findings, ask=not yes)
    sys.exit(1 if worst(findings) is Level.PROBLEM else 0)


@click.command("archive-classes", hidden=True, deprecated=True)
def archive_classes() -> None:
    """Do nothing: sinks no longer use an archive of Spark's classes."""


def _account(source: SourceConfig, login: str | None, password_file: Path | None) -> SourceConfig:
    """Return the source as --login sees it; without that option, as the publisher sees it."""
    from tailrace.enable.statements import account_of

    if login is None:
        return source
    password = None
    if password_file is None:
        password = _hidden_prompt(f"Password of {login}")
    return account_of(source, login, password, password_file)


def _show_or_run(plan: Plan, account: SourceConfig, *, run: bool) -> None:
    from tailrace.enable.statements import run_plan, script
    from tailrace.reading.terminal import shown
    from tailrace_publisher.errors import PublisherError

    for note in plan.notes:
        click.echo(f"-- {shown(note)}")
    for line in script(plan, account):
        click.echo(shown(line))
    if not run:
        if plan.statements:
            click.echo("-- Nothing was run. Add --run, or paste this where you have the rights.")
        return
    if plan.not_runnable is not None:
        fail(f"Nothing was run. {plan.not_runnable}")
    try:
        refusals = run_plan(plan, account)
    except PublisherError as error:
        fail(f"Stopped at this error; the statements before it were run: {error}")
    for database, refusal in refusals.items():
        click.echo(f"-- Not run in {database}, and may be left out: {shown(refusal)}")
    count = sum(each.database not in refusals for each in plan.statements)
    click.echo(f"-- {count} statements were run. Check them with tailrace doctor.")


def _hidden_prompt(text: str) -> str:
    """Prompt on the terminal; without one, `getpass` would show what is typed."""
    import warnings
    from getpass import GetPassWarning

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)
            return str(click.prompt(text, hide_input=True))
    except GetPassWarning:
        fail("There is no terminal to prompt for the password. Fix: add --password-file")
