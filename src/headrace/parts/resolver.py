"""A process of its own that resolves Maven coordinates with the Ivy inside pyspark.

`python resolver.py REQUEST ANSWER` reads a JSON request and writes the paths of the jar files to ANSWER. What Ivy says
goes to standard output. It is a process of its own so that the JVM of the caller, if it has one, is not touched; its
own JVM ends with it, because Spark's gateway ends when the pipe from its parent breaks.

Besides Java's own certificate authorities it trusts those of the machine, as other downloads do: behind a proxy with an
authority of its own, only the machine's bundle knows it.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
from pathlib import Path
from typing import Any

_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def resolve(coordinates: str, transitive: bool, downloads: str) -> list[str]:
    """The jar files of comma-separated coordinates; Ivy keeps what it downloads under `downloads`."""
    for name in ("SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR"):
        os.environ.pop(name, None)  # they would launch another Spark than the one installed with us
    from pyspark.java_gateway import launch_gateway

    gateway: Any = launch_gateway()
    try:
        jvm = gateway.jvm
        _trust_the_machine(jvm)

        def singleton(name: str) -> Any:
            return jvm.java.lang.Class.forName(name).getField("MODULE$").get(None)

        maven, none, said = singleton("org.apache.spark.util.MavenUtils$"), singleton("scala.None$"), jvm.System.out
        settings = maven.buildIvySettings(none, jvm.scala.Some(downloads), False, said)
        nothing = singleton("scala.collection.immutable.Nil$")
        jars = maven.resolveMavenCoordinates(coordinates, settings, none, transitive, nothing, False, said)
        return [jars.apply(i) for i in range(jars.size())]
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


def _trust_the_machine(jvm: Any) -> None:
    given = (os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, *_BUNDLES)
    bundle = next((path for path in given if path and Path(path).is_file()), None)
    own = Path(jvm.System.getProperty("java.home"), "lib", "security", "cacerts")
    if bundle is None or not own.is_file() or jvm.System.getProperty("javax.net.ssl.trustStore"):
        return
    store = jvm.java.security.KeyStore.getInstance("JKS")
    store.load(jvm.java.io.FileInputStream(str(own)), None)
    factory = jvm.java.security.cert.CertificateFactory.getInstance("X.509")
    for number, certificate in enumerate(factory.generateCertificates(jvm.java.io.FileInputStream(bundle)).toArray()):
        store.setCertificateEntry(f"machine-{number}", certificate)
    managers = jvm.javax.net.ssl.TrustManagerFactory.getInstance("PKIX")
    managers.init(store)
    context = jvm.javax.net.ssl.SSLContext.getInstance("TLS")
    context.init(None, managers.getTrustManagers(), None)
    jvm.javax.net.ssl.SSLContext.setDefault(context)
    jvm.javax.net.ssl.HttpsURLConnection.setDefaultSSLSocketFactory(context.getSocketFactory())


def main(request: Path, answer: Path) -> None:
    """Answer one request."""
    answer.write_text(json.dumps(resolve(**json.loads(request.read_text(encoding="utf-8")))), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
