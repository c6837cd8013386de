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
from tailrace.verify.compare import TableResult
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
