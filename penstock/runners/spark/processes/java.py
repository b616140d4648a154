"""Find a Java that Spark can use."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from penstock.errors import CapacityError

LEAST_JAVA = 17

_USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/*jdk*",
    "/opt/*jre*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)


class JavaMissing(CapacityError):
    code = "spark.java-missing"


def find_java() -> Path:
    """Home of a Java of version 17 or newer: JAVA_HOME, then PATH, then the usual places.

    Raises
    ------
    JavaMissing
        With the sentence that says how to get one.
    """
    for home in _candidates():
        if java_version(home) >= LEAST_JAVA:
            return home
    raise JavaMissing(
        f"Spark needs Java {LEAST_JAVA} or newer and none was found in JAVA_HOME, PATH or the usual places; install one "
        "(Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17) or set JAVA_HOME"
    )


def use_java() -> Path:
    """Point this process, and so Spark, to the Java found."""
    home = find_java()
    os.environ["JAVA_HOME"] = str(home)
    return home


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent
    for pattern in _USUAL_PLACES:
        yield from (Path(place) for place in sorted(glob.glob(os.path.expanduser(pattern)), reverse=True))


@cache
def java_version(home: Path) -> int:
    """Major version of the Java at `home`; 0 if there is none.

    Examples
    --------
    >>> java_version(Path("/nowhere"))
    0
    """
    program = home / "bin" / "java"
    if not program.exists():
        return 0
    try:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except OSError:
        return 0
    found = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if not found:
        return 0
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major
