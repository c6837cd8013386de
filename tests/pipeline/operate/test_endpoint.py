"""The publisher's HTTP endpoint beside a server, brokers and a registry."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tailrace_compose.images import health
from tailrace_publisher.errors import ConfigError
from tailrace_service.status import DaemonStatus, TableStatus
from tests.pipeline.conftest import Pipe
from tests.pipeline.running import Running, wait_until

pytestmark = pytest.mark.kafka

TOKEN = "the-token-of-this-test"


def url_of(publisher: Running) -> str:
    publisher.until(lambda: bool(publisher.told("http_served")), "it listens")
    return str(publisher.told("http_served")[0]["url"])


def test_the_status_follows_a_table_from_its_snapshot_to_its_stop(pipe: Pipe):
    pipe.source.execute(
        "CREATE TABLE dbo.orders (id int PRIMARY KEY, note nvarchar(20))",
        "INSERT dbo.orders VALUES (1, N'a'), (2, N'b'), (3, N'c')",
    )
    pipe.source.enable("orders")
    with Running(pipe.config(metrics_port=0)) as publisher:
        url = url_of(publisher)
        with httpx.Client(base_url=url, trust_env=False) as client:

            def status() -> DaemonStatus:
                return DaemonStatus.from_json(client.get("/status").json())

            def orders() -> TableStatus:
                (table,) = status().tables
                return table

            assert client.get("/health").text == "ok\n"
            publisher.until(lambda: client.get("/ready").status_code == 200, "it is ready")
            publisher.until(pipe.is_caught_up, "the snapshot is out")
            assert orders().snapshot_estimate == 3
            publisher.until(lambda: orders().state == "followed", "it is told")
            assert (orders().table, orders().snapshot_rows, orders().rows) == ("dbo.orders", 3, 3)
            assert orders().lsn == status().closed_lsn == str(pipe.topics.through())
            assert (status().state, status().database) == ("running", pipe.source.name)
            assert "tailrace_up 1.0" in client.get("/metrics").text
            told = client.get("/status", headers={"Accept": "text/plain"}).text
            assert "dbo.orders: followed" in told

            refused = client.post("/snapshot", json={"tables": ["dbo.nosuch"]})
            assert (refused.status_code, "dbo.nosuch" in refused.text) == (404, True)
            assert client.post("/snapshot", json={"tables": "dbo.orders"}).status_code == 400
            asked = client.post("/snapshot", json={"tables": ["DBO.orders"]})
            assert (asked.status_code, asked.json()["asked"]) == (202, ["dbo.orders"])
            publisher.until(lambda: orders().rows == 6, "it is read anew")

            pipe.source.execute("EXEC sys.sp_cdc_disable_table N'dbo', N'orders', N'all'")
            publisher.until(lambda: orders().state != "followed", "it is stopped")
            assert "capture" in str(orders().reason)
            assert status().errors[0].table == f"{pipe.source.name}.dbo.orders"


def test_while_a_part_is_away_it_is_alive_and_not_ready(pipe: Pipe):
    pipe.source.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY)")
    pipe.source.enable("orders")
    gone = {"bootstrap": "127.0.0.1:1", "start_timeout_s": 1}
    with Running(pipe.config(metrics_port=0, kafka=gone)) as publisher:
        url = url_of(publisher)
        publisher.until(lambda: bool(publisher.told("retrying")), "it waits")
        assert httpx.get(f"{url}/health", trust_env=False).status_code == 200
        with pytest.raises(health.Unhealthy, match="503 not publishing, retrying"):
            health.check_publisher({"TAILRACE__PUBLISHER__METRICS_PORT": url.rpartition(":")[2]})
        status = DaemonStatus.from_json(httpx.get(f"{url}/status", trust_env=False).json())
        assert (status.state, status.errors[0].error) == ("retrying", "KafkaUnavailable")


def test_where_it_cannot_listen_is_named(pipe: Pipe, tmp_path: Path):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    pipe.source.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY)")
    pipe.source.enable("orders")
    with Running(pipe.config(metrics_port=0, http_token_file=str(token))) as publisher:
        url = url_of(publisher)
        assert httpx.get(f"{url}/status", trust_env=False).status_code == 401
        taken = int(url.rpartition(":")[2])
        with Running(pipe.config(metrics_port=taken)) as second:
            error = second.ended()
        assert isinstance(error, ConfigError)
        assert f"metrics_port {taken}" in str(error)
        wait_until(lambda: httpx.get(f"{url}/health", trust_env=False).is_success, "it goes on")
