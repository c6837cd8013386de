"""The schema registry's REST API (Confluent's, as Apicurio, Karapace and Redpanda also serve it).

Only what both sides need: register, look up by id, list a subject's versions. A schema id never
changes its meaning, so both directions are remembered for the life of the object.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import httpx

from tailrace_schemas.events.serializations import is_json_schema
from tailrace_service.closing import Closing
from tailrace_service.tls_problems import certificate_problem

_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_FIXES: Final = {
    401: "check registry.user and registry.password, or registry.token",
    403: "let this user write the subject",
    404: "check the registry's URL (Apicurio serves this API under /apis/ccompat/v7)",
    409: (
        "the new schema is not compatible with the registered one: set the subject's compatibility"
        " to NONE, or publish under another prefix"
    ),
    422: "the registry does not take this as an Avro schema, or JSON Schema (serialization)",
}


class RegistryError(Exception):
    """The registry did not do what was asked.

    Attributes:
        retryable: whether waiting may help.
        of_one_table: whether it concerns one table alone when it comes while that one is handled.
    """

    retryable = False
    of_one_table = True


class RegistryUnavailable(RegistryError):
    """No answer, or one that says that the registry itself is unwell (5xx)."""

    retryable = True
    of_one_table = False

    def __init__(self, url: str, reason: str) -> None:
        """Keep the URL and the reason."""
        super().__init__(
            f"schema registry {url} is not available: {reason.rstrip('.')}. Fix: start it, or check"
            " registry.url"
        )
        self.url = url
        self.reason = reason


class RegistryRejected(RegistryError):
    """The registry refused: asking again will not help.

    Attributes:
        subject: the subject, or ``id N`` for a look-up by id.
        reason: the registry's own words.
        fix: what to do about it.
    """

    def __init__(self, subject: str, status: int, reason: str, fix: str) -> None:
        """Keep what was refused, why, and the way out."""
        super().__init__(f"schema registry refused {subject} ({status}): {reason}. Fix: {fix}")
        self.subject = subject
        self.status = status
        self.reason = reason
        self.fix = fix


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """One version of a subject."""

    subject: str
    version: int
    schema_id: int
    schema: dict[str, Any]


class SchemaRegistry(Closing):
    """A client of one registry; safe to use from several threads.

    Every method raises :class:`RegistryUnavailable` if no answer comes, and
    :class:`RegistryRejected` if the registry refuses.

    Args:
        url: base of the Confluent-compatible API, for Apicurio ``http://host:port/apis/ccompat/v7``.
        timeout_s: longest wait for one answer.
        auth: authenticates each request; None: nothing does.
        tls: whom to trust, and with which certificate to come; None: the system's authorities.
    """

    def __init__(
        self,
        url: str,
        timeout_s: float = 10.0,
        *,
        auth: httpx.Auth | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=self.url,
            timeout=timeout_s,
            headers={"Content-Type": _CONTENT_TYPE, "Accept": f"{_CONTENT_TYPE}, application/json"},
            auth=auth,
            # Loading the certificates takes 0.1 s; without TLS there is nothing to verify.
            verify=tls if tls is not None else self.url.startswith("https:"),
        )
        self._ids: dict[tuple[str, str], int] = {}
        self._schemas: dict[int, dict[str, Any]] = {}

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """Register a schema under a subject; an equal one that is there gives its id.

        Args:
            schema: of Avro, or a JSON Schema.

        Returns:
            The schema id, unique in the registry.

        Raises:
            RegistryRejected: not compatible, not valid, or not allowed.
        """
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        known = self._ids.get((subject, text))
        if known is not None:
            return known
        answer = self._ask(
            "POST",
            f"/subjects/{quote(subject, safe='')}/versions",
            subject,
            {"schema": text, "schemaType": "JSON" if is_json_schema(schema) else "AVRO"},
        )
        schema_id = int(answer["id"])
        self._ids[subject, text] = schema_id
        return schema_id

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:
        """The schema with that id.

        Raises:
            RegistryRejected: the id is not known.
        """
        known = self._schemas.get(schema_id)
        if known is None:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}", f"id {schema_id}")
            known = _parse(answer["schema"])
            self._schemas[schema_id] = known
        return known

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest version of a subject, or None when there is no such subject."""
        return self._version(subject, "latest")

    def versions(self, subject: str) -> list[RegisteredSchema]:
        """All versions of a subject, oldest first; empty when there is no such subject."""
        newest = self.latest(subject)
        if newest is None:
            return []
        if newest.version == 1:
            return [newest]  # most subjects have one: it takes one request, not two
        path = f"/subjects/{quote(subject, safe='')}/versions"
        numbers = set(self._ask("GET", path, subject, missing=[])) - {newest.version}
        found = [self._version(subject, str(number)) for number in sorted(numbers)]
        every = [newest, *(version for version in found if version is not None)]
        return sorted(every, key=lambda version: version.version)

    def subjects(self) -> list[str]:
        """All subjects."""
        return [str(subject) for subject in self._ask("GET", "/subjects", "the list of subjects")]

    def set_compatibility(self, subject: str, mode: str) -> bool:
        """Say what a new version of a subject must be compatible with.

        https://docs.confluent.io/platform/current/schema-registry/develop/api.html#config

        Args:
            mode: NONE, BACKWARD, FORWARD, FULL, or one of the last three with _TRANSITIVE.

        Returns:
            False where the registry does not know the subject yet.

        Raises:
            RegistryRejected: not allowed, or no such mode.
        """
        path = f"/config/{quote(subject, safe='')}"
        answer = self._ask("PUT", path, subject, {"compatibility": mode}, missing={})
        return bool(answer)

    def date(self) -> str | None:
        """The date header of an answer, whatever it answers: by the registry's clock."""
        try:
            answer = self._http.get("/subjects")
        except httpx.HTTPError as error:
            raise RegistryUnavailable(self.url, _why_not(error)) from error
        date = answer.headers.get("Date")
        return None if date is None else str(date)

    def mode(self) -> str | None:
        """Query the mode: READWRITE, READONLY or IMPORT; None if the registry has no such path.

        https://docs.confluent.io/platform/current/schema-registry/develop/api.html#mode
        """
        try:
            answer = self._ask("GET", "/mode", "mode")
        except RegistryRejected:
            return None
        return str(answer["mode"]) if isinstance(answer, dict) and "mode" in answer else None

    def _version(self, subject: str, version: str) -> RegisteredSchema | None:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        answer = self._ask("GET", path, subject, missing={})
        if not answer:
            return None
        return RegisteredSchema(
            subject, int(answer["version"]), int(answer["id"]), _parse(answer["schema"])
        )

    def _ask(
        self,
        method: str,
        path: str,
        subject: str,
        body: dict[str, Any] | None = None,
        missing: Any = None,
    ) -> Any:
        """Send one request; ``missing`` is the answer when the subject does not exist."""
        try:
            response = self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise RegistryUnavailable(self.url, _why_not(error)) from error
        if response.is_success:
            try:
                return response.json()
            except ValueError as error:
                raise RegistryRejected(
                    subject, response.status_code, "the answer is not JSON", _FIXES[404]
                ) from error
        code, reason = _reason(response)
        if missing is not None and code in {40401, 40402}:
            return missing
        if response.status_code >= 500 or response.status_code in {408, 429}:
            raise RegistryUnavailable(self.url, f"{response.status_code} {reason}")
        fix = _FIXES.get(response.status_code, "see the registry's log")
        raise RegistryRejected(subject, response.status_code, reason, fix)


def _why_not(error: httpx.HTTPError) -> str:
    """Why there was no answer."""
    problem = certificate_problem(error, "its certificate", "registry.ca_file")
    return problem or f"{type(error).__name__}: {error}"


def _reason(response: httpx.Response) -> tuple[int, str]:
    """The registry's error code (404xx and so on) and its words."""
    try:
        answer = response.json()
    except ValueError:
        return response.status_code, response.text[:200] or response.reason_phrase
    if not isinstance(answer, dict):
        return response.status_code, str(answer)[:200]
    return int(answer.get("error_code", response.status_code)), str(answer.get("message", answer))


def _parse(text: str) -> dict[str, Any]:
    schema = json.loads(text)
    if not isinstance(schema, dict):
        raise TypeError(f"not a record schema: {text[:80]}")
    return schema
