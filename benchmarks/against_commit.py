"""The speed of this checkout over that of another one, in one run: joins on Spark, patterns in process.

Both are measured by their own benchmarks, each in processes of its own, which take turns (this, other, other, this …), so that what
else the machine does hits both. The median of the rounds counts; `ratio` is this one's speed over the other's.

    git worktree add ../before COMMIT && (cd ../before && make setup)
    python -m benchmarks.against_commit --other ../before [--rounds 3] [--only window_join,punctuated_join]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import main

#: What each process runs: it prints rows per second as its last line. Names must exist in both checkouts.
PARTS = {
    "window_join": """
from benchmarks.common import session
from benchmarks.window_join import WARM_UP, ours
spark = session()
ours(spark, WARM_UP, "bigint")
print(ours(spark, 16, "bigint").rows_per_second)
""",
    "punctuated_join": """
from benchmarks.common import session
from benchmarks.punctuated_join import BIDS, ours, rows_of, timed
spark = session()
timed("warming up", ours(spark, 4), rows_of(BIDS))
print(timed("penstock", ours(spark, 10), rows_of(BIDS)).rows_per_second)
""",
    "multiway_join": """
import tempfile
from pathlib import Path
from benchmarks.common import session
from benchmarks.multiway_join import SHARDS, on_spark, run_of, speed, write
spark, folder = session(SHARDS), Path(tempfile.mkdtemp(prefix="penstock-bench-"))
write(folder / "short", run_of(2)), write(folder / "whole", run_of(12))
on_spark(spark, folder / "short", "agreedy")
print(speed(on_spark(spark, folder / "whole", "agreedy")))
""",
    "patterns": """
from benchmarks.patterns import kernel
print(kernel()["seq"]["events_per_second"])
""",
    "contiguous_patterns": """
from benchmarks.patterns import kernel
print(kernel()["contiguous"]["events_per_second"])
""",
}
HERE = Path(__file__).resolve().parent.parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, required=True, help="a checkout of another commit that has been set up")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(PARTS))
    return parser.parse_args()


def speed_in(checkout: Path, code: str) -> float:
    """Rows per second that the benchmark of a checkout measures."""
    python = checkout / ".venv" / "bin" / "python"
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run([python, "-c", code], cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the benchmark failed in {checkout}:\n{done.stderr[-3000:]}")
    return float(done.stdout.strip().splitlines()[-1])


def compared(name: str, other: Path, rounds: int) -> dict[str, Any]:
    """One benchmark in both checkouts, by turns."""
    found: dict[Path, list[float]] = {HERE: [], other: []}
    for number in range(rounds):
        for checkout in (HERE, other) if number % 2 == 0 else (other, HERE):
            found[checkout].append(speed_in(checkout, PARTS[name]))
            print(f"{name:20s} {checkout.name:12s} {found[checkout][-1]:14,.0f} rows/s", file=sys.stderr, flush=True)
    mine, theirs = (statistics.median(found[checkout]) for checkout in (HERE, other))
    return {
        "ratio": round(mine / theirs, 3),
        "rows_per_second": [round(each) for each in found[HERE]],
        "before": [round(each) for each in found[other]],
    }


def run() -> Mapping[str, Any]:
    given = arguments()
    other = given.other.resolve()
    describe = ["git", "-C", str(other), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(describe, capture_output=True, text=True, check=True).stdout.strip()
    parts = {name: compared(name, other, given.rounds) for name in given.only.split(",")}
    return {"ratio": min(part["ratio"] for part in parts.values()), "other": commit, **parts}


if __name__ == "__main__":
    main("against_commit", run)
