"""A start proves that the catalog commits all tables or none."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest

from tailrace_sink.errors import CatalogUnavailable, CatalogUnsafe, CatalogUnusable
from tailrace_sink.iceberg.catalog import IcebergCatalog
from tailrace_sink.iceberg.names import TableId
from tailrace_sink.iceberg.new_table import NewTable, create_table
from tailrace_sink.iceberg.proof import prove_catalog
from tailrace_sink.iceberg.session import set_catalog
from tailrace_sink.iceberg.stamp import Stamp
from tailrace_sink.options.iceberg_options import Commits, IcebergOptions
from tests.sink.iceberg.conftest import CatalogServer
from tests.sink.iceberg.table_by_table import COMMIT, ChecksFirst, commit_each
from tests.sink.objects.proxy import Answer, Pass, Request, Rule

pytestmark = pytest.mark.spark

SPACE = ("shop_proof",)
NOT_THERE = Answer(
    404,
    {"Content-Type": "application/json"},
    json.dumps({"error": {"message": "no route", "type": "NotFound", "code": 404}}).encode(),
)
BROKEN = Answer(500, NOT_THERE.headers, b'{"error":{"message":"x","code":500}}')
NO_PURGE = Answer(
    403,
    {"Content-Type": "application/json"},
    json.dumps(
        {
            "error": {
                "message": "Unable to purge entity: set DROP_WITH_PURGE_ENABLED",
                "type": "ForbiddenException",
                "code": 403,
            }
        }
    ).encode(),
)
"""What Polaris answers by default."""


@pytest.fixture
def catalog(server: CatalogServer) -> IcebergCatalog:
    return IcebergCatalog(server.spark, "tailrace")


def tables_of(catalog: IcebergCatalog) -> list[str]:
    space = catalog.identifier(TableId(SPACE, "x")).namespace()
    return [str(name) for name in catalog.java.listTables(space)]


def one_after_the_other(server: CatalogServer, *, backwards: bool) -> Rule:
    def rule(request: Request, pass_on: Pass) -> Answer:
        if request.path.endswith(COMMIT):
            return commit_each(server, request, backwards=backwards)
        return pass_on()

    return rule


def test_a_catalog_that_does_all_or_nothing_is_proven(catalog: IcebergCatalog):
    prove_catalog(catalog, SPACE)

    assert tables_of(catalog) == []


@pytest.mark.parametrize("backwards", [False, True])
def test_a_catalog_that_moves_one_table_is_refused(
    server: CatalogServer, catalog: IcebergCatalog, backwards: bool
):
    server.proxy.rule = one_after_the_other(server, backwards=backwards)

    with pytest.raises(CatalogUnsafe) as refused:
        prove_catalog(catalog, SPACE)

    assert re.search(
        r"catalog tailrace: of a commit of two tables, one of which had changed, it committed"
        rf" shop_proof\.tailrace_proof_\w+_{'ba'[not backwards]}.*commits: each_table",
        str(refused.value),
    )
    prove_catalog(catalog, SPACE, Commits.EACH_TABLE)  # the way out that the message names
    assert tables_of(catalog) == []


def test_a_catalog_that_checks_first_and_then_commits_table_after_table_is_refused(
    server: CatalogServer, catalog: IcebergCatalog
):
    server.proxy.rule = ChecksFirst(server)

    with pytest.raises(
        CatalogUnsafe,
        match=r"while another client committed to one of them, it committed"
        r" shop_proof\.tailrace_proof_\w+_b and answered that all was done",
    ):
        prove_catalog(catalog, SPACE)

    assert tables_of(catalog) == []


def test_scratch_tables_are_dropped_where_their_files_must_stay(
    server: CatalogServer, catalog: IcebergCatalog
):
    def no_purge(request: Request, pass_on: Pass) -> Answer:
        return NO_PURGE if "purgeRequested=true" in request.path else pass_on()

    server.proxy.rule = no_purge
    prove_catalog(catalog, SPACE)

    assert tables_of(catalog) == []


def test_a_catalog_without_such_commits_is_refused(server: CatalogServer, catalog: IcebergCatalog):
    def unknown(request: Request, pass_on: Pass) -> Answer:
        return NOT_THERE if request.path.endswith(COMMIT) else pass_on()

    server.proxy.rule = unknown
    with pytest.raises(CatalogUnsafe, match=r"it refused a commit of two tables .*no route"):
        prove_catalog(catalog, SPACE)


def test_a_catalog_that_says_yes_and_does_nothing_is_refused(
    server: CatalogServer, catalog: IcebergCatalog
):
    def lies(request: Request, pass_on: Pass) -> Answer:
        if request.path.endswith(COMMIT):
            return Answer(204, {}, b"")
        return pass_on()

    server.proxy.rule = lies
    with pytest.raises(CatalogUnsafe, match="neither of them moved"):
        prove_catalog(catalog, SPACE)


def test_a_catalog_that_does_not_answer_is_no_unsafe_one(
    server: CatalogServer, catalog: IcebergCatalog
):
    def silent(request: Request, pass_on: Pass) -> Answer | None:
        return None if request.path.endswith(COMMIT) else pass_on()

    server.proxy.rule = silent
    with pytest.raises(CatalogUnavailable, match="no answer to a commit of two tables"):
        prove_catalog(catalog, SPACE)


def test_a_catalog_of_files_has_no_such_commits(server: CatalogServer, tmp_path: Path):
    options = IcebergOptions.load({"warehouse": str(tmp_path), "name": "proof_files"})
    set_catalog(server.spark, options)

    with pytest.raises(CatalogUnsafe, match="only REST catalogs"):
        prove_catalog(IcebergCatalog(server.spark, "proof_files"), SPACE)


def test_a_wrong_credential_is_told_from_a_wrong_address(server: CatalogServer):
    wrong = server.options | {"credential": "tailrace:wrong", "name": "proof_wrong"}
    set_catalog(server.spark, IcebergOptions.load(wrong))
    with pytest.raises(CatalogUnusable, match="check the credential") as refused:
        IcebergCatalog(server.spark, "proof_wrong").load(TableId(SPACE, "x"))
    assert not refused.value.retryable

    nobody = server.options | {"uri": "http://127.0.0.1:9", "name": "proof_nobody"}
    set_catalog(server.spark, IcebergOptions.load(nobody))
    with pytest.raises(CatalogUnavailable, match="check the address"):
        IcebergCatalog(server.spark, "proof_nobody").load(TableId(SPACE, "x"))


def test_a_namespace_that_another_sink_is_creating_is_asked_for_again(
    server: CatalogServer, catalog: IcebergCatalog
):
    space, asked = f"shop_{uuid.uuid4().hex[:8]}", list[str]()

    def rule(request: Request, pass_on: Pass) -> Answer:
        if request.method != "POST" or not request.path.endswith("/namespaces"):
            return pass_on()
        asked.append(request.path)
        return pass_on() if len(asked) > fails else BROKEN

    server.proxy.rule, fails = rule, 2
    table = TableId((space,), "t")
    assert create_table(catalog, table, NewTable("id BIGINT"), Stamp("log", 1))
    assert len(asked) == fails + 1
    catalog.drop(table)
    fails = 1_000
    with pytest.raises(CatalogUnavailable, match=f"creating namespace {space}2"):
        catalog.ensure_namespace(TableId((f"{space}2",), "t"))
