"""The locked jars: what the lock says, what Ivy is told, and that nothing else is accepted."""

import functools
import hashlib
import http.server
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from tailrace_compose.local import ivy, jars
from tailrace_compose.local.errors import ArtifactUnavailable, LockInvalid

SHA = "0" * 64


def test_lock_is_complete_and_has_each_file_once():
    artifacts = jars.parse_lock(jars._lock_path().read_text())
    names = [(item.group, item.coordinate.file_name) for item in artifacts]
    assert len(names) == len(set(names))
    assert {item.group for item in artifacts} == set(jars.GROUPS)
    assert [len(jars.locked(group)) for group in jars.GROUPS] == [
        12,
        7,
        12,
        34,
        36,
        1,
        46,
        1,
        59,
        15,
        1,
        2,
        1,
        3,
        33,
    ]


@pytest.mark.parametrize(
    ("installed", "group"),
    [("4.0.1", "spark-4.0"), ("4.1.1", "spark"), ("4.2.0", "spark-4.2"), (None, "spark")],
)
def test_the_jars_are_those_of_the_installed_spark(
    installed: str | None, group: str, monkeypatch: pytest.MonkeyPatch
):
    def version(name: str) -> str:
        if installed is None:
            raise metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(metadata, "version", version)
    assert jars.spark_group() == group


def test_a_release_of_spark_without_jars_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metadata, "version", lambda _: "3.5.8")
    with pytest.raises(ArtifactUnavailable, match=r"PySpark 3\.5\.8.*4\.0, 4\.1, 4\.2"):
        jars.spark_jars()


def test_a_release_of_spark_without_conditional_creates_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metadata, "version", lambda _: "4.0.1")
    with pytest.raises(
        ArtifactUnavailable, match=r"PySpark 4\.0\.1 cannot write the lake s3://b/l"
    ):
        jars.spark_jars("s3://b/l")


def test_a_release_of_spark_without_iceberg_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(metadata, "version", lambda _: "4.2.0")
    with pytest.raises(ArtifactUnavailable, match=r"Iceberg .* PySpark 4\.2\.0.*PySpark 4\.1"):
        jars.iceberg_jars()


def test_versions_that_belong_together():
    assert jars.version_of("spark", "kafka-clients") == "3.9.1"
    assert jars.version_of("kafka", "kafka_2.13") == jars.version_of("kafka", "kafka-clients")
    assert jars.version_of("spark", "delta-spark_4.1_2.13") == jars.version_of(
        "spark", "delta-storage"
    )
    with pytest.raises(LockInvalid, match="no artifact nothing in \\[kafka\\]"):
        jars.version_of("kafka", "nothing")


def test_classifier_and_extension_make_the_file_name():
    (item,) = jars.parse_lock(f"[registry]\norg.example app 1.0 all tar.gz {SHA}\n")
    assert item.coordinate.file_name == "app-1.0-all.tar.gz"
    assert str(item.coordinate) == "org.example:app:1.0:all"


@pytest.mark.parametrize(
    "line",
    [
        f"org.example app {SHA}",
        "org.example app 1.0 0123",
        f"org.example app 1.0 all {SHA}",
        f"org.example app 1.0 {'G' * 64}",
    ],
)
def test_unreadable_line_is_named_by_its_number(line):
    with pytest.raises(LockInvalid, match="line 2"):
        jars.parse_lock(f"[kafka]\n{line}\n")


def test_line_before_any_group_is_refused():
    with pytest.raises(LockInvalid, match="line 1"):
        jars.parse_lock(f"org.example app 1.0 {SHA}\n")


def test_module_file_lists_each_artifact_intransitively():
    text = ivy.module_file(
        [
            ivy.Coordinate("org.a", "plain", "1", None, "jar"),
            ivy.Coordinate("org.b", "packed", "2", "all", "tar.gz"),
            ivy.Coordinate("org.a", "plain", "1", "tests", "jar"),
        ]
    )
    dependencies = ET.fromstring(text).findall("dependencies/dependency")  # noqa: S314
    assert [item.get("transitive") for item in dependencies] == ["false", "false"]
    artifact = dependencies[1].find("artifact")
    assert artifact is not None
    assert artifact.get("{http://ant.apache.org/ivy/maven}classifier") == "all"
    assert artifact.get("ext") == "tar.gz"
    assert len(dependencies[0].findall("artifact")) == 2, "of two entries Ivy takes the last"


