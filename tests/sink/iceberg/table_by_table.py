"""What catalogs do that map a commit of several tables to commits of single tables."""

from __future__ import annotations

import http.client
import json
import threading
from urllib.parse import urlsplit

from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.objects.proxy import Answer, Pass, Request

COMMIT = "/transactions/commit"
DONE = Answer(204, {}, b"")
_JSON = {"Content-Type": "application/json"}
_LIMIT_S = 120.0


def commit_each(
    server: CatalogServer, request: Request, *, backwards: bool = False, to_the_end: bool = False
) -> Answer:
    """Commit one table after the other.

    Args:
        backwards: the last table first.
        to_the_end: a table that has moved is left out, and the answer is that all is done.
    """
    changes = json.loads(request.body)["table-changes"]
    for change in reversed(changes) if backwards else changes:
        name = change["identifier"]
        space = "%1F".join(name["namespace"])
        begin = request.path.removesuffix(COMMIT)
        line = http.client.HTTPConnection(urlsplit(server.direct).netloc, timeout=60)
        path = f"{begin}/namespaces/{space}/tables/{name['name']}"
        headers = {n: t for n, t in request.headers.items() if n.lower() != "content-length"}
        line.request("POST", path, json.dumps(change).encode(), headers)
        found = line.getresponse()
        body = found.read()
        line.close()
        if found.status != 200 and not to_the_end:
            return Answer(found.status, _JSON, body)
    return DONE


class ChecksFirst:
    """Checks all requirements, then commits table after table; others commit in between."""

    def __init__(self, server: CatalogServer) -> None:
        self._server = server
        self._rival_is_done = threading.Event()
        self._commits = 0

    def __call__(self, request: Request, pass_on: Pass) -> Answer:
        if request.path.endswith(COMMIT):
            self._commits += 1
            if self._commits <= 3:  # nobody else commits at the same time, so the check is enough
                return pass_on()
            assert self._rival_is_done.wait(_LIMIT_S), "nobody else committed"
            return commit_each(self._server, request, to_the_end=True)
        answer = pass_on()
        if self._commits >= 3 and request.method == "POST" and "/tables/" in request.path:
            self._rival_is_done.set()
        return answer
