"""Java archives of a Kafka broker and of Spark's connector: fetched once by name from a Maven repository, and kept.

``python -m penstock.testing.kafka.jars`` fetches them (19 MB); whoever needs one that is missing does so too.
``MAVEN_REPOSITORY`` names another repository than Maven Central.
"""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from penstock.errors import CapacityError

_CENTRAL = "https://repo1.maven.org/maven2"
_PATIENCE_S = 60
#: By group, artifact and version: the SHA-256 of the archive that was tried.
Archives: TypeAlias = Mapping[str, str]

_CLIENTS = {"org.apache.kafka:kafka-clients:3.9.2": "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8"}
#: Spark's connector for Kafka: of each part the newest that Maven repositories had.
CONNECTOR: Archives = _CLIENTS | {
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0": "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0":
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    "org.apache.commons:commons-pool2:2.13.1": "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
}  # fmt: skip
#: What a broker needs beside the archives that come with Spark.
BROKER: Archives = _CLIENTS | {
    "org.apache.kafka:kafka_2.13:3.9.2": "dddf49b18c931301fece0048a76d6b0956c36c8b1d1fc721bfed318aa6ee3e4f",
    "org.apache.kafka:kafka-server-common:3.9.2": "0374b3f13c3c4b7fd446d35df1ccb0c60931ea27d4972b4de1bb1d548a87f5b2",
    "org.apache.kafka:kafka-group-coordinator-api:3.9.2": "bd903ba506c8309401a331ef1b826612d1cb95862879551031428da5cf50eab6",
    "org.apache.kafka:kafka-group-coordinator:3.9.2": "d4d57f0955895cc38381f346f5ff7eba487afafa5ba264804af18393305b32fd",
    "org.apache.kafka:kafka-transaction-coordinator:3.9.2": "d6ca25648111dfd11f76d3d0f7f51a9458784b645f4e56ce34fbc58d9c9d0296",
    "org.apache.kafka:kafka-metadata:3.9.2": "ffe970aee12f00df4b0162f31c719df7c412f9207c166a74cef6611be25a255e",
    "org.apache.kafka:kafka-storage-api:3.9.2": "565ab8540b50c7f00ea62c77a6639237ed3a80550245be70dc733f157cd280d6",
    "org.apache.kafka:kafka-storage:3.9.2": "8a3d7b67dfcd34b1334d4994ed4106ba9c9b37ebcbb177ac47ff44050e8ab84b",
    "org.apache.kafka:kafka-raft:3.9.2": "f897533828e55ac466a5b183a25dccbe5a7b97c02162dac38e25338feddfe422",
    "org.apache.kafka:kafka-server:3.9.2": "4f8667dbd664c4b0906e05499cfdc5f558f14c098b77fa6c09656cceb62a63ef",
    "net.sf.jopt-simple:jopt-simple:5.0.4": "df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28",
    "com.yammer.metrics:metrics-core:2.2.0": "6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c",
    "com.typesafe.scala-logging:scala-logging_2.13:3.9.5": "87a3017d3f43e6ace7566fe4c3d615134c6914ff871c8d64bb32ca1d996d0545",
    "commons-validator:commons-validator:1.9.0": "c3c14748e2d78db58df88808740711bd643b32c45ffa7b8a739f00fb467cd7d7",
    "org.scala-lang.modules:scala-java8-compat_2.13:1.0.2": "90d5b13656be93fb779b8d7c723efa2498a34af06273bb5204afb65f85a20c1b",
    "org.pcollections:pcollections:4.0.1": "1f82766d7c3221930854033bebff5073ea46b43f27326074bbe15d148c18bfb3",
    "com.github.ben-manes.caffeine:caffeine:2.9.3": "1e0a7bbef1dd791653143f3f05d0e489934bf5481e58a87c9e619cd46b68729b",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.16.2":
        "3e9b1b59f638b487b5ae0e2f4190fc98f72b0bf661324e7dfc71a69f6b9d4e29",
}  # fmt: skip


class ArchiveMissing(CapacityError):
    code = "testing.archive-missing"


def fetched(archives: Archives) -> list[Path]:
    """Where the archives are on this machine; those that were missing have been fetched."""
    return [_fetched(name, digest) for name, digest in archives.items()]


def _fetched(coordinates: str, digest: str) -> Path:
    group, artifact, version = coordinates.split(":")
    name = f"{artifact}-{version}.jar"
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "jars" / name
    if kept.is_file():
        return kept
    address = "/".join((os.environ.get("MAVEN_REPOSITORY", _CENTRAL), *group.split("."), artifact, version, name))
    content = _download(address)
    if hashlib.sha256(content).hexdigest() != digest:
        raise ArchiveMissing(f"{address} is another file than the one that was tried; fetch it from another repository")
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_name(f"{name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(kept)  # a reader finds the whole of it or nothing
    return kept


def _download(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=_PATIENCE_S) as answer:
            content: bytes = answer.read()
    except (urllib.error.URLError, OSError) as failure:
        raise ArchiveMissing(
            f"{address} cannot be fetched ({failure}); name a repository that has it with MAVEN_REPOSITORY"
        ) from failure
    return content


if __name__ == "__main__":
    fetched({**BROKER, **CONNECTOR})
