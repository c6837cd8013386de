"""A Java virtual machine with a test's jars, driven from here: no compiler is needed for that."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j import java_gateway, protocol
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tailrace_compose.local import jars
from tailrace_compose.local.java import QUICK_START, java_executable


def driver_jar(version: str) -> Path:
    """The locked jar of Microsoft's driver in that version."""
    (jar,) = (path for path in jars.ensure("jdbc") if f"-{version}." in path.name)
    return jar


@contextmanager
def jvm_with(*class_path: Path) -> Iterator[Any]:
    """`jvm.java.sql.DriverManager` and everything else, by the bridge that PySpark carries."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    (bridge,) = Path(spec.submodule_search_locations[0], "jars").glob("py4j-*.jar")
    port, token = launch_gateway(
        jarpath=str(bridge),
        classpath=":".join(map(str, class_path)),
        javaopts=[*QUICK_START, "-Xmx256m"],
        java_path=java_executable(),
        die_on_exit=True,
        enable_auth=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True)
    )
    # A Spark session of this process has all errors looked up in its own virtual machine.
    of_spark = java_gateway.get_return_value
    java_gateway.get_return_value = protocol.get_return_value
    try:
        yield gateway
    finally:
        java_gateway.get_return_value = of_spark
        gateway.shutdown()
