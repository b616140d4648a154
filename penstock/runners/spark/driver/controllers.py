"""What hears the reports of a run: decides about filters, prices, memory, contracts, loss, partitions; remembers costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.errors import PenstockError
from penstock.kernel.work import Price
from penstock.lowering.jobs import Job
from penstock.model.elements import PARTITIONS
from penstock.operators.filtering.status import FilterStatus
from penstock.runners.memory import MemorySharing
from penstock.runners.spark.driver.contracts import ContractController
from penstock.runners.spark.driver.costs import CostRecorder
from penstock.runners.spark.driver.filter_orders import FilterController
from penstock.runners.spark.driver.kafka_partitions import KafkaPartitions, asked_streams, decided_partitions
from penstock.runners.spark.driver.launch import Launch
from penstock.runners.spark.driver.memory import MemoryController, begin_sharing
from penstock.runners.spark.driver.prices import PriceController
from penstock.runners.spark.driver.report_listener import Listener
from penstock.runners.spark.driver.reports import BatchReport
from penstock.runners.spark.driver.shedding import LossController

Report = Callable[[], BatchReport | None]


class Controllers:
    """All of them, for the queries that run now.

    Parameters
    ----------
    report, last_report
        The last micro-batch with work, and the newest one, which is cheaper to ask for.
    refuse
        Stops the run for a reason.
    """

    def __init__(
        self, launch: Launch, is_active: Callable[[], bool], report: Report, last_report: Report,
        refuse: Callable[[PenstockError], None],
    ) -> None:  # fmt: skip
        self._refuse = refuse
        self._checkpoint = launch.checkpoint
        self._launch = launch
        self._sharing: MemorySharing | None = None
        self._is_active = is_active
        self._last_report = last_report
        #: Whether work is limited, so that what operators cost decides about something.
        self.has_budget = bool(launch.options.budget)
        self._learns = launch.options.learn_prices
        self._orders: FilterController | None = None
        self._prices: PriceController | None = None
        self._listening: list[Listener] = []

    def begin(self, job: Job) -> None:
        """Decide about the queries of a job from now on."""
        self._begin(job, self._launch.sharing(job))

    def _begin(self, job: Job, sharing: MemorySharing | None) -> None:
        control = self._checkpoint.control
        self._sharing = sharing
        begin_sharing(control, sharing)
        self._orders = FilterController(job, self._checkpoint, self._last_report)
        found: list[Listener] = [self._orders] if self._orders.is_needed else []
        if sharing:
            found.append(MemoryController(sharing, control, self._last_report, self._refuse))
        has_deadlines = any(terms.has_validity for stage in job.stages for terms in stage.graph.terms.values())
        self._prices = PriceController(job, control, self._last_report, lambda: self._learns and (self.has_budget or has_deadlines))
        found.append(self._prices)
        contracts = ContractController(job, self._checkpoint, self._last_report, lambda: self.has_budget, self._launch.losses)
        found += [contracts] if contracts.is_needed else []
        cores = int(self._launch.spark.sparkContext.defaultParallelism)
        self._launch.losses.controller = self._loss_controller(job, cores)
        found.append(CostRecorder(job, self._checkpoint, self._last_report, cores, self.prices))
        topics = asked_streams(job)
        if topics:
            found.append(KafkaPartitions(topics, control, self._last_report))
        for listener in found:
            listener.start(self._is_active)
        self._listening = found

    def _loss_controller(self, job: Job, cores: int) -> LossController | None:
        """Who decides about loss. What is processed once and then stops has no latency to keep, whatever contracts say."""
        if self._launch.options.available_now:
            return None
        options = self._launch.options
        found = LossController(job, self._checkpoint, self._last_report, self.prices, options.trigger, cores, options.suspend)
        losses = self._launch.losses
        found.go_on(losses.controller.learnt() if losses.controller is not None else losses.learnt)
        return found if found.is_needed else None

    def shared_among(self, job: Job) -> MemorySharing | None:
        """How the limit of memory will be shared when the queries are others; None: there is none.

        Raises
        ------
        OutOfMemory
            When it does not hold what their joins need at least.
        """
        return self._sharing.following(job) if self._sharing else None

    def change(self, job: Job, sharing: MemorySharing | None) -> None:
        """Decide about other queries from now on. Entries that are new have not heard how many partitions there are."""
        self._stop_listening()
        control = self._checkpoint.control
        for stream, count in decided_partitions(control).items():
            if stream in asked_streams(job):
                control.append(PARTITIONS, {"stream": stream, "count": count})
        self._begin(job, sharing)

    def statuses(self) -> tuple[FilterStatus, ...]:
        """How adaptive filters stand."""
        return self._orders.statuses if self._orders is not None else ()

    def prices(self) -> Mapping[str, Sequence[Price]]:
        """What operators cost, by port, as far as it is known."""
        return self._prices.learning.prices if self._prices is not None else {}

    def stop(self) -> None:
        self._stop_listening()

    def _stop_listening(self) -> None:
        for listener in self._listening:
            listener.stop()
        self._listening = []
