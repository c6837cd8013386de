"""``tailrace verify``: what it prints, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from click.testing import CliRunner

from tailrace.cli.root import cli
from tailrace.verify.table_result import TableResult
from tailrace.verify.verify import Verification
from tests.least_options import LEAST

SHARED = {name: LEAST[name] for name in ("kafka", "registry", "prefix")}


class Session:
    def stop(self) -> None:
        """Ends nothing: no table is read."""


@pytest.mark.parametrize(("problem", "status"), [(None, 0), ("a lock", 4)])
def test_what_is_logged_meanwhile_is_not_part_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str | None, status: int
):
    """Its waits for locks are logged by the code that the publisher has, too."""

    def compared(*_: Any) -> Verification:
        structlog.get_logger("tailrace.publisher").warning("source_retried", table="dbo.t")
        return Verification("shop", "lake", [TableResult("dbo.t", problem=problem)])

    monkeypatch.setattr("tailrace.verify.verify.verify", compared)
    monkeypatch.setattr("tailrace.reading.lake_session.configured_session", lambda _: Session())
    file = tmp_path / "tailrace.yaml"
    options = {"publisher": LEAST, "sink": {**SHARED, "lake": str(tmp_path / "lake")}}
    file.write_text(yaml.safe_dump(options))
    found = CliRunner().invoke(cli, ["verify", "--json", "--config", str(file)])
    assert found.exit_code == status, found.output
    (table,) = json.loads(found.stdout)["tables"]
    assert (table["table"], table["problem"]) == ("dbo.t", problem)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--hours", "22-6"], "--hours can be used only with --continuous."),
        (["--metrics-port", "9407"], "--metrics-port can be used only with --continuous."),
        (["--continuous", "--json"], "--json cannot be used with --continuous."),
        (["--continuous", "--hours", "22-25"], "not two different hours of the day"),
        (["--continuous", "--core-percent", "0"], "0.0 is not in the range 0<x<=100"),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_read(arguments, problem):
    found = CliRunner().invoke(cli, ["verify", *arguments])
    assert found.exit_code == 2
    assert problem in " ".join(found.stderr.split())
