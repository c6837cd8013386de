"""JSON lines of the daemons."""

import json

import pytest
import structlog
from pydantic import SecretStr

from tailrace.log_format import set_log_format


@pytest.fixture(autouse=True)
def _restored():
    before = structlog.get_config()
    yield
    structlog.configure(**before)


def test_a_json_line_has_the_event_and_its_fields_and_no_secret(capsys):
    set_log_format("json", "publisher")

    structlog.get_logger("x").warning(
        "table_stopped", table="dbo.«t»", password=SecretStr("hidden"), rows=3, at=1.5
    )

    found = json.loads(capsys.readouterr().out)
    assert found.pop("timestamp").endswith("Z")
    assert found == {
        "program": "publisher",
        "level": "warning",
        "event": "table_stopped",
        "table": "dbo.«t»",
        "password": "**********",
        "rows": 3,
        "at": 1.5,
    }


def test_text_stays_as_it_is():
    before = structlog.get_config()
    set_log_format("text", "sink")
    assert structlog.get_config() == before
