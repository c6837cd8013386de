"""``python -m tests.endurance``: a long run over real parts that die; 1 with a problem."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click

from tests.endurance.run import Plan, run


def _say(text: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)


@click.command()
@click.option("--minutes", default=60.0, show_default=True, help="How long parts are killed.")
@click.option("--seed", default=1, show_default=True)
@click.option("--sink/--no-sink", "has_sink", default=True, show_default=True, help="With a lake.")
@click.option(
    "--checkpoint-records",
    default=0,
    show_default=True,
    help="Records that the checkpoint's topic has from the beginning to the end.",
)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Kept; a temporary one if not.")
def main(data_dir: Path | None, **plan: Any) -> None:
    """Run, and print what was found; SIGINT and SIGTERM end it early, with a verdict."""
    where = data_dir or Path(tempfile.mkdtemp(prefix="endurance-"))
    _say(f"logs and data are in {where}")
    enough = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: enough.set())
    verdict, done = run(Plan(**plan), where, _say, enough)
    click.echo(done)
    for problem in verdict.problems:
        click.echo(f"  - {problem}")
    click.echo("no problem" if not verdict.problems else f"{len(verdict.problems)} problems")
    sys.exit(1 if verdict.problems else 0)


if __name__ == "__main__":
    main()
