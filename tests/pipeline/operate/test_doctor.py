"""tailrace doctor, enable and grants beside a server, brokers and a registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tailrace_emulator.testing.process import free_port
from tailrace_schemas.records.transactional_ids import transactional_id
from tailrace_schemas.topics.topic_names import TableName
from tests.pipeline.commands import invoke
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running
from tests.pipeline.source.test_least_privilege import documented_statements

pytestmark = pytest.mark.kafka


def found(pipe: Pipe, folder: Path, **further: Any) -> list[dict[str, Any]]:
    """What the doctor finds wrong with parts; the test's own broker has one copy of everything."""
    answer = invoke(pipe, folder, "doctor", "--json", **further)
    assert answer.exit_code in {0, 1}, answer.output
    findings = [f for f in json.loads(answer.output)["findings"] if f["level"] != "ok"]
    assert (answer.exit_code == 1) == any(f["level"] == "problem" for f in findings)
    of_its_own = {"copies", "copies of new topics", "snapshot isolation", "pipeline"}
    return [f for f in findings if f["subject"] not in of_its_own]


def said(findings: list[dict[str, Any]], subject: str) -> dict[str, Any]:
    (finding,) = [f for f in findings if f["subject"] == subject]
    return finding


@pytest.fixture
def orders(pipe: Pipe) -> Pipe:
    pipe.source.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY, note nvarchar(20))")
    pipe.source.execute("EXEC sys.sp_cdc_enable_table N'dbo', N'orders', @role_name = N'gate'")
    pipe.source.scan()
    return pipe


def test_all_is_well_before_and_while_it_is_published(orders: Pipe, tmp_path: Path):
    before = found(orders, tmp_path)
    assert [f["subject"] for f in before] == [orders.options()["source"]["user"]]
    assert "is sysadmin" in before[0]["text"]

    with Running(orders.config()) as publisher:
        publisher.until(orders.is_caught_up, "it is published")
        assert found(orders, tmp_path) == before


def test_what_is_not_captured_is_named_with_the_statement_that_captures_it(
    orders: Pipe, tmp_path: Path
):
    orders.source.execute(
        "ALTER TABLE dbo.orders ADD later int",
        "CREATE TABLE dbo.[o]]dd 'name] (a int)",
        "CREATE TABLE dbo.heap (a int)",
    )
    orders.source.enable("heap")

    findings = found(orders, tmp_path)

    columns = said(findings, "dbo.orders")
    assert "columns later are not captured by dbo_orders" in columns["text"]
    keyless = said(findings, "dbo.heap")
    assert "no primary key or unique index that its change table holds" in keyless["text"]
    odd = said(findings, "dbo.o]dd 'name")
    assert odd["fix"]["text"].startswith(
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'o]dd ''name'"
    )

    orders.source.execute(columns["fix"]["text"], odd["fix"]["text"].partition(", or ")[0])
    orders.source.scan()
    after = found(orders, tmp_path)
    assert (
        "has two capture instances, dbo_orders and dbo_orders_r1"
        in (said(after, "dbo.orders")["text"])
    )
    assert "key" in said(after, "dbo.o]dd 'name")["text"]


def test_columns_in_another_collation_than_the_database_are_named(orders: Pipe, tmp_path: Path):
    orders.source.execute(
        "CREATE TABLE dbo.names (id int PRIMARY KEY, plain varchar(9),"
        " c varchar(9) COLLATE Chinese_PRC_CI_AS, t text COLLATE Greek_CI_AS,"
        " n nvarchar(9) COLLATE Chinese_PRC_CI_AS)"
    )
    orders.source.enable("names")

    finding = said(found(orders, tmp_path), "dbo.names")

    columns = "columns c (Chinese_PRC_CI_AS), t (Greek_CI_AS)"
    assert finding["text"] == f"{columns} are not in the database's collation"
    assert "nvarchar" in finding["fix"]["text"]
    with Running(orders.config()) as publisher:
        publisher.until(orders.is_caught_up, "it is published")
        (told,) = publisher.told("columns_in_other_collations")
    assert told["table"] == f"{orders.source.name}.dbo.names"
    assert told["columns"] == ["c Chinese_PRC_CI_AS", "t Greek_CI_AS"]


