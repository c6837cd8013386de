"""The pipeline as containers on the machine's network, with a proxy before source and broker.

Host networking, because it is what every Linux engine has, the barest included; all ports are free
ones on 127.0.0.1. Official images and stand-ins take the same variables.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyodbc
import yaml
from testcontainers.core.container import DockerContainer

from tailrace.reading.committed import read_all
from tailrace.reading.lake import CommitRow, CommitRows
from tailrace.reading.topics import existing_data_topics
from tailrace.testing import SqlServerCdcContainer, engine
from tailrace.testing.progress import Ledger, Reached
from tailrace_compose.images import health
from tailrace_compose.local.java import SPARK_QUICK_START
from tailrace_emulator.testing.process import free_port
from tailrace_schemas.topics.topic_names import TopicNames
from tailrace_service.registry.client import SchemaRegistry
from tests.containers.conftest import Images
from tests.pipeline.proxy import Proxy

START_LIMIT_S = 180.0
CAUGHT_UP_LIMIT_S = 180.0
PREFIX = "containers"
PARTS = ("source", "kafka", "registry", "publisher", "sink")
HARDENED: dict[str, Any] = {
    "network_mode": "host",
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "tmpfs": {"/tmp": "exec,mode=1777"},  # noqa: S108 - the container's own
}


class Part(DockerContainer):
    """A container of the pipeline that can be killed and started again.

    Attributes:
        check: raises Unhealthy while it does not work.
    """

    def __init__(self, image: str, check: Callable[[], None], **options: Any) -> None:
        super().__init__(image)
        tmpfs = options.pop("tmpfs", {})
        self.tmpfs.update(tmpfs)
        self.with_kwargs(**options)
        self.check = check

    def start(self):
        engine.start(self)
        self.wait()
        return self

    def wait(self) -> None:  # type: ignore[override]
        engine.wait_until(self, self.works, START_LIMIT_S, "ready")

    def works(self) -> bool:
        try:
            self.check()
        except health.Unhealthy:
            return False
        return True

    def kill(self) -> None:
        self.get_wrapped_container().kill()

    def restart(self) -> None:
        self.get_wrapped_container().start()
        self.wait()


class ContainerStack:
    """Every part of the pipeline as a container of its own, over one database."""

    database = "Bank"

    def __init__(self, images: Images, folder: Path) -> None:
        self.folder = folder
        self.names = TopicNames(PREFIX)
        self._cleanup = ExitStack()
        (folder / "lake").mkdir()
        # The sink's user inside is not ours outside.
        (folder / "lake").chmod(0o777)
        self._ports = {name: free_port() for name in ("kafka", "inside", "controller", "registry")}
        self._ports |= {name: free_port() for name in ("publisher", "sink")}
        self.source = SqlServerCdcContainer(images["source"], port=free_port())
        self.kafka_proxy = Proxy("127.0.0.1", self._ports["inside"])
        self.bootstrap = f"127.0.0.1:{self._ports['kafka']}"
        self.registry_url = f"http://127.0.0.1:{self._ports['registry']}/apis/ccompat/v7"
        self.kafka = self._kafka(images["kafka"])
        self.registry = self._registry(images["registry"])
        self._images = images
        self.ledger: Ledger | None = None

    def start(self, provision: Callable[[ContainerStack], None]) -> None:
        """Source, broker and registry; then what the test puts in; then publisher and sink."""
        for part in (self.source, self.kafka, self.registry):
            self._cleanup.callback(part.stop)
            part.start()
        self.source_proxy = Proxy("127.0.0.1", self.source.port)
        for proxy in (self.source_proxy, self.kafka_proxy):
            self._cleanup.callback(proxy.close)
            proxy.open()
        provision(self)
        self._write_config()
        self.publisher = self._ours("publisher")
        self.sink = self._ours("sink", volumes={str(self.folder / "lake"): "/lake"}, init=True)
        for part in (self.publisher, self.sink):
            self._cleanup.callback(part.stop)
            part.start()
        self.ledger = Ledger(self.bootstrap, self.names)
        self._cleanup.callback(self.ledger.close)

    def stop(self) -> None:
        self._cleanup.close()

    def part(self, name: str) -> Any:
        return getattr(self, name)

    def connect(self, *, autocommit: bool = True) -> pyodbc.Connection:
        return self.source.connect(self.database, autocommit=autocommit, timeout_s=5)

    def caught_up(self) -> Reached:
        """Waits until everything committed is captured, published and in the lake."""
        self.source.capture(self.database)
        with closing(self.connect()) as connection:
            raw = connection.execute(
                "SELECT MAX(start_lsn) FROM cdc.lsn_time_mapping WHERE tran_id <> 0x00"
            ).fetchval()
        from tailrace_schemas.position.lsn import Lsn

        target = str(Lsn.from_bytes(raw))
        assert self.ledger is not None
        deadline = time.monotonic() + CAUGHT_UP_LIMIT_S
        reached: Reached | None = None

        def is_there() -> bool:
            nonlocal reached
            assert self.ledger is not None
            reached = self.ledger.reached(target)
            row = self.last_cut()
            return (
                reached is not None
                and row is not None
                and row.batch >= reached.batch
                and len(row.tables) == len(reached.topics)
            )

        engine.wait_until(self.publisher, is_there, deadline - time.monotonic(), "caught up")
        assert reached is not None
        return reached

    def cuts(self) -> list[CommitRow]:
        return CommitRows(str(self.folder / "lake" / "_tailrace" / "commits")).read()

    def last_cut(self) -> CommitRow | None:
        try:
            cuts = self.cuts()
        except OSError:
            return None  # its folder is there and its first version is not
        return cuts[-1] if cuts else None

    def lake_rows(self, table: str, cut: CommitRow) -> dict[int, dict[str, Any]]:
        """A lake table at a cut, by key."""
        from deltalake import DeltaTable

        path = f"{self.database}/dbo/{table}"
        found = DeltaTable(str(self.folder / "lake" / path), version=cut.tables[path])
        return {row["id"]: row for row in found.to_pyarrow_table().to_pylist()}

    def positions(self, table: str) -> list[Any]:
        """The position of every streamed event of a table."""
        topics = existing_data_topics(self.bootstrap, self.names)
        wanted = {topic: count for topic, count in topics.items() if topic.endswith(f".{table}")}
        with SchemaRegistry(self.registry_url) as registry:
            return [
                event.position
                for event in read_all(self.bootstrap, registry, wanted)
                if event.envelope is not None and event.envelope["op"] != "r"
            ]

    def source_rows(self, table: str) -> dict[int, tuple[Any, ...]]:
        with closing(self.connect()) as connection:
            rows = connection.execute(f"SELECT id, amount FROM dbo.{table}").fetchall()
        return {int(key): (Decimal(amount),) for key, amount in rows}

    def _kafka(self, image: str) -> Part:
        ports = self._ports
        listeners = {"DIRECT": ports["kafka"], "PROXIED": ports["inside"]}
        bound = [f"{name}://127.0.0.1:{port}" for name, port in listeners.items()]
        told = listeners | {"PROXIED": self.kafka_proxy.port}
        settings = {
            "PROCESS_ROLES": "broker,controller",
            "NODE_ID": "1",
            "CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{ports['controller']}",
            "LISTENERS": ",".join([*bound, f"CONTROLLER://127.0.0.1:{ports['controller']}"]),
            "ADVERTISED_LISTENERS": ",".join(f"{n}://127.0.0.1:{p}" for n, p in told.items()),
            "LISTENER_SECURITY_PROTOCOL_MAP": ",".join(
                f"{name}:PLAINTEXT" for name in (*listeners, "CONTROLLER")
            ),
            "CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "INTER_BROKER_LISTENER_NAME": "DIRECT",
            "OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
            "OFFSETS_TOPIC_NUM_PARTITIONS": "1",
            "TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "TRANSACTION_STATE_LOG_NUM_PARTITIONS": "1",
            "GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "AUTO_CREATE_TOPICS_ENABLE": "false",
            "BROKER_SESSION_TIMEOUT_MS": "3000",
            "BROKER_HEARTBEAT_INTERVAL_MS": "500",
            "LOG_DIRS": "/var/lib/kafka/data",
            "HEAP_OPTS": "-Xmx512m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        }
        environ = {f"KAFKA_{name}": value for name, value in settings.items()}
        part = Part(image, lambda: health.check_kafka(environ), network_mode="host")
        return part.with_envs(**environ)

    def _registry(self, image: str) -> Part:
        environ = {
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(self._ports["registry"]),
            "APICURIO_STORAGE_KIND": "sql",
            "APICURIO_STORAGE_SQL_KIND": "h2",
            "APICURIO_DATASOURCE_URL": "jdbc:h2:file:/var/lib/registry/registry;WRITE_DELAY=0",
        }
        # As in compose.yaml: a fresh volume belongs to root.
        check = lambda: health.check_registry(environ)  # noqa: E731
        return Part(image, check, network_mode="host", user="0").with_envs(**environ)

    def _ours(self, name: str, volumes: dict[str, str] | None = None, **options: Any) -> Part:
        prefix = f"TAILRACE__{name.upper()}__METRICS"
        environ = {f"{prefix}_HOST": "127.0.0.1", f"{prefix}_PORT": str(self._ports[name])}
        check = {"publisher": health.check_publisher, "sink": health.check_sink}[name]
        part = Part(self._images[name], lambda: check(environ), **HARDENED, **options)
        part.with_volume_mapping(str(self.folder / "config"), "/etc/tailrace", "ro")
        for outside, inside in (volumes or {}).items():
            part.with_volume_mapping(outside, inside, "rw")
        return part.with_envs(**environ)

    def _write_config(self) -> None:
        folder = self.folder / "config"
        folder.mkdir()
        (folder / "password").write_text(self.login_password)
        options = {
            "prefix": PREFIX,
            "registry": {"url": self.registry_url},
            "publisher": {
                "source": {
                    "host": "127.0.0.1",
                    "port": self.source_proxy.port,
                    "database": self.database,
                    "user": self.login,
                    "password_file": "/etc/tailrace/password",
                    "trust_server_certificate": True,
                    "login_timeout_s": 5,
                },
                "kafka": {"bootstrap": f"127.0.0.1:{self.kafka_proxy.port}"},
                "poll_interval_ms": 50,
                "heartbeat_s": 1,
                "retry_backoff_max_s": 1,
            },
            "sink": {
                "kafka": {"bootstrap": self.bootstrap},
                "lake": "/lake",
                "retry_backoff_max_s": 1,
                # Tables that are read here without Spark.
                "profile": "compatible",
                "spark": {
                    "spark.driver.memory": "1g",
                    "spark.driver.extraJavaOptions": SPARK_QUICK_START,
                },
            },
        }
        (folder / "tailrace.yaml").write_text(yaml.safe_dump(options))

    login = "tailrace"
    login_password = "Publisher-1"
