"""How the broker is reached, in one place, for every client.

A `Connection` holds the addresses and the client options of the settings under their librdkafka names. `client()` is
what confluent-kafka takes; `spark()` is the same security for Spark's Kafka source and sink, under Java's names.
Certificates travel to Spark as text, not as paths, because an executor does not have the driver's files.

A security option that Java has no word for is an error and is not dropped: a connection less secure than the declared
one is never made. Secrets appear neither in `repr` nor in an error.

A broker that does not answer is reported after `TIMEOUT_S` seconds, with its address and the reason the client saw.
"""

# The client documents these names under `confluent_kafka.admin` without declaring them there.
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata

from headrace.errors import LogError
from headrace.settings import Settings

TIMEOUT_S = 10.0

UNREACHABLE = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._MSG_TIMED_OUT,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
}
_REFUSED = {
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
}
_FORBIDDEN = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_UNKNOWN_TOPIC = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SECURITY_PREFIXES = ("security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.")
_TRANSLATED = {
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.endpoint.identification.algorithm",
}


@dataclass(frozen=True)
class Connection:
    """Addresses and client options; cheap to make, to compare and to send to another process."""

    bootstrap: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def of(cls, settings: Settings, bootstrap: str) -> Connection:
        """The settings' client options with the address in use (a given one, or the embedded part's)."""
        return cls(bootstrap, dict(settings.kafka))

    def client(self, **extra: Any) -> dict[str, Any]:
        """The configuration of a confluent-kafka client; names with dots are given as `**{"group.id": …}`.

        The client's own log lines are off (`log_level` in the options turns them on): what matters is raised. The
        first reconnection comes soon, because the client also waits half that time before it connects at all.
        """
        defaults = {"log_level": 2, "client.id": "headrace", "reconnect.backoff.ms": 10}
        return {**defaults, **self.options, "bootstrap.servers": self.bootstrap, **extra}

    def spark(self) -> dict[str, str]:
        """The address and the security options as options of Spark's Kafka source and sink."""
        return {f"kafka.{name}": value for name, value in _java(self).items()}

    def admin(self) -> AdminClient:
        """An admin client of a broker that has answered. Hold it: its answers never come once it is collected."""
        return self.reach()[0]

    def metadata(self) -> ClusterMetadata:
        """The cluster's topics and partitions, fresh."""
        return self.reach()[1]

    def reach(self) -> tuple[AdminClient, ClusterMetadata]:
        """Both at once, for one connection."""
        seen: list[KafkaError] = []
        with self.translated("connecting"):
            admin = AdminClient(self.client(error_cb=seen.append))
        try:
            return admin, admin.list_topics(timeout=TIMEOUT_S)
        except KafkaException as error:
            admin.poll(0)
            # The request itself only times out; the reason was reported beside it. A refusal says more than a
            # connection that was closed after it.
            told = [e for e in seen if e.code() != KafkaError._ALL_BROKERS_DOWN]
            refusals = [e for e in told if e.code() in _REFUSED]
            raise self.error((refusals or told or [error.args[0]])[-1], "connecting") from None

    @contextmanager
    def translated(self, doing: str) -> Iterator[None]:
        """Turn what the Kafka client raises inside into a LogError that says what was being done."""
        try:
            yield
        except KafkaException as error:
            raise self.error(error.args[0], doing) from error

    def error(self, error: KafkaError, doing: str) -> LogError:
        """The LogError for a Kafka error."""
        code, text = error.code(), error.str()
        if code in UNREACHABLE:
            return LogError(
                "HR-201",
                f"Kafka at {self.bootstrap} does not answer ({doing}): {text}",
                found=self.bootstrap,
                fix="start the broker, or correct `bootstrap` (HEADRACE_BOOTSTRAP or headrace.toml); "
                "without an address Headrace starts an embedded broker",
            )
        if code in _REFUSED:
            return LogError(
                "HR-202",
                f"Kafka at {self.bootstrap} refuses the connection ({doing}): {text}",
                found=self._security(),
                fix="correct the options under [kafka] in headrace.toml: the protocol, mechanism and credentials must "
                "be those of the listener behind this address",
            )
        if code in _FORBIDDEN:
            return LogError(
                "HR-203",
                f"Kafka at {self.bootstrap} does not allow it ({doing}): {text}",
                found=f"user {self.options.get('sasl.username', '(none)')}",
                fix="grant the right with kafka-acls, or use a user that has it",
            )
        if code in _UNKNOWN_TOPIC:
            return LogError(
                "HR-205",
                f"The topic or partition does not exist ({doing}): {text}",
                found=self.bootstrap,
                fix="`headrace topic ls` lists the topics; create it, or correct the name",
            )
        if code == KafkaError._INVALID_ARG:
            return LogError(
                "HR-207",
                f"The Kafka client does not take its options ({doing}): {text}",
                found=", ".join(sorted(self.options)) or "no options under [kafka]",
                fix="correct the named option under [kafka] in headrace.toml",
            )
        return LogError(
            "HR-206",
            f"Kafka answered with an error ({doing}): {text}",
            found=error.name(),
            fix="the name above is Kafka's own; its documentation and the broker's log say more",
        )

    def unknown_topic(self, topic: str) -> LogError:
        """The error for a topic that is not there."""
        return LogError(
            "HR-205",
            f"Kafka at {self.bootstrap} has no topic `{topic}`",
            found=topic,
            fix="`headrace topic ls` lists the topics; create it, or correct the name",
        )

    def _security(self) -> str:
        shown = ("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username")
        told = [f"{name}={self.options[name]}" for name in shown if name in self.options]
        return ", ".join(told) or "no security options (plain text)"


