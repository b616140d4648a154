"""Penstock: a data stream management system on Apache Spark that uses what is known about its streams.

>>> import penstock as ps
>>> app = ps.App.from_text("CREATE STREAM s (k BIGINT, t BIGINT, WATERMARK t DELAY OF 0) USING feed;")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.metadata.constraints.workflows.workflow import Workflow as Workflow
    from penstock.model.event_patterns import absent as absent
    from penstock.model.event_patterns import any_of as any_of
    from penstock.model.event_patterns import atom as atom
    from penstock.model.event_patterns import both as both
    from penstock.model.event_patterns import either as either
    from penstock.model.event_patterns import seq as seq
    from penstock.runners.spark.data_path.files import parquet as parquet
    from penstock.runners.spark.dataframes.filtering import filter as filter
    from penstock.runners.spark.dataframes.functions import aggregate as aggregate
    from penstock.runners.spark.dataframes.functions import join as join
    from penstock.runners.spark.dataframes.inputs import stream as stream
    from penstock.runners.spark.dataframes.matching import match as match
    from penstock.runners.spark.driver.app import App as App

__version__ = "0.1.0"

#: Where each public name lives. Loaded on first use: a Spark worker that needs one operator must not import everything.
_EXPORTS = {
    "App": "penstock.runners.spark.driver.app",
    "Workflow": "penstock.metadata.constraints.workflows.workflow",
    "absent": "penstock.model.event_patterns",
    "aggregate": "penstock.runners.spark.dataframes.functions",
    "any_of": "penstock.model.event_patterns",
    "atom": "penstock.model.event_patterns",
    "both": "penstock.model.event_patterns",
    "either": "penstock.model.event_patterns",
    "filter": "penstock.runners.spark.dataframes.filtering",
    "join": "penstock.runners.spark.dataframes.functions",
    "match": "penstock.runners.spark.dataframes.matching",
    "parquet": "penstock.runners.spark.data_path.files",
    "seq": "penstock.model.event_patterns",
    "stream": "penstock.runners.spark.dataframes.inputs",
}


#: What `from penstock import *` and tools that look at modules find; the same names as above, written out for type checkers.
__all__ = [
    "App",
    "Workflow",
    "__version__",
    "absent",
    "aggregate",
    "any_of",
    "atom",
    "both",
    "either",
    "filter",
    "join",
    "match",
    "parquet",
    "seq",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'; it has {', '.join(_EXPORTS)}")
    from importlib import import_module

    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return [*_EXPORTS, "__version__"]
