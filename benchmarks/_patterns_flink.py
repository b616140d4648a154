"""The Flink side of `benchmarks.patterns`: runs inside the environment that has apache-flink, and imports nothing of ours.

python _patterns_flink.py JOB.json prints one JSON line for each job: its name, net seconds and number of matches.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment

_SOURCE = """
CREATE TABLE events (
  id BIGINT, kind STRING, price BIGINT, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'parquet', 'parquet.utc-timezone' = 'true')
"""
_SINK = "CREATE TABLE found (id BIGINT, first_price BIGINT, last_price BIGINT) WITH ({options})"


def environment(cores: int, checkpoints: str) -> TableEnvironment:
    """Two slots, state on the heap, objects reused: the fastest settings that keep exactly-once."""
    settings = Configuration()
    for name, value in {
        "parallelism.default": str(cores),
        "taskmanager.numberOfTaskSlots": str(cores),
        "taskmanager.memory.managed.size": "64m",
        "state.backend.type": "hashmap",
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.dir": f"file://{checkpoints}",
        "pipeline.object-reuse": "true",
        "rest.port": "0",
        "rest.bind-port": "0",
    }.items():
        settings.set_string(name, value)
    return TableEnvironment.create(EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(settings).build())


def matches_in(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*") if path.is_file() and "part-" in path.name)


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """One query from the files to a folder of matches."""
    folder = Path(tempfile.mkdtemp(prefix="flink-patterns-"))
    try:
        tables = environment(job["cores"], str(folder / "checkpoints"))
        tables.execute_sql(_SOURCE.format(path=job["path"]))
        tables.execute_sql(_SINK.format(options=f"'connector'='filesystem','path'='{folder / 'out'}','format'='csv'"))
        started = tables.execute_sql(f"INSERT INTO found {job['query']}")
        client = started.get_job_client()
        assert client is not None
        result = client.get_job_execution_result().result()
        return {"name": job["name"], "seconds": result.get_net_runtime() / 1000, "matches": matches_in(folder / "out")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    for job in json.loads(Path(sys.argv[1]).read_text()):
        print(json.dumps(run_job(job)), flush=True)


if __name__ == "__main__":
    main()
