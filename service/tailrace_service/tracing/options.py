"""The options of traces, which are the same for both daemons: they make parts of one trace."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from tailrace_service.options.sections import Section, read_secret

_FILES: Final = "tracing.headers_files"


class TracingConfig(Section):
    """Traces of changes from their commit to the lake, for an OpenTelemetry collector.

    Written once at the top of the file they are both daemons'.
    """

    endpoint: str | None = Field(
        default=None,
        description="Where spans are sent by OTLP over HTTP (protobuf): the whole address, e.g."
        " http://collector:4318/v1/traces; default: no spans are sent. Needs the packages of"
        " tailrace[tracing]. A collector that does not answer costs its spans, and nothing else.",
    )
    ratio: float = Field(
        default=0.01,
        ge=0.0,
        le=1.0,
        description="Share of the Kafka transactions that are traced; 0 to 1. Which ones follows"
        " from their closed LSN, so publisher and sink choose the same; where their ratios differ,"
        " the traces of the smaller one are whole.",
    )
    headers: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Headers of each request, e.g. authorization. Never logged.",
    )
    headers_files: dict[str, Path] = Field(
        default_factory=dict,
        description="The same, each from the first line of a file. Read at a start.",
    )
    ca_file: Path | None = Field(
        default=None,
        description="Authorities (PEM) that the collector's certificate is checked with; default:"
        " those of the package certifi.",
    )
    timeout_s: float = Field(
        default=5.0,
        ge=0.1,
        le=60.0,
        description="Seconds that a request may take, and so about how much later a daemon ends"
        " whose collector does not answer; 0.1 to 60.",
    )

    @field_validator("endpoint")
    @classmethod
    def _is_whole_address(cls, endpoint: str | None) -> str | None:
        if endpoint is not None and not endpoint.startswith(("http://", "https://")):
            raise ValueError(
                "write the whole address of OTLP over HTTP, e.g. http://collector:4318/v1/traces"
            )
        return endpoint

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        both = sorted(self.headers.keys() & self.headers_files.keys())
        if both:
            raise ValueError(f"give {', '.join(both)} in one of headers and headers_files")
        if self.endpoint is None:
            return self
        if self.ca_file is not None and not self.endpoint.startswith("https:"):
            raise ValueError("ca_file needs an https endpoint")
        if "@" in urlsplit(self.endpoint).netloc:  # it is told in messages and logs
            raise ValueError("endpoint has a user or password in it: put them into headers")
        return self

    def all_headers(self) -> dict[str, str]:
        """The headers with their secrets, for the exporter only.

        Raises:
            SecretUnreadable: a file cannot be read.
        """
        given = {name: value.get_secret_value() for name, value in self.headers.items()}
        return given | {
            name: read_secret(f"{_FILES}.{name}", file) for name, file in self.headers_files.items()
        }
