"""Being let in by a registry: TLS, client certificates, user and password, bearer tokens.

The registry itself asks nobody, as deployments have it: what is asked for stands in front of it.
"""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tailrace.doctor.clocks import look_at_registry_clock
from tailrace.doctor.findings import Level
from tailrace.doctor.stores import look_at_registry
from tailrace_service.registry.access import RegistryAccessUnusable, open_registry
from tailrace_service.registry.client import RegistryRejected, RegistryUnavailable
from tailrace_service.registry.options import RegistryConfig
from tests.fix_certificates import KEY_PASSWORD, Chain

pytestmark = pytest.mark.kafka


@dataclass
class Door:
    """What stands in front of the registry.

    Attributes:
        url: where.
        chain: its own certificate, and whom it trusts.
        wanted: the header that it wants.
        seen: the headers that came.
    """

    url: str
    chain: Chain
    wanted: str | None = None
    seen: list[str | None] = field(default_factory=list)

    def options(self, **further: object) -> RegistryConfig:
        options = {"url": self.url, "timeout_s": 5, "ca_file": self.chain.root}
        certificate = {
            "client_certificate": self.chain.client.chain,
            "client_key": self.chain.client_key,
            "client_key_password": KEY_PASSWORD,
        }
        return RegistryConfig.model_validate({**options, **certificate, **further})

    def subjects(self, **further: object) -> list[str]:
        with open_registry(self.options(**further)) as registry:
            return registry.subjects()


@pytest.fixture
def door(registry: str, chain: Chain) -> Iterator[Door]:
    found = Door("", chain)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.seen.append(self.headers["Authorization"])
            allowed = found.wanted in {None, self.headers["Authorization"]}
            answer = httpx.get(registry + self.path) if allowed else httpx.Response(401, json={})
            self.send_response(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain.server.chain, chain.server.key)
    context.load_verify_locations(chain.root)
    context.verify_mode = ssl.CERT_REQUIRED
    server.socket = context.wrap_socket(server.socket, server_side=True)
    found.url = f"https://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_certificate_of_ones_own_authority_lets_in(door: Door):
    door.subjects()
    assert door.seen == [None]


def test_without_certificate_or_authority_there_is_no_answer(door: Door):
    bare = {"client_certificate": None, "client_key": None, "client_key_password": None}
    for options in (bare, {**bare, "ca_file": None}):
        with pytest.raises(RegistryUnavailable):
            door.subjects(**options)
    assert door.seen == []


def test_user_and_password(door: Door, tmp_path: Path):
    door.wanted = f"Basic {base64.b64encode(b'cdc:right').decode()}"
    door.subjects(user="cdc", password="right")
    with pytest.raises(RegistryRejected, match=r"check registry\.user") as refused:
        door.subjects(user="cdc", password="wr0ng")
    assert refused.value.status == 401
    assert "wr0ng" not in str(refused.value)
    file = tmp_path / "password"
    file.write_text("right\n")
    door.subjects(user="cdc", password_file=file)


def test_a_token_is_read_again_when_it_was_renewed(door: Door, tmp_path: Path):
    door.wanted = "Bearer first"
    door.subjects(token="first")
    file = tmp_path / "token"
    file.write_text("first\n")
    with open_registry(door.options(token_file=file)) as registry:
        registry.subjects()
        door.wanted = "Bearer second"
        with pytest.raises(RegistryRejected):
            registry.subjects()
        file.write_text("second\n")
        registry.subjects()
        file.unlink()
        with pytest.raises(RegistryAccessUnusable, match=r"registry\.token_file .* readable"):
            registry.subjects()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"client_key": Path("/no/such/key")}, "there is no file /no/such/key"),
        ({"client_key_password": "wr0ng"}, r"client_key \(with client_key_password\) do not go"),
        ({"ca_file": Path(__file__)}, r"registry\.ca_file .* holds no certificates"),
    ],
)
def test_certificates_that_cannot_be_used_are_told(
    door: Door, options: dict[str, object], told: str
):
    with pytest.raises(RegistryAccessUnusable, match=told) as error:
        door.subjects(**options)
    assert "wr0ng" not in str(error.value)
    assert not error.value.retryable


def test_the_doctor_comes_in_the_same_way(door: Door):
    door.wanted = "Bearer first"
    config = door.options(token="first")
    findings = [*look_at_registry(config), *look_at_registry_clock(config)]
    assert [finding.level for finding in findings] == [Level.OK] * len(findings)
    assert len(findings) == 2
    (unusable,) = look_at_registry(door.options(client_key=Path("/no/such/key")))
    assert unusable.level is Level.PROBLEM
    assert "/no/such/key" in unusable.text
