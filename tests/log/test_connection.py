from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from headrace.errors import LogError
from headrace.log.connection import Connection
from headrace.settings import Settings

KEY = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nBBBB\n-----END CERTIFICATE-----\n"


def test_options_of_the_settings_go_to_every_client() -> None:
    settings = Settings(kafka={"security.protocol": "SASL_SSL", "client.id": "mine"})
    client = Connection.of(settings, "broker:9092").client(**{"group.id": "g"})
    assert client["bootstrap.servers"] == "broker:9092"
    assert client["security.protocol"] == "SASL_SSL"
    assert client["client.id"] == "mine"
    assert client["group.id"] == "g"


def test_spark_needs_only_the_address_of_a_plain_broker() -> None:
    assert Connection("broker:9092", {"client.id": "mine"}).spark() == {"kafka.bootstrap.servers": "broker:9092"}


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")]
)
def test_user_and_password_become_a_jaas_line(mechanism: str, module: str) -> None:
    spark = Connection(
        "broker:9092",
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": mechanism,
            "sasl.username": "al\\ice",
            "sasl.password": 'se"cret;\n',
        },
    ).spark()
    assert spark == {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
        'username="al\\\\ice" password="se\\"cret;\\n";',
    }


def test_certificates_travel_as_text(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(CERTIFICATE)
    spark = Connection(
        "broker:9092",
        {
            "security.protocol": "SSL",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.certificate.pem": CERTIFICATE,
            "ssl.key.pem": KEY,
            "ssl.endpoint.identification.algorithm": "none",
        },
    ).spark()
    assert spark == {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": CERTIFICATE,
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": CERTIFICATE,
        "kafka.ssl.keystore.key": KEY,
        "kafka.ssl.endpoint.identification.algorithm": "",
    }


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}, "enable.ssl"),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"}, "/nowhere/ca.pem"),
        ({"security.protocol": "SSL", "ssl.certificate.pem": "x", "ssl.key.pem": "BEGIN RSA PRIVATE KEY"}, "RSA"),
    ],
)
def test_security_is_never_dropped(options: dict[str, str], named: str) -> None:
    with pytest.raises(LogError) as caught:
        Connection("broker:9092", options).spark()
    assert caught.value.code == "HR-204"
    assert named in str(caught.value.found)


def test_secrets_are_not_shown_and_survive_pickling() -> None:
    connection = Connection("broker:9092", {"sasl.password": "hunter2"})
    assert "hunter2" not in repr(connection)
    assert pickle.loads(pickle.dumps(connection)) == connection


def test_a_broker_that_does_not_answer_is_named(unreachable: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.log.connection.TIMEOUT_S", 1.0)
    with pytest.raises(LogError, match=r"127\.0\.0\.1:1.*refused") as caught:
        unreachable.metadata()
    assert caught.value.code == "HR-201"


def test_the_wrong_protocol_is_told(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.log.connection.TIMEOUT_S", 2.0)
    options = {"security.protocol": "SSL", "sasl.username": "u", "ssl.key.password": "hunter2"}
    with pytest.raises(LogError) as caught:
        Connection(bootstrap, options).metadata()
    assert caught.value.code in ("HR-201", "HR-202")
    assert "SSL" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_client_option_is_named(bootstrap: str) -> None:
    with pytest.raises(LogError, match=r"sasl\.usrname") as caught:
        Connection(bootstrap, {"sasl.usrname": "u"}).admin()
    assert caught.value.code == "HR-207"