def test_a_short_retention_and_a_busy_capture_job_are_told(orders: Pipe, tmp_path: Path):
    orders.source.execute(
        "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 60",
        "EXEC sys.sp_cdc_change_job @job_type = N'capture', @maxtrans = 1, @maxscans = 1,"
        " @pollinginterval = 3600",
        *(f"INSERT dbo.orders (id) VALUES ({n})" for n in range(40)),
    )
    orders.source.scan()

    findings = found(orders, tmp_path)

    assert "@retention = 4320" in said(findings, "cleanup job")["fix"]["text"]
    busy = said(findings, "capture job")
    assert "0 a second at most" in busy["text"]
    orders.source.execute(busy["fix"]["text"].partition(";")[0])
    orders.source.execute(said(findings, "cleanup job")["fix"]["text"])
    assert {f["subject"] for f in found(orders, tmp_path)}.isdisjoint(
        {"capture job", "cleanup job"}
    )
    (short,) = (
        f
        for f in found(orders, tmp_path, cleanup={"wait_for": "topics"})
        if f["subject"] == "cleanup job"
    )
    assert short["fix"]["text"].endswith("@retention = 20160")


def test_topics_that_forget_are_told(orders: Pipe, tmp_path: Path):
    names = orders.topics.names
    data = names.data(TableName(orders.source.name, "dbo", "orders"))
    admin = AdminClient({"bootstrap.servers": orders.topics.bootstrap})
    wanted = [
        NewTopic(names.offsets, 1, 1, config={"cleanup.policy": "delete"}),
        NewTopic(names.progress, 1, 1, config={"retention.ms": "60000"}),
        NewTopic(data, 1, 1, config={"cleanup.policy": "compact"}),
    ]
    for made in admin.create_topics(wanted).values():
        made.result(10)

    findings = found(orders, tmp_path)

    assert (said(findings, names.offsets)["level"], said(findings, data)["level"]) == (
        "problem",
        "problem",
    )
    assert "retention.ms=60000" in said(findings, names.progress)["text"]
    assert "cleanup.policy=delete" in said(findings, data)["fix"]["text"]


