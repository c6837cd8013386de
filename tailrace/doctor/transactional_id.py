"""Kafka: may the publisher use its transactional id.

It cannot be tried: whoever takes the id ends the publisher that has it. So the rules are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tailrace.doctor.findings import Finding, Fix, Judge, Part
from tailrace_publisher.kafka_options import KafkaConfig

_JUDGE: Final = Judge(Part.KAFKA)
_SUBJECT: Final = "transactional id"
_NEEDED: Final = {AclOperation.WRITE, AclOperation.ALL}
_EVERYBODY: Final = "User:*"
_ANYBODY: Any = None
"""Any principal, or any host, in a filter of rules; the client's types do not know it."""


def look_at_transactional_id(
    admin: AdminClient, config: KafkaConfig, name: str
) -> Iterator[Finding]:
    """Judge the rules for the publisher's transactional id.

    Args:
        admin: a client of the brokers.
        config: where they are, and as whom.
        name: the transactional id.
    """
    principal = _principal(config)
    fix = Fix(
        f"kafka-acls --add --allow-principal {principal or 'User:<name>'} --transactional-id {name}"
        " --operation Write --operation Describe"
    )
    try:
        rules = _rules(admin, name, config.start_timeout_s)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.SECURITY_DISABLED:
            yield _JUDGE.ok(_SUBJECT, f"{name}: the brokers have no access rules")
            return
        yield _JUDGE.warning(
            _SUBJECT,
            f"whether {name} may be used is not known: the rules may not be read"
            f" ({error.args[0].str()})",
            "without Write on it the publisher cannot begin a transaction",
            Fix(f"{fix.text}; to have it checked here, allow Describe on the cluster"),
        )
        return
    ours = {_EVERYBODY} if principal is None else {_EVERYBODY, principal}
    denied = [r for r in rules if r.permission_type is AclPermissionType.DENY]
    allowed = [r for r in rules if r.permission_type is AclPermissionType.ALLOW]
    if _names(denied) & ours:
        yield _JUDGE.problem(
            _SUBJECT,
            f"{name}: Write is denied to {', '.join(sorted(_names(denied) & ours))}",
            "the publisher cannot begin a transaction",
            Fix("kafka-acls --remove --deny-principal ..., which takes precedence over any allow"),
        )
    elif _names(allowed) & ours:
        yield _JUDGE.ok(_SUBJECT, f"{name} may be used")
    elif allowed and principal is None:
        yield _JUDGE.warning(
            _SUBJECT,
            f"{name} is allowed to {', '.join(sorted(_names(allowed)))}; as whom the publisher"
            " comes is not told by its options",
            "without Write on it the publisher cannot begin a transaction",
            fix,
        )
    elif rules:
        yield _JUDGE.problem(
            _SUBJECT,
            f"{name}: Write is allowed to nobody that the publisher is"
            + ("" if principal is None else f" ({principal})"),
            "the publisher cannot begin a transaction, unless it is a super user",
            fix,
        )
    elif _may_everything(admin, config.start_timeout_s):
        yield _JUDGE.ok(_SUBJECT, f"{name}: no rule speaks of it, and none is needed")
    else:
        yield _JUDGE.warning(
            _SUBJECT,
            f"{name}: no rule speaks of it",
            "unless the brokers have allow.everyone.if.no.acl.found=true, the publisher cannot"
            " begin a transaction",
            fix,
        )


def _rules(admin: AdminClient, name: str, timeout_s: float) -> list[Any]:
    """The rules about writing under a transactional id, by name or by prefix."""
    wanted = AclBindingFilter(
        ResourceType.TRANSACTIONAL_ID,
        name,
        ResourcePatternType.MATCH,
        _ANYBODY,
        _ANYBODY,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    found = admin.describe_acls(wanted, request_timeout=timeout_s).result(timeout_s)
    return [rule for rule in found if rule.operation in _NEEDED]


def _names(rules: Iterable[Any]) -> set[str]:
    return {str(rule.principal) for rule in rules}


def _principal(config: KafkaConfig) -> str | None:
    """As whom the publisher comes; None where a certificate or a ticket tells it."""
    options = config.librdkafka_options()
    user = options.get("sasl.username")
    if user:
        return f"User:{user}"
    protocol = options.get("security.protocol", "plaintext").casefold()
    return "User:ANONYMOUS" if protocol in {"plaintext", "ssl"} and not _has_cert(options) else None


def _has_cert(options: Mapping[str, str]) -> bool:
    return any(name.startswith(("ssl.certificate", "ssl.keystore")) for name in options)


def _may_everything(admin: AdminClient, timeout_s: float) -> bool:
    """Whether it may alter the cluster: as a super user, or where no rule means no limit.

    The option allow.everyone.if.no.acl.found cannot be asked of the brokers.
    """
    asked = admin.describe_cluster(include_authorized_operations=True, request_timeout=timeout_s)
    try:
        allowed = asked.result(timeout_s).authorized_operations or []
    except (KafkaException, TimeoutError):
        return False
    return {AclOperation.ALTER, AclOperation.CLUSTER_ACTION} <= set(allowed)