def _java(connection: Connection) -> dict[str, str]:
    options = connection.options
    java = {"bootstrap.servers": connection.bootstrap}
    unknown = sorted(n for n in options if n.startswith(_SECURITY_PREFIXES) and n not in _TRANSLATED)
    if unknown:
        raise _untranslatable(f"`{unknown[0]}` has no counterpart in Spark's Kafka client", unknown[0])
    protocol = options.get("security.protocol", "plaintext").upper()
    if protocol != "PLAINTEXT":
        java["security.protocol"] = protocol
    if protocol.startswith("SASL_"):
        java |= _java_sasl(options)
    if protocol.endswith("SSL"):
        java |= _java_ssl(options)
    return java


def _java_sasl(options: Mapping[str, str]) -> dict[str, str]:
    mechanism = options.get("sasl.mechanism", options.get("sasl.mechanisms", "GSSAPI")).upper()
    module = _LOGIN_MODULES.get(mechanism)
    if module is None:
        raise _untranslatable(f"the SASL mechanism `{mechanism}` cannot be passed to Spark", mechanism)
    user, password = _jaas(options.get("sasl.username", "")), _jaas(options.get("sasl.password", ""))
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{module} required username={user} password={password};",
    }


def _jaas(text: str) -> str:
    """A quoted JAAS value; the reader of it (Java's StreamTokenizer) knows C's escapes."""
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, escaped)
    return f'"{text}"'


def _java_ssl(options: Mapping[str, str]) -> dict[str, str]:
    java: dict[str, str] = {}
    authorities = _pem(options, "ssl.ca")
    if authorities:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
    chain, key = _pem(options, "ssl.certificate"), _pem(options, "ssl.key")
    if chain and key:
        if "PRIVATE KEY" in key and "BEGIN PRIVATE KEY" not in key and "BEGIN ENCRYPTED PRIVATE KEY" not in key:
            raise LogError(
                "HR-204",
                "The client key is not in PKCS #8 form, and Java reads no other",
                found=key.strip().splitlines()[0],
                fix="convert it: openssl pkcs8 -topk8 -nocrypt -in client.key -out client.pk8.key",
            )
        java |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
        if "ENCRYPTED" in key and "ssl.key.password" in options:
            java["ssl.key.password"] = options["ssl.key.password"]
    elif "ssl.keystore.location" in options:
        java |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": options["ssl.keystore.location"]}
        if "ssl.keystore.password" in options:
            java["ssl.keystore.password"] = options["ssl.keystore.password"]
    if "ssl.endpoint.identification.algorithm" in options:
        algorithm = options["ssl.endpoint.identification.algorithm"]
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return java


def _pem(options: Mapping[str, str], name: str) -> str | None:
    if f"{name}.pem" in options:
        return options[f"{name}.pem"]
    location = options.get(f"{name}.location")
    if location is None or location == "probe":
        return None
    try:
        return Path(location).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(
            "HR-204",
            f"The file of `{name}.location` cannot be read as PEM text: {error}",
            found=location,
            fix="correct the path under [kafka] in headrace.toml; the file must be PEM",
        ) from None


def _untranslatable(what: str, found: str) -> LogError:
    return LogError(
        "HR-204",
        f"A security option cannot be given to Spark: {what}",
        found=found,
        fix="use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 with a user and a password, or client certificates in PEM",
    )
