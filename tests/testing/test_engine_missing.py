"""A machine without a container engine is told so in a sentence."""

import pytest

from tailrace.testing import engine
from tailrace.testing.errors import EngineUnavailable


def test_no_engine_says_how_to_start_one_and_what_needs_none(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    engine.has_bridge.cache_clear()
    try:
        with pytest.raises(EngineUnavailable) as told:
            engine.has_bridge()
        reason, advice = str(told.value).split(". ", 1)
        assert reason.endswith(f"at unix://{tmp_path}/none.sock (No such file or directory)")
        assert "dockerd --iptables=false" in advice
        assert "EmulatedSqlServer" in advice
    finally:
        engine.has_bridge.cache_clear()
