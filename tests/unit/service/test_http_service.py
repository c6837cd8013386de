"""Who may ask the HTTP service of a daemon for what, over real sockets."""

from __future__ import annotations

import itertools
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from tailrace_service.http import connection_limits
from tailrace_service.http.access import Address, read_token
from tailrace_service.http.connection_limits import (
    ANSWERING_OF_ADDRESS_MAX,
    READING_MAX,
    READING_OF_ADDRESS_MAX,
    Guest,
    Places,
)
from tailrace_service.http.messages import Refused, Request, Response, Route
from tailrace_service.http.service import BODY_MAX, HttpService
from tailrace_service.http.tls import read_tls
from tests.fix_certificates import Chain
from tests.pipeline.running import wait_until

TOKEN = "a-token-of-some-length"
JSON = {"Content-Type": "application/json"}


def answer(request: Request) -> Response:
    if request.path == "/refused":
        raise Refused(HTTPStatus.BAD_GATEWAY, "the broker is away")
    return Response.of_json({"query": dict(request.query), "body": request.body.decode()})


ROUTES = {
    ("GET", "/health"): Route(answer, is_open=True),
    ("GET", "/open"): Route(answer, is_open=True),
    ("GET", "/guarded"): Route(answer),
    ("GET", "/refused"): Route(answer, is_open=True),
    ("POST", "/do"): Route(answer),
}


@contextmanager
def serving(host: str = "127.0.0.1", token: str | None = None) -> Iterator[httpx.Client]:
    with (
        HttpService(Address(0, host, token), ROUTES) as service,
        httpx.Client(base_url=f"http://127.0.0.1:{service.port}", trust_env=False) as client,
    ):
        yield client


def test_on_loopback_everything_is_answered_without_a_token():
    with serving() as client:
        assert client.get("/open?a=1&a=2").json() == {"query": {"a": "2"}, "body": ""}
        guarded = client.get("/guarded")
        assert (guarded.status_code, guarded.headers["Cache-Control"]) == (200, "no-store")
        assert client.post("/do", headers=JSON, content="x").json()["body"] == "x"
        head = client.head("/open")
        assert (head.status_code, head.content) == (200, b"")


def test_a_name_that_was_made_to_point_here_is_refused():
    with serving() as client:
        assert client.get("/guarded", headers={"Host": "evil.example"}).status_code == 403
        assert client.get("/open", headers={"Host": "evil.example"}).status_code == 200
        for name in ("localhost", "localhost:80", "127.0.0.1", "[::1]:1"):
            assert client.get("/guarded", headers={"Host": name}).status_code == 200, name


def test_reached_from_elsewhere_only_open_paths_are_answered_without_a_token():
    with serving("0.0.0.0") as client:  # noqa: S104 - that is the case
        assert client.get("/open").status_code == 200
        refused = client.get("/guarded")
        assert (refused.status_code, "http_token_file" in refused.text) == (403, True)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104
