#!/bin/sh
# Prepare this folder: a virtual environment with pinned dependencies, and a Java that Spark can use.
# Needs Python 3.11 or newer and the package registries; nothing is changed outside this folder, except that a missing
# Java or a missing python3-venv is installed where apt-get works as root.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
can_install() { command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; }

# Only called where can_install says yes. Lists of packages may be missing on a fresh machine.
install() {
    say "installing with apt-get the first that exists of: $*"
    DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null 2>&1 || true
    for package in "$@"; do
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 && return 0
    done
    return 1
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        if command -v "$name" >/dev/null 2>&1 && is_new_enough "$name"; then
            command -v "$name"
            return
        fi
    done
    fail "Python 3.11 or newer is needed and none was found; install it (Debian, Ubuntu: apt-get install python3 python3-venv;" \
        "macOS: brew install python@3.12) or name it: make PYTHON=/path/to/python"
}

make_environment() {
    python=$(find_python)
    say "creating .venv with $("$python" --version 2>&1) ($python)"
    if ! "$python" -m venv .venv >/dev/null 2>&1; then
        # Debian ships venv without the pip it needs; the package is named after the interpreter's version.
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        hint="apt-get install python$version-venv"
        can_install || fail "'$python -m venv' does not work; install the missing part ($hint) and try again"
        install "python$version-venv" python3-venv || fail "python3-venv could not be installed; try: $hint"
        rm -rf .venv
        "$python" -m venv .venv || fail "'$python -m venv' still does not work"
    fi
}

install_packages() {
    say "installing the pinned dependencies"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement requirements.lock
    # The build tools are pinned above, so nothing else is fetched.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
}

has_java() { .venv/bin/python -c 'from penstock.runners.spark.processes.java import find_java; find_java()' 2>/dev/null; }

find_java() {
    has_java && return
    if can_install && install openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless && has_java; then
        return
    fi
    # The sentence that says how is the one users get from Penstock itself.
    .venv/bin/python -c '
from penstock.errors import PenstockError
from penstock.runners.spark.processes.java import find_java
try:
    find_java()
except PenstockError as missing:
    raise SystemExit(f"setup: {missing.message}")'
}

# A virtual environment that was copied or whose interpreter is gone is made anew.
if ! .venv/bin/python -c '' 2>/dev/null; then
    rm -rf .venv
    make_environment
fi
install_packages
find_java
say "compiling inner loops"
.venv/bin/python -m penstock.apps.warm_up
say "starting Spark once, so that later starts are quick"
.venv/bin/python -m penstock.apps.first_start || say "that did not work; later starts take some seconds longer"
touch .venv/.ready
say "ready"