def test_mirror_is_a_setting(monkeypatch):
    monkeypatch.setenv("TAILRACE_MAVEN_MIRROR", "https://maven.example.com/central/")
    assert 'root="https://maven.example.com/central/"' in ivy.settings_file(
        Path("/c"), ivy.mirror()
    )
    monkeypatch.delenv("TAILRACE_MAVEN_MIRROR")
    assert "root=" not in ivy.settings_file(Path("/c"), ivy.mirror())


@dataclass
class Repository:
    """A Maven repository on 127.0.0.1 with one artifact, and a lock that names it."""

    folder: Path
    lock: Path

    def publish(self, content: bytes, locked: bytes) -> None:
        path = self.folder / "org" / "example" / "thing" / "1.0"
        path.mkdir(parents=True)
        (path / "thing-1.0.jar").write_bytes(content)
        digest = hashlib.sha256(locked).hexdigest()
        self.lock.write_text(f"[kafka]\norg.example thing 1.0 {digest}\n")


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def repository(tmp_path, monkeypatch) -> Iterator[Repository]:
    served = Repository(tmp_path / "maven", tmp_path / "jars.lock")
    served.folder.mkdir()
    handler = functools.partial(QuietHandler, directory=str(served.folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TAILRACE_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("TAILRACE_MAVEN_MIRROR", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(jars, "_lock_path", lambda: served.lock)
        yield served
        server.shutdown()
        thread.join()


def test_downloads_once_and_again_when_the_cached_file_was_damaged(repository):
    repository.publish(b"right", locked=b"right")
    lines: list[str] = []
    (path,) = jars.ensure("kafka", lines.append)
    assert path.read_bytes() == b"right"
    assert any("1 files" in line for line in lines)

    lines.clear()
    assert jars.ensure("kafka", lines.append) == [path]
    assert lines == []

    path.write_bytes(b"rotten")
    jars.ensure("kafka", lines.append)
    assert path.read_bytes() == b"right"


def test_other_bytes_than_the_locked_ones_are_thrown_away(repository):
    repository.publish(b"wrong", locked=b"right")
    with pytest.raises(ArtifactUnavailable, match=r"org\.example:thing:1\.0 .* has SHA-256"):
        jars.ensure("kafka", lambda _: None)
    assert not list((repository.lock.parent / "cache").rglob("*.jar"))


def test_missing_artifact_is_named_with_the_fix(repository):
    repository.lock.write_text(f"[kafka]\norg.example absent 2.0 {SHA}\n")
    with pytest.raises(ArtifactUnavailable) as caught:
        jars.ensure("kafka", lambda _: None)
    message = str(caught.value)
    assert "org.example:absent:2.0" in message
    assert "TAILRACE_MAVEN_MIRROR" in message


def test_the_watcher_outlives_downloads_that_are_renamed_under_its_eyes(tmp_path):
    names = [tmp_path / f"thing-{number}.jar" for number in range(200)]
    for name in names:
        name.with_suffix(".jar.part").write_bytes(b"12345")
    done = threading.Event()

    def rename():
        while not done.is_set():
            for name in names:
                name.with_suffix(".jar.part").rename(name)
            for name in names:
                name.rename(name.with_suffix(".jar.part"))

    thread = threading.Thread(target=rename)
    thread.start()
    try:
        sizes = {ivy._size_of(tmp_path) for _ in range(100)}
    finally:
        done.set()
        thread.join()
    assert max(sizes) <= 2 * 200 * 5
    assert ivy._size_of(tmp_path) == 200 * 5


def test_a_folder_that_is_not_there_yet_has_no_size(tmp_path):
    assert ivy._size_of(tmp_path / "cache") == 0


def test_without_pyspark_the_same_ivy_is_downloaded_and_other_bytes_are_refused(
    tmp_path, monkeypatch
):
    carried = ivy.ivy_jar(tmp_path)  # PySpark's
    served = tmp_path / "org" / "apache" / "ivy" / "ivy" / "2.5.3" / "ivy-2.5.3.jar"
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("TAILRACE_MAVEN_MIRROR", tmp_path.as_uri())

    with pytest.raises(
        ArtifactUnavailable, match=r"Could not download org.apache\.ivy:ivy:2\.5\.3"
    ):
        ivy.download_ivy(work)
    served.parent.mkdir(parents=True)
    served.write_bytes(b"of somebody else")
    with pytest.raises(ArtifactUnavailable, match=r"has SHA-256 .* but 9502aa5a"):
        ivy.download_ivy(work)
    assert list(work.iterdir()) == []

    served.write_bytes(carried.read_bytes())
    assert ivy.download_ivy(work).read_bytes() == carried.read_bytes()
