"""How the tasks of a bulk range connect: as the configuration says now."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from tailrace_sink.columns.topic_messages import Brokers, Piece
from tailrace_sink.errors import ConfigError
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.spark import executor_brokers
from tailrace_sink.spark.executor_brokers import ExecutorBrokers
from tests.unit.sink.test_config import MINIMAL

PIECE = Piece("t", 0, 0, 1)
NO_SPARK = cast(SparkSession, None)


def test_a_secret_that_was_replaced_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[Brokers] = []
    monkeypatch.setattr(
        executor_brokers, "_require_answer", lambda _, brokers, __: asked.append(brokers)
    )
    secret = tmp_path / "key-password"
    kafka: dict[str, Any] = {"bootstrap": "h:1", "extra_files": {"ssl.key.password": secret}}
    reaching = ExecutorBrokers(SinkConfig.model_validate({**MINIMAL, "kafka": kafka}))
    with pytest.raises(ConfigError, match=r"ssl\.key\.password"):
        reaching.reached(NO_SPARK, PIECE)
    passwords = []
    for password in ("first", "second"):
        secret.write_text(password)
        brokers = reaching.reached(NO_SPARK, PIECE)
        assert brokers is not None
        passwords.append(brokers.options["ssl.key.password"])
    assert passwords == ["first", "second"]
    assert len(asked) == 1, "the executors are tried once"
