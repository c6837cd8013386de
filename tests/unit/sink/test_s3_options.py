"""The options of S3: each library that opens a lake gets the same, and no message has a secret."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow.fs import S3FileSystem

from tailrace.reading.lake_session import lake_session
from tailrace.settings.load import load
from tailrace.settings.settings import SettingsError
from tailrace_sink.errors import ConfigError
from tailrace_sink.options.config import SinkConfig
from tailrace_sink.options.s3_options import S3Options, hadoop_address, s3_address

MINIMAL: dict[str, Any] = {
    "kafka": {"bootstrap": "localhost:9092"},
    "registry": {"url": "http://localhost:8081"},
    "prefix": "shop",
    "lake": "s3://lake/shop/",
}
_KEYS_OF_A_ROLE = b"""<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleResult><Credentials><AccessKeyId>key</AccessKeyId>
<SecretAccessKey>secret</SecretAccessKey><SessionToken>of-the-role</SessionToken>
<Expiration>2999-01-01T00:00:00Z</Expiration></Credentials>
<AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/lake/x</Arn><AssumedRoleId>A:x</AssumedRoleId>
</AssumedRoleUser></AssumeRoleResult></AssumeRoleResponse>"""
OWN_STORE = {
    "endpoint": "http://minio:9000",
    "access_key": "tail",
    "secret_key": "it's secret",
}


def options(**given: Any) -> S3Options:
    return S3Options.model_validate(given)


def test_both_schemes_are_one_lake():
    config = SinkConfig.load(MINIMAL | {"checkpoint_location": "s3://lake/checkpoint"})

    assert config.lake == "s3a://lake/shop"
    assert config.progress_checkpoint == "s3a://lake/checkpoint"
    assert SinkConfig.load(MINIMAL | {"lake": "s3a://lake/shop"}).lake == config.lake
    assert s3_address(config.log_path) == "s3://lake/shop/_tailrace/log"
    assert hadoop_address("/data/s3://x") == "/data/s3://x"
    assert s3_address("abfss://c@a/x") == "abfss://c@a/x"


def test_two_databases_with_one_lake_are_refused_under_either_scheme(tmp_path: Path):
    file = tmp_path / "tailrace.yaml"
    file.write_text(
        "databases: {a: {sink: {lake: 's3://lake/x'}}, b: {sink: {lake: 's3a://lake/x'}}}"
    )
    with pytest.raises(SettingsError, match="a lake has the cuts of one database"):
        load(file, {})


def test_a_store_of_its_own_is_the_same_for_all_libraries():
    s3 = options(**OWN_STORE)

    hadoop = s3.hadoop()
    assert hadoop["spark.hadoop.fs.s3a.endpoint"] == "http://minio:9000"
    assert hadoop["spark.hadoop.fs.s3a.endpoint.region"] == "us-east-1"
    assert hadoop["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert hadoop["spark.hadoop.fs.s3a.access.key"] == "tail"
    assert hadoop["spark.hadoop.fs.s3a.secret.key"] == "it's secret"
    assert s3.storage_options() == {
        "AWS_ENDPOINT_URL": "http://minio:9000",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        "AWS_ACCESS_KEY_ID": "tail",
        "AWS_SECRET_ACCESS_KEY": "it's secret",
    }
    assert s3.pyarrow() == {
        "endpoint_override": "minio:9000",
        "scheme": "http",
        "region": "us-east-1",
        "access_key": "tail",
        "secret_key": "it's secret",
    }
    assert s3.duckdb() == (
        "CREATE OR REPLACE SECRET tailrace_lake (TYPE s3, ENDPOINT 'minio:9000', USE_SSL 'false',"
        " URL_STYLE 'path', REGION 'us-east-1', KEY_ID 'tail', SECRET 'it''s secret')"
    )


def test_aws_itself_needs_no_option():
    s3 = options()

    assert s3.pyarrow() == {}
    assert s3.storage_options() == {"AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}
    assert "spark.hadoop.fs.s3a.endpoint" not in s3.hadoop()
    assert s3.hadoop()["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith(
        "DefaultCredentialsProvider"
    )
    assert "PROVIDER 'credential_chain'" in s3.duckdb()


def test_a_role_is_assumed_by_all_libraries():
    role = "arn:aws:iam::1:role/lake"
    s3 = options(role=role, region="eu-central-1")

    assert s3.hadoop()["spark.hadoop.fs.s3a.assumed.role.arn"] == role
    assert s3.hadoop()["spark.hadoop.fs.s3a.aws.credentials.provider"].endswith(
        "AssumedRoleCredentialProvider"
    )
    assert s3.storage_options()["AWS_IAM_ROLE_ARN"] == role
    assert s3.pyarrow() == {"region": "eu-central-1", "role_arn": role}
    assert f"CHAIN 'sts', ASSUME_ROLE_ARN '{role}'" in s3.duckdb()


class Aws:
    """Security token service and store in one: gives keys for a role, and has no object."""

    def __init__(self) -> None:
        self.roles: list[str] = []
        self.tokens: set[str] = set()
        aws = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                aws.roles += asked["RoleArn"]
                self._answer(200, _KEYS_OF_A_ROLE)

            def do_GET(self) -> None:
                aws.tokens.add(self.headers.get("x-amz-security-token", "none"))
                self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

            do_HEAD = do_PUT = do_GET  # noqa: N815

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "text/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(b"" if self.command == "HEAD" else body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """An AWS with which the environment's keys may assume roles only."""
    found = Aws()
    threading.Thread(target=found.server.serve_forever, daemon=True).start()
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "of-the-machine")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", found.url)
    yield found
    found.server.shutdown()
    found.server.server_close()