def test_with_a_token_guarded_paths_need_it(host):
    with serving(host, TOKEN) as client:
        missing = client.get("/guarded")
        assert (missing.status_code, "Basic" in missing.headers["WWW-Authenticate"]) == (401, True)
        for wrong in ("Bearer no", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", "Bearer ü"):
            headers = {"Authorization": wrong.encode()}
            assert client.get("/guarded", headers=headers).status_code == 401, wrong
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert client.get("/guarded", headers=right).status_code == 200
        assert client.get("/guarded", auth=("anybody", TOKEN)).status_code == 200
        assert client.get("/guarded", auth=(TOKEN, "anything")).status_code == 401
        assert client.post("/do", headers=JSON).status_code == 401
        assert client.get("/open").status_code == 200


def test_an_address_of_version_6_is_listened_on():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no ::1")
    with HttpService(Address(0, "::1"), ROUTES) as service:
        answer = httpx.get(f"http://[::1]:{service.port}/guarded", trust_env=False)
        assert answer.status_code == 200


def test_the_token_is_in_no_text_of_the_address():
    assert TOKEN not in repr(Address(0, token=TOKEN))


def test_no_page_of_another_site_can_change_anything():
    with serving() as client:
        form = {"Content-Type": "text/plain"}
        assert client.post("/do", headers=form).status_code == 415
        other = {**JSON, "Origin": "http://evil.example"}
        assert client.post("/do", headers=other).status_code == 403
        own = {**JSON, "Origin": str(client.base_url).rstrip("/")}
        assert client.post("/do", headers=own).status_code == 200


def test_wrong_requests_are_told_what_is_right():
    with serving() as client:
        assert "GET /open" in client.get("/nosuch").text
        assert client.get("/do").status_code == 405
        assert client.get("/refused").status_code == 502
        assert client.get("/refused").text == "the broker is away\n"
        large = client.post("/do", headers=JSON, content=b"x" * (BODY_MAX + 1))
        assert large.status_code == 413


@contextmanager
def dribbling(port: int, clients: int) -> Iterator[list[socket.socket]]:
    """Clients that have sent a part of a request and never finish it."""
    found = [socket.create_connection(("127.0.0.1", port)) for _ in range(clients)]
    try:
        for each in found:
            each.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        yield found
    finally:
        for each in found:
            each.close()


def port_of(client: httpx.Client) -> int:
    port = client.base_url.port
    assert port is not None
    return port


def test_clients_that_dribble_keep_nobody_out():
    with serving() as client, dribbling(port_of(client), 2 * READING_MAX) as slow:
        for path in ("/health", "/open") * 10:
            assert client.get(path).status_code == 200
        wait_until(lambda: sum(map(is_shut, slow)) >= READING_MAX, "they lose their places", 30)


def is_shut(connection: socket.socket) -> bool:
    """Whether the service has closed it."""
    readable, _, _ = select.select([connection], [], [], 0)
    return bool(readable)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_request_has_one_deadline_however_its_bytes_come(
    is_encrypted: bool, chain: Chain, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connection_limits, "READ_S", 0.3)
    tls = read_tls(chain.server.chain, chain.server.key) if is_encrypted else None
    with (
        HttpService(Address(0, tls=tls), ROUTES) as service,
        socket.create_connection(("127.0.0.1", service.port)) as slow,
    ):
        began = time.monotonic()
        # Each byte comes long before the deadline; a handshake record says that 16 kB follow.
        bytes_to_come = itertools.chain(b"\x16\x03\x01\x40\x00", itertools.repeat(88))
        for byte in bytes_to_come if is_encrypted else itertools.repeat(88):
            with suppress(OSError):
                slow.sendall(bytes([byte]))
            if select.select([slow], [], [], 0.01)[0]:
                break
            assert time.monotonic() - began < 20, "it is still read"


def test_over_tls_it_answers_as_without(chain: Chain):
    tls = read_tls(chain.server.chain, chain.server.key)
    trust = ssl.create_default_context(cafile=str(chain.root))
    with HttpService(Address(0, tls=tls), ROUTES) as service:
        url = f"https://127.0.0.1:{service.port}"
        for path, status in (("/open", 200), ("/guarded", 200), ("/nosuch", 404)):
            assert httpx.get(f"{url}{path}", verify=trust, trust_env=False).status_code == status


def test_slow_answers_leave_places_for_others_and_probes():
    release, waiting = threading.Event(), threading.Semaphore(0)

    def slow(_: Request) -> Response:
        waiting.release()
        assert release.wait(60)
        return Response.of_text("done")

    routes = {**ROUTES, ("GET", "/slow"): Route(slow, is_open=True)}
    routes["GET", "/databases/Shop/ready"] = Route(answer, is_open=True)
    with (
        HttpService(Address(0), routes) as service,
        ThreadPoolExecutor(ANSWERING_OF_ADDRESS_MAX) as pool,
    ):
        url = f"http://127.0.0.1:{service.port}"
        get = partial(httpx.get, timeout=60, trust_env=False)
        asked = [pool.submit(get, f"{url}/slow") for _ in range(ANSWERING_OF_ADDRESS_MAX)]
        try:
            assert all(waiting.acquire(timeout=60) for _ in asked)
            refused = get(f"{url}/open")
            assert (refused.status_code, "try again" in refused.text) == (503, True)
            for path in ("/health", "/databases/Shop/ready"):
                assert get(f"{url}{path}").status_code == 200, path
        finally:
            release.set()
        assert [each.result().text for each in asked] == ["done\n"] * len(asked)
        assert get(f"{url}/open").status_code == 200


def test_other_addresses_keep_their_places():
    places, pairs = Places(), []

    def enter(address: str) -> socket.socket:
        ours, theirs = socket.socketpair()
        pairs.extend((ours, theirs))
        places.enter(Guest(ours, address))
        return theirs

    try:
        kept = enter("10.0.0.2")
        first = enter("10.0.0.1")
        for _ in range(READING_OF_ADDRESS_MAX):
            enter("10.0.0.1")
        assert (is_shut(first), is_shut(kept)) == (True, False)
        for number in range(READING_MAX - READING_OF_ADDRESS_MAX - 1):
            enter(f"10.0.1.{number}")
        assert not is_shut(kept)
        enter("10.0.0.3")
        assert is_shut(kept), "all places are taken, and it is read for longest"
    finally:
        for each in pairs:
            each.close()


def test_a_fault_of_a_route_is_logged_and_answered():
    def fails(_: Request) -> Response:
        raise KeyError("of the inside")

    with (
        capture_logs() as logs,
        HttpService(Address(0), {("GET", "/fails"): Route(fails)}) as service,
    ):
        found = httpx.get(f"http://127.0.0.1:{service.port}/fails", trust_env=False)
    assert (found.status_code, found.text) == (500, "KeyError: the log has the details\n")
    (entry,) = logs
    assert (entry["event"], entry["path"], entry["log_level"]) == (
        "http_route_failed",
        "/fails",
        "error",
    )


def test_a_token_is_read_from_the_first_line_of_its_file(tmp_path: Path):
    file = tmp_path / "token"
    assert read_token(None) is None
    with pytest.raises(ValueError, match="make it readable"):
        read_token(file)
    file.write_text("short\n")
    with pytest.raises(ValueError, match="16 characters"):
        read_token(file)
    file.write_text(f"{TOKEN}\nnot this\n")
    assert read_token(file) == TOKEN
