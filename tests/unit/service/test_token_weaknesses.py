"""How a token could leak is reported with its fix, by daemons and page alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tailrace_service.endpoint import daemon_endpoint
from tailrace_service.http.access import token_weaknesses
from tailrace_service.options.endpoint import EndpointOptions

ANYWHERE = "0.0.0.0"  # noqa: S104 - that is the case


@pytest.fixture
def token(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("a-token-of-this-test")
    file.chmod(0o600)
    return file


def test_a_token_over_plain_http_and_a_file_of_others_are_weak(token: Path):
    plain = ("passes 0.0.0.0 unencrypted", "give a certificate")
    file = (f"Others may use {token}: its mode is 0644", f"chmod 600 {token}")
    for host, mode, is_encrypted, expected in (
        ("127.0.0.1", 0o600, False, []),
        ("127.0.0.1", 0o644, False, [file]),
        (ANYWHERE, 0o600, True, []),
        (ANYWHERE, 0o644, False, [plain, file]),
    ):
        token.chmod(mode)
        found = list(token_weaknesses(host, token, is_encrypted=is_encrypted))
        assert len(found) == len(expected)
        for (reason, fix), weakness in zip(expected, found, strict=True):
            assert reason in weakness.reason
            assert weakness.fix.startswith(fix)
    assert not list(token_weaknesses(ANYWHERE, None, is_encrypted=False))


def test_a_file_of_root_may_be_read_by_its_group(token: Path):
    token.chmod(0o640)
    is_of_root = token.stat().st_uid == 0
    assert bool(list(token_weaknesses("127.0.0.1", token, is_encrypted=False))) is not is_of_root


def test_a_daemon_warns_of_them_as_it_starts(token: Path):
    options = EndpointOptions(metrics_port=0, metrics_host=ANYWHERE, http_token_file=token)
    with capture_logs() as logs, daemon_endpoint(options, {}):
        pass
    (warning,) = logs
    assert (warning["event"], warning["log_level"]) == ("http_token_exposed", "warning")
    assert "unencrypted" in warning["reason"]
    assert "certificate" in warning["fix"]
