"""Everything between an edition of an application and its running query."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from penstock.errors import UserError
from penstock.lowering.jobs import Job
from penstock.model.sizes import size_in_bytes
from penstock.plan.analysis.clock import tick_us
from penstock.runners.editions.edition import Edition
from penstock.runners.memory import MemorySharing
from penstock.runners.spark.checkpoints.checkpoint import Checkpoint
from penstock.runners.spark.checkpoints.editions import Editions
from penstock.runners.spark.data_path.control import control_frame
from penstock.runners.spark.data_path.pipeline import application_frame
from penstock.runners.spark.data_path.sources import read_stream
from penstock.runners.spark.driver.budget import decide_budget, share_of_shard
from penstock.runners.spark.driver.delivery import Delivery
from penstock.runners.spark.driver.deployment import Deployments, Functions
from penstock.runners.spark.driver.kafka_partitions import ask_partitions, asked_streams
from penstock.runners.spark.driver.losses import Losses
from penstock.runners.spark.driver.policies import Policies, Told


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """How an application shall run; as `App.start` has it."""

    policy: Told
    trigger: str | None
    available_now: bool
    budget: str | None
    quarantine: str
    watch_joins: bool
    memory: str | None
    append: bool
    learn_prices: bool = True
    suspend: bool = False


class Launch:
    """Starts Spark queries for editions of one application, one after the other."""

    def __init__(
        self, checkpoint: Checkpoint, spark: SparkSession, shards: int, options: LaunchOptions, functions: Functions
    ) -> None:
        self.checkpoint = checkpoint
        self.spark = spark
        self.shards = shards
        self.options = options
        self.deployments = Deployments(
            checkpoint, spark, shards, uuid.uuid4().hex, options.watch_joins, options.quarantine, options.append,
            functions,
        )  # fmt: skip
        if checkpoint.has_ended():
            raise UserError(
                f"the streams of checkpoint '{checkpoint.directory}' were ended by an earlier run, so no row can follow; "
                "use a new checkpoint"
            )
        checkpoint.control.note_stop(False)
        decide_budget(checkpoint.control, self._budget_of_shard())
        Policies(checkpoint).begin(options.policy)
        self.losses = Losses(checkpoint)

    def start(self, edition: Edition) -> tuple[Any, Delivery]:
        """The Spark query of an edition, and what becomes of its micro-batches."""
        deployment = self.deployments.base(edition, not self.options.budget and self._is_alone(edition))
        self.sharing(deployment.job)  # a limit of memory that is none, or too small, is refused before anything runs
        catalog, checkpoint = deployment.catalog, self.checkpoint
        control, loop = checkpoint.control.directory, checkpoint.loop
        controls = control_frame(self.spark, str(control), self.shards, str(loop.directory), tick_us(catalog))
        read = partial(read_stream, self.spark, control=control)
        frame = application_frame(deployment.host, deployment.streams, read, controls)
        ask_partitions(self.spark, asked_streams(deployment.job), checkpoint.control)
        self.losses.begin()
        delivery = Delivery(Editions(checkpoint), self.deployments, deployment, loop, self.losses)
        writer = frame.writeStream.queryName(catalog.name.replace(".", "_"))
        writer = writer.foreachBatch(delivery).option("checkpointLocation", checkpoint.spark)
        if self.options.available_now:
            writer = writer.trigger(availableNow=True)
        elif self.options.trigger:
            writer = writer.trigger(processingTime=self.options.trigger)
        return writer.start(), delivery

    def sharing(self, job: Job) -> MemorySharing | None:
        """How joins share the limit of memory; None: there is none."""
        return MemorySharing(job, size_in_bytes(self.options.memory)) if self.options.memory else None

    def _is_alone(self, edition: Edition) -> bool:
        last = self.checkpoint.last("offsets")
        return last is None or last == self.checkpoint.last("commits") or Editions(self.checkpoint).at(last).edition == edition

    def _budget_of_shard(self) -> int | None:
        if not self.options.budget:
            return None
        return share_of_shard(self.options.budget, self.shards, self.spark.sparkContext.defaultParallelism)