def look_with_deltalake(s3: S3Options) -> None:
    DeltaTable("s3://lake/x", storage_options=s3.storage_options())


def look_with_pyarrow(s3: S3Options) -> None:
    S3FileSystem(**s3.pyarrow()).open_input_stream("lake/x")


@pytest.mark.parametrize("look", [look_with_deltalake, look_with_pyarrow])
def test_a_role_is_assumed_though_the_environment_has_keys(
    aws: Aws, look: Callable[[S3Options], None]
):
    role = "arn:aws:iam::123456789012:role/lake"
    with pytest.raises((TableNotFoundError, OSError)):  # the store has nothing
        look(options(endpoint=aws.url, role=role))
    assert set(aws.roles) == {role}
    assert aws.tokens == {"of-the-role"}


def test_a_lake_elsewhere_gets_no_option_of_s3():
    local = SinkConfig.load(MINIMAL | {"lake": "/data/lake", "s3": OWN_STORE})

    assert local.storage_options() == {}


def test_secrets_come_from_files_or_the_environment(tmp_path: Path):
    key = tmp_path / "key"
    key.write_text("from-file\n")
    file = tmp_path / "tailrace.yaml"
    file.write_text(
        f"sink: {{lake: 's3://lake/shop', prefix: p, kafka: {{bootstrap: 'k:1'}},"
        f" registry: {{url: 'http://r'}}, s3: {{secret_key_file: '{key}'}}}}"
    )
    environment = {"TAILRACE__SINK__S3__ACCESS_KEY": "0123"}

    found = load(file, environment).sink().storage_options()

    assert (found["AWS_ACCESS_KEY_ID"], found["AWS_SECRET_ACCESS_KEY"]) == ("0123", "from-file")
    key.unlink()
    with pytest.raises(ConfigError, match=r"s3\.secret_key_file .*key: No such file"):
        load(file, environment).sink().storage_options()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"access_key": "hunter2"}, "give access_key and secret_key (or their files) together"),
        ({"session_token": "hunter2"}, "session_token needs access_key and secret_key"),
        (
            {"access_key": "hunter2", "secret_key": "hunter2", "role": "arn:x"},
            "give keys or role, not both",
        ),
        (
            {"access_key": "hunter2", "secret_key": "hunter2", "secret_key_file": "/x"},
            "give secret_key or secret_key_file, not both",
        ),
        ({"secret_key": ["hunter2"]}, "s3.secret_key"),
        ({"endpoint": "minio:9000"}, "s3.endpoint"),
        ({"endpoint": "http://tail:hunter2@minio:9000"}, "endpoint has keys in it"),
        ({"regio": "x"}, "did you mean region?"),
    ],
)
def test_refusals_name_the_option_and_no_secret(given: dict[str, Any], words: str):
    with pytest.raises(ConfigError) as raised:
        SinkConfig.load(MINIMAL | {"s3": given})
    (problem,) = raised.value.problems
    assert words in problem
    assert "hunter2" not in problem


def test_no_secret_is_printed():
    assert "secret'" not in repr(SinkConfig.load(MINIMAL | {"s3": OWN_STORE}))
    assert "tail'" not in repr(SinkConfig.load(MINIMAL | {"s3": OWN_STORE}))


def test_wrong_options_of_a_session_are_named():
    with pytest.raises(ConfigError, match=r"s3\.endpont.*did you mean endpoint"):
        lake_session(s3={"endpont": "http://minio:9000"})
