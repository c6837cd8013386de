"""Who may ask the HTTP service of a daemon for what, over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest

from tailrace_schemas.http_access import Address, read_token
from tailrace_schemas.http_messages import Refused, Request, Response, Route
from tailrace_schemas.http_service import AT_ONCE_MAX, BODY_MAX, SILENT_S, HttpService
from tests.pipeline.running import wait_until

TOKEN = "a-token-of-some-length"
JSON = {"Content-Type": "application/json"}


def answer(request: Request) -> Response:
    if request.path == "/refused":
        raise Refused(HTTPStatus.BAD_GATEWAY, "the broker is away")
    return Response.of_json({"query": dict(request.query), "body": request.body.decode()})


ROUTES = {
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


def test_silent_clients_do_not_keep_the_others_out():
    with serving() as client:
        port = client.base_url.port
        assert port is not None
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(AT_ONCE_MAX - 1)]

        def is_shut_at_once() -> bool:
            # The place of the client above is free once its thread has ended: until then, one
            # that would take the last place is shut itself.
            silent.append(socket.create_connection(("127.0.0.1", port)))
            try:
                httpx.get(f"http://127.0.0.1:{port}/open", trust_env=False)
            except httpx.TransportError:
                return True
            return False

        try:
            assert client.get("/open").status_code == 200
            wait_until(is_shut_at_once, "all places are taken", SILENT_S / 2)
        finally:
            for each in silent:
                each.close()


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
