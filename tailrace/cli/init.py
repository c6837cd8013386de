"""``tailrace init``: a configuration file of a few answers; each connection is tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tailrace.cli.options import DEFAULT_FILE, checked, fail

if TYPE_CHECKING:
    from tailrace.doctor.findings import Finding


def _overwritable(_: click.Context, __: click.Parameter, file: Path) -> Path:
    """Ask before any other question whether a file may be overwritten."""
    if file.exists() and not click.confirm(f"{file} exists already. Overwrite it?"):
        fail("Nothing was written. Fix: name another file")
    return file


def _trying(*names: str, test: Callable[..., Finding]) -> Callable[..., Any]:
    """Return a callback that tries a connection once the last of its answers is given.

    What fails is reported, and the questions continue: the file may be for another machine.
    """

    def given(context: click.Context, param: click.Parameter, value: Any) -> Any:
        known = {**context.params, str(param.name): value}
        tried: set[object] = context.meta.setdefault(__name__, set())
        if known.keys() >= set(names) and names not in tried:
            tried.add(names)  # click calls back twice after a prompt
            _report(lambda: test(*(known[name] for name in names)))
        return value

    return given


def _report(test: Callable[[], Finding]) -> None:
    from pydantic import ValidationError
    from rich.console import Console

    from tailrace.cli.log_format import quiet_logs
    from tailrace.doctor.render import as_line

    try:
        with quiet_logs():
            finding = test()
    except ValidationError:
        return  # the whole file is checked at the end
    as_line(Console(), finding)


def _source(host: str, database: str, user: str, password_file: Path, trust: bool) -> Finding:
    from tailrace.doctor.connections import WAIT_S, try_source
    from tailrace.settings.init import source_options
    from tailrace_publisher.options.source import SourceConfig

    options = source_options(host, database, user, password_file, is_trusted=trust)
    return try_source(SourceConfig.model_validate({**options, "login_timeout_s": WAIT_S}))


def _brokers(bootstrap: str) -> Finding:
    from tailrace.doctor.connections import WAIT_S, try_brokers
    from tailrace_publisher.options.kafka import KafkaConfig

    options = {"bootstrap": bootstrap, "start_timeout_s": WAIT_S}
    return try_brokers(KafkaConfig.model_validate(options))


def _registry(url: str) -> Finding:
    from tailrace.doctor.connections import WAIT_S, try_registry
    from tailrace_service.registry.options import RegistryConfig

    return try_registry(RegistryConfig.model_validate({"url": url, "timeout_s": WAIT_S}))


_TRY_SOURCE = _trying("host", "database", "user", "password_file", "trust", test=_source)


@click.command()
@click.argument(
    "file",
    default=DEFAULT_FILE,
    type=click.Path(dir_okay=False, path_type=Path),
    is_eager=True,
    callback=_overwritable,
)
@click.option(
    "--host",
    prompt="SQL Server (host, or host,port)",
    help="Host, or host,port.",
    callback=_TRY_SOURCE,
)
@click.option(
    "--database", prompt="Database", help="The database to publish.", callback=_TRY_SOURCE
)
@click.option(
    "--user",
    prompt="Login",
    default="tailrace",
    help="Login of the publisher.",
    callback=_TRY_SOURCE,
)
@click.option(
    "--password-file",
    prompt="File whose first line is its password",
    type=click.Path(path_type=Path),
    help="File with its password, which is read at every connect and stored nowhere.",
    callback=_TRY_SOURCE,
)
@click.option(
    "--trust",
    is_flag=True,
    prompt="Accept any certificate of the server (tests and private networks)",
    help="Accept any certificate of the server.",
    callback=_TRY_SOURCE,
)
@click.option(
    "--bootstrap",
    prompt="Kafka (host:port,...)",
    help="Some brokers, host:port,...",
    callback=_trying("bootstrap", test=_brokers),
)
@click.option(
    "--registry",
    prompt="Schema registry (URL)",
    help="URL of Confluent's REST API.",
    callback=_trying("registry", test=_registry),
)
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
    """Write tailrace.yaml from a few answers.

    Tries each connection as it is given, and continues if it fails. Confirms first that an existing
    file may be overwritten. Checks the answers before it writes.
    """
    from tailrace.settings.init import Answers, options_of, write

    answers = Answers(host, database, user, password_file, bootstrap, registry, prefix, lake, trust)
    try:
        checked(lambda: write(file, options_of(answers)))
    except OSError as error:
        fail(f"{file} cannot be written ({error.strerror}). Fix: name a file in another folder")
    click.echo(f"Wrote {file}. Next:")
    named = "" if file == DEFAULT_FILE else f" --config {file}"
    for command in ("enable <tables>", "grants", "plan", "doctor", "publish"):
        click.echo(f"  tailrace {command}{named}")