def test_topics_that_grow_for_long_are_named_and_fixed(orders: Pipe, tmp_path: Path):
    names = orders.topics.names
    admin = AdminClient({"bootstrap.servers": orders.topics.bootstrap})
    wanted = NewTopic(names.offsets, 1, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([wanted])[names.offsets].result(10)
    told = said(found(orders, tmp_path), names.offsets)
    assert told["level"] == "warning"
    assert "segment.ms=604800000, segment.bytes=1073741824" in told["text"]
    assert "segment.ms=600000,segment.bytes=16777216" in told["fix"]["text"]

    assert invoke(orders, tmp_path, "doctor", "--fix", "--yes").exit_code == 0

    left = {finding["subject"] for finding in found(orders, tmp_path)}
    assert names.offsets not in left


def test_a_transactional_id_that_may_not_be_used_is_told(orders: Pipe, tmp_path: Path):
    name = transactional_id(orders.topics.prefix, orders.source.name)
    admin = AdminClient({"bootstrap.servers": orders.topics.bootstrap})

    def rule(principal: str, permission: AclPermissionType) -> AclBinding:
        kind, pattern = ResourceType.TRANSACTIONAL_ID, ResourcePatternType.LITERAL
        return AclBinding(kind, name, pattern, principal, "*", AclOperation.WRITE, permission)

    def seen(*rules: AclBinding) -> list[dict[str, Any]]:
        for future in admin.create_acls(list(rules)).values():
            future.result(10)
        kinds = [AclBindingFilter(*_parts(each)) for each in rules]
        try:
            return [f for f in found(orders, tmp_path) if f["subject"] == "transactional id"]
        finally:
            for future in admin.delete_acls(kinds).values():
                future.result(10)

    assert not [f for f in found(orders, tmp_path) if f["subject"] == "transactional id"]
    assert seen(rule("User:ANONYMOUS", AclPermissionType.ALLOW)) == []
    (denied,) = seen(rule("User:*", AclPermissionType.DENY))
    assert (denied["level"], name in denied["text"]) == ("problem", True)
    (others,) = seen(rule("User:somebody", AclPermissionType.ALLOW))
    assert "User:ANONYMOUS" in others["text"]
    assert f"--transactional-id {name}" in others["fix"]["text"]


def test_the_group_of_a_fleet_is_judged_too(orders: Pipe, tmp_path: Path):
    group, fleet = f"tailrace-{orders.topics.prefix}", {"join": True}
    admin = AdminClient({"bootstrap.servers": orders.topics.bootstrap})
    pattern, denies = ResourcePatternType.LITERAL, AclPermissionType.DENY
    rule = AclBinding(ResourceType.GROUP, group, pattern, "User:*", "*", AclOperation.READ, denies)
    admin.create_acls([rule])[rule].result(10)
    try:
        findings = found(orders, tmp_path, fleet=fleet)
    finally:
        of_rule = AclBindingFilter(*_parts(rule))
        admin.delete_acls([of_rule])[of_rule].result(10)
    told = said(findings, "consumer group")
    assert (told["level"], told["why"]) == ("problem", "the publisher is given no databases")
    assert f"{group}: Read is denied" in told["text"]
    assert "consumer group" not in {f["subject"] for f in found(orders, tmp_path, fleet=fleet)}


def test_a_prefix_that_is_divided_into_shards_is_told(orders: Pipe, tmp_path: Path):
    admin = AdminClient({"bootstrap.servers": orders.topics.bootstrap})
    topic = orders.topics.names.offsets
    made = NewTopic(topic, 2, 1, config={"cleanup.policy": "compact"})
    admin.create_topics([made])[topic].result(10)
    told = said(found(orders, tmp_path), "shards")
    assert told["level"] == "problem"
    assert f"{topic} has 2 partitions" in told["text"]


def _parts(rule: AclBinding) -> tuple[Any, ...]:
    return (
        *(rule.restype, rule.name, rule.resource_pattern_type, rule.principal),
        *(rule.host, rule.operation, rule.permission_type),
    )


def test_parts_that_do_not_answer_are_named_and_do_not_keep_the_others(
    orders: Pipe, tmp_path: Path
):
    options = orders.options()
    gone = {
        "source": {**options["source"], "port": 1},
        "kafka": {"bootstrap": "127.0.0.1:1", "start_timeout_s": 1},
        "registry": {"url": "http://127.0.0.1:1"},
    }
    answer = invoke(orders, tmp_path, "doctor", **gone)
    assert answer.exit_code == 1
    for text in ("127.0.0.1:1: ", "brokers: none answers", "http://127.0.0.1:1: schema registry"):
        assert text in answer.output
    assert str(options["source"]["password"]) not in answer.output

    wrong = {"source": {**options["source"], "password": "not it"}}
    assert "Login failed" in invoke(orders, tmp_path, "doctor", **wrong).output


def test_values_that_may_be_larger_than_their_topic_takes_are_named(pipe: Pipe, tmp_path: Path):
    def allow(most: int) -> None:
        """Of the whole server, which other tests use as well."""
        pipe.source.execute(f"EXEC sp_configure 'max text repl size', {most}", "RECONFIGURE")

    pipe.source.execute("CREATE TABLE dbo.docs (id int PRIMARY KEY, page nvarchar(max), note xml)")
    pipe.source.enable("docs")
    limit = {"bootstrap": pipe.topics.bootstrap, "topic_settings": {"max.message.bytes": "1048588"}}
    with Running(pipe.config(kafka=limit)) as publisher:
        publisher.until(pipe.is_caught_up, "its topic is made")
    topic = pipe.topics.names.data(TableName(pipe.source.name, "dbo", "docs"))
    allow(65_536)
    assert topic not in {finding["subject"] for finding in found(pipe, tmp_path)}

    allow(-1)
    told = said(found(pipe, tmp_path), topic)
    assert "a value of note, page may have 2 GB" in told["text"]
    assert "max.message.bytes=16777216" in told["fix"]["text"]


@pytest.mark.slow("commands are run while a publisher does not answer")
def test_what_runs_is_judged_by_the_doctor_and_by_status(orders: Pipe, tmp_path: Path):
    options = {"metrics_port": free_port()}

    def told() -> tuple[list[str], int, str]:
        orders.source.scan()
        findings = json.loads(invoke(orders, tmp_path, "doctor", "--json", **options).output)[
            "findings"
        ]
        checked = invoke(orders, tmp_path, "status", "--check", **options)
        running = [f"{f['level']}: {f['text']}" for f in findings if f["part"] == "running"]
        return running, checked.exit_code, checked.output

    (before,), code, _ = told()
    assert (before, code) == ("warning: nothing was published yet", 2)

    with Running(orders.config(**options)) as publisher:
        publisher.until(orders.is_caught_up, "it is published")
        assert told() == (
            ["ok: what is configured runs, and every lag is in its bound"],
            0,
            "All is well: 1 table.\n",
        )
        stopped = invoke(orders, tmp_path, "stop-table", "dbo.orders", **options)
        assert stopped.exit_code == 0, stopped.output
    running, code, output = told()
    assert "problem: 1 of 1 tables cannot continue: dbo.orders" in running
    assert any(text.startswith("problem: publisher did not answer") for text in running)
    assert code == 2
    assert "1 of 1 tables cannot continue: dbo.orders.\n" in output
    for command in ("status", "lag", "audit"):
        answer = invoke(orders, tmp_path, command)
        assert answer.exit_code == 0, answer.output
        assert "The publisher stopped dbo.orders: " in answer.output, command
    for command in ("lag", "audit"):
        answer = json.loads(invoke(orders, tmp_path, command, "--json").stdout)
        assert answer["not_in_cut"]["dbo.orders"]["state"] == "stopped", command


def test_a_database_without_cdc_is_named_and_enabled_with_its_tables(pipe: Pipe, tmp_path: Path):
    pipe.source.execute("EXEC sys.sp_cdc_disable_db", "CREATE TABLE dbo.[my orders] (id int)")
    assert said(found(pipe, tmp_path), "change data capture")["level"] == "problem"

    shown = invoke(pipe, tmp_path, "enable", "dbo.[my orders]", "--column", "ID")
    assert "Nothing was run" in shown.output
    assert said(found(pipe, tmp_path), "change data capture")["level"] == "problem"

    done = invoke(pipe, tmp_path, "enable", "dbo.[my orders]", "--column", "ID", "--run")
    assert (done.exit_code, "2 statements were run" in done.output) == (0, True), done.output
    pipe.source.scan()
    assert {f["subject"] for f in found(pipe, tmp_path)} == {
        "dbo.my orders",  # it has no key
        pipe.options()["source"]["user"],
    }


def test_what_cannot_be_enabled_is_told_in_one_sentence(orders: Pipe, tmp_path: Path):
    for names, words in (
        (["orders"], "write schema.table"),
        (["dbo.ordrs"], "did you mean dbo.orders?"),
        (["dbo.orders", "--column", "nosuch"], "its columns are id, note"),
        (["dbo.orders", "dbo.x", "--column", "id"], "name one table"),
    ):
        answer = invoke(orders, tmp_path, "enable", *names)
        assert (answer.exit_code, words in answer.output) == (1, True), answer.output
    assert "is captured already" in invoke(orders, tmp_path, "enable", "dbo.orders").output


def test_the_grants_are_the_documented_ones_and_enough(orders: Pipe, tmp_path: Path):
    documented = documented_statements(orders)
    login = [s for key, s in documented.items() if key.startswith("CREATE")]
    orders.source.execute(*(s for s in documented.values() if s.startswith("USE") or s in login))
    user = f"tailrace_{orders.source.name}"
    as_it = {**orders.options()["source"], "user": user, "password": "Least-privilege-1"}
    assert any(f["level"] == "problem" for f in found(orders, tmp_path, source=as_it))

    done = invoke(orders, tmp_path, "grants", "--user", user, "--run")

    assert (done.exit_code, "8 statements were run" in done.output) == (0, True), done.output
    given = {s for s in documented.values() if s.startswith(("GRANT", "ALTER"))}
    shown = {line.partition(";")[0] for line in done.output.splitlines() if ";  --" in line}
    shown -= {line for line in shown if "cdc_jobs" in line or "SECURITY STATE" in line}
    assert {text.replace("[", "").replace("]", "") for text in shown} == {
        text.replace("[", "").replace("]", "") for text in given
    }
    after = found(orders, tmp_path, source=as_it)
    assert not any(f["level"] == "problem" for f in after)


def test_a_login_that_has_nothing_is_set_up_by_another_one(pipe: Pipe, tmp_path: Path):
    """From a database without CDC to a publisher, with the commands of the guide."""
    pipe.source.execute(
        "EXEC sys.sp_cdc_disable_db", "CREATE TABLE dbo.orders (id int PRIMARY KEY)"
    )
    pipe.source.execute("INSERT dbo.orders VALUES (1)")
    owner = pipe.options()["source"]
    secret = tmp_path / "owner"
    secret.write_text(str(owner["password"]))
    as_owner = ["--login", str(owner["user"]), "--password-file", str(secret), "--run"]
    user = f"newcomer_{pipe.source.name}"
    source = {**owner, "user": user, "password": "Least-privilege-1"}

    for command, *words in (["enable", "dbo.orders"], ["grants"]):
        alone = invoke(pipe, tmp_path, command, *words, source=source)
        assert (alone.exit_code, "Not compared with the database" in alone.output) == (0, True)
        refused = invoke(pipe, tmp_path, command, *words, "--run", source=source)
        assert (refused.exit_code, "add --login" in refused.output) == (1, True), refused.output
        if command == "grants":
            continue
        early = invoke(pipe, tmp_path, "grants", *as_owner, source=source)
        assert (early.exit_code, "run tailrace enable first" in early.output) == (1, True)
        done = invoke(pipe, tmp_path, command, *words, *as_owner, source=source)
        assert (done.exit_code, "2 statements were run" in done.output) == (0, True), done.output
    done = invoke(pipe, tmp_path, "grants", *as_owner, source=source)
    assert (done.exit_code, "9 statements were run" in done.output) == (0, True), done.output
    assert "WITH PASSWORD = N'<password>'" in done.output
    assert "Least-privilege-1" not in done.output

    pipe.source.scan()
    assert not [f for f in found(pipe, tmp_path, source=source) if f["level"] == "problem"]
    with Running(pipe.config(source=source)) as publisher:
        publisher.until(pipe.is_caught_up, "it is published")
    pipe.assert_exactly_once("orders")
