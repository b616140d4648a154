"""The command line: each command parses its arguments and calls one function.

Commands import what they need when they run: those that only read text start no Spark and answer at once.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from penstock import __version__
from penstock.apps.table import EXAMPLES
from penstock.errors import Defect, Interrupted, PenstockError, UserError
from penstock.experiments.table import REPRODUCTIONS
from penstock.qos.scheduling.table import POLICIES, make_policy

#: Of an option that names a strategy.
_WHICH_POLICY = f"Which waiting work goes first: {', '.join(POLICIES)}; with parameters: threshold(memory='200 MB')."
_USER_ERROR, _FAILURE, _INTERRUPTED, _CLOSED_OUTPUT = 2, 1, 130, 141


class Commands(TyperGroup):
    """Turns exceptions into sentences and exit codes; `--debug` may stand anywhere and shows the traceback instead."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--debug" in args:
            args = ["--debug", *(arg for arg in args if arg != "--debug")]
        found: list[str] = super().parse_args(ctx, args)
        return found

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.TyperException, typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            _complain("stopped at once; unfinished work is repeated when the run continues")
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            # Whoever read the output has seen enough, as `| head` has; what is still buffered must not complain at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_CLOSED_OUTPUT) from None
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            _complain(str(error) if isinstance(error, PenstockError) else str(_unexpected(error)))
            raise typer.Exit(_exit_code(error)) from None


def _exit_code(error: Exception) -> int:
    if isinstance(error, Interrupted):
        return 128 + error.signal
    return _USER_ERROR if isinstance(error, UserError) else _FAILURE


def _unexpected(error: Exception) -> Defect:
    return Defect(f"{type(error).__name__}: {error}; --debug shows where")


def _complain(text: str) -> None:
    Console(stderr=True).print(Text(text, style="red"), soft_wrap=True)


def _known_policy(written: str | None) -> str | None:
    """As behind SET POLICY, so with parameters or without."""
    if written is not None:
        from penstock.language.application import parse_policy

        chosen = parse_policy(written)
        make_policy(chosen.name, chosen.parameters)
    return written


app = typer.Typer(
    cls=Commands,
    help="Continuous queries on PySpark Structured Streaming, with bounded state.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

File = Annotated[str, typer.Argument(metavar="FILE", help=f"An application in SQL, or an example: {', '.join(EXAMPLES)}.")]
Reset = Annotated[list[str] | None, typer.Option(help="A query to start without its state in the checkpoint; may be repeated.")]
Force = Annotated[
    bool, typer.Option("--force", help="Start queries also if, by what was measured, a promise with MUST could not be kept.")
]
OfRun = Annotated[Path | None, typer.Option(help="Directory of the run. Default: the only one in .penstock.")]
Json = Annotated[bool, typer.Option("--json", help="Print data instead of text.")]
Shards = Annotated[int, typer.Option(min=1, help="Parallel shards per stage.")]


@app.callback()
def options(debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False) -> None:
    """Options of all commands."""


@app.command()
def run(
    file: File,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Directory of progress and state; a later run continues from it. Default: .penstock/NAME.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after this time.")] = None,
    trigger: Annotated[str | None, typer.Option(help="Time between micro-batches, such as '1 second'.")] = None,
    available_now: Annotated[bool, typer.Option("--available-now", help="Process all available data, then stop.")] = False,
    shards: Annotated[int | None, typer.Option(min=1, help="Parallel shards per stage; fixed with the first run.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master as for spark-submit, such as local[4].")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="A Spark setting, key=value; may be repeated.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            callback=_known_policy,
            help=_WHICH_POLICY,
        ),
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Time operators may work per micro-batch, such as '800 ms'.")] = None,
    quarantine: Annotated[Path | None, typer.Option(help="Directory for refused rows. Default: in the checkpoint.")] = None,
    watch_joins: Annotated[
        bool, typer.Option("--watch-joins", help="Measure how long join keys stay open, to estimate memory; costs about a tenth.")
    ] = False,
    memory: Annotated[
        str | None,
        typer.Option(help="Limit for the state of all operators, such as '512 MB'; joins spill the rest to disk."),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Write beside files of other checkpoints in the output directories, with other names.")
    ] = False,
    reset: Reset = None,
    force: Force = False,
    suspend: Annotated[
        bool,
        typer.Option(
            "--suspend", help="Under overload that no LOSS makes up for, give the least important queries no rows for a while."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run an application until its data ends, --seconds are over, or Ctrl-C.

    If the checkpoint has an earlier version of the application, unchanged queries keep their state; see penstock diff.
    """
    from penstock.apps.running import default_checkpoint, parse_conf, run_application
    from penstock.runners.spark.terminal.foreground import RunOptions

    folder = checkpoint or default_checkpoint(file)
    options = RunOptions(
        folder, seconds=seconds, trigger=trigger, available_now=available_now, shards=shards, master=master,
        conf=parse_conf(conf or []), policy=policy, budget=budget, quarantine=quarantine, log=folder / "penstock" / "spark.log",
        watch_joins=watch_joins, memory=memory, append=append, reset=tuple(reset or ()), force=force, suspend=suspend,
    )  # fmt: skip
    raise typer.Exit(run_application(file, options, as_json))


@app.command()
def explain(
    file: File,
    as_json: Json = False,
    shards: Shards = 2,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Directory of a run: show the current state of its filters and joins, and its prices.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(callback=_known_policy, help="Show what this strategy goes by: paths, segments, priorities.")
    ] = None,
) -> None:
    """Show how an application would run: operators, rounds, keys, what bounds the state, and contracts."""
    from penstock.apps.reading import read_catalog, read_filter_statuses, read_joins, read_prices
    from penstock.language.application import parse_policy
    from penstock.lowering.explain import explain as explained

    filters, joins = (read_filter_statuses(checkpoint), read_joins(checkpoint)) if checkpoint else ((), ())
    prices = read_prices(checkpoint) if checkpoint else ()
    chosen = parse_policy(policy) if policy else None
    _print(explained(read_catalog(file), shards, filters, joins, chosen, prices), as_json)


@app.command()
def plan(
    file: File,
    rate: Annotated[
        list[str] | None,
        typer.Option(help="Rows of a stream per second, such as bid=20000; may be repeated. Default: as measured."),
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores to plan for. Default: those of the run, or 2.")] = None,
    trigger: Annotated[str | None, typer.Option(help="Time between micro-batches, such as '1 second'.")] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Directory of a run whose measured costs count. Default: .penstock/NAME, if there.")
    ] = None,
    trial: Annotated[
        str | None,
        typer.Option(
            help="Measure by a run of this length that writes nowhere; 0: assume usual costs. Default without a run: '20 seconds'."
        ),
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Memory there is for state and queues, such as '2 GB'.")] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw latency against rate into this file, .png or .svg.")] = None,
    as_json: Json = False,
) -> None:
    """Predict latency, load, memory and the highest sustainable rate. Exit code 1 if more rows come than can be processed."""
    from penstock.apps.planning import plan_application, print_plan

    found = plan_application(file, rate or [], cores, trigger, checkpoint, trial, memory)
    print_plan(found, as_json, figure)
    raise typer.Exit(1 if found.plan.is_overloaded else 0)


@app.command()
def tune(
    file: File,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The query whose joins change.")],
    settings: Annotated[list[str], typer.Argument(metavar="NAME=VALUE …", help="Such as memory_bytes=100000000.")],
    checkpoint: Annotated[Path | None, typer.Option(help="Directory of the run. Default: .penstock/NAME.")] = None,
) -> None:
    """Change parameters of joins while an application runs, from its next micro-batch on."""
    from penstock.apps.running import default_checkpoint
    from penstock.apps.tuning import tune_application

    number = tune_application(file, query, settings, checkpoint or default_checkpoint(file))
    print(f"decision {number}: the next micro-batch of '{query}' obeys it")


@app.command()
def policy(
    file: File,
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(POLICIES)}.")],
    settings: Annotated[list[str] | None, typer.Argument(metavar="PARAMETER=VALUE …", help="Such as max_age='10 seconds'.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Directory of the run. Default: .penstock/NAME.")] = None,
) -> None:
    """Choose, while an application runs, which waiting work goes first, from its next micro-batch on."""
    from penstock.apps.running import default_checkpoint
    from penstock.apps.tuning import set_policy

    number = set_policy(file, name, settings or [], checkpoint or default_checkpoint(file))
    print(f"decision {number}: from the next micro-batch on '{name}' chooses what runs next")


@app.command()
def heartbeat(
    file: File,
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="The stream whose event time advances.")],
    moment: Annotated[
        str, typer.Argument(metavar="TIME", help="Such as 2026-01-31T12:00:00Z, or a number if event time is a number.")
    ],
    partition: Annotated[int | None, typer.Option(min=0, help="Only this source partition. Default: all of them.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Directory of the run. Default: .penstock/NAME.")] = None,
) -> None:
    """Declare, while an application runs, that no row older than TIME comes from a stream, so that operators stop waiting."""
    from penstock.apps.running import default_checkpoint
    from penstock.apps.tuning import send_heartbeat

    number = send_heartbeat(file, stream, moment, partition, checkpoint or default_checkpoint(file))
    print(f"decision {number}: from the next micro-batch on rows of '{stream}' that are older than {moment} are late")


@app.command()
def diff(
    file: File,
    checkpoint: Annotated[Path | None, typer.Option(help="Directory of a run. Default: .penstock/NAME.")] = None,
    reset: Reset = None,
    as_json: Json = False,
) -> None:
    """Show what a start with FILE would do with the state of a checkpoint. Changes nothing. Exit code 1 if it would be refused."""
    from penstock.apps.changing import difference
    from penstock.apps.running import default_checkpoint

    found = difference(file, checkpoint or default_checkpoint(file), reset or ())
    _print(found, as_json)
    raise typer.Exit(0 if found.can_start else 1)


@app.command()
def add(
    statements: Annotated[str, typer.Argument(metavar="STATEMENTS", help="Such as 'CREATE CQ …', or a file that ends in .sql.")],
    checkpoint: OfRun = None,
    force: Force = False,
) -> None:
    """Add queries to an application while it runs; they read rows that come from now on."""
    from penstock.apps.changing import add_queries, changes_text, only_checkpoint

    print(changes_text(add_queries(statements, checkpoint or only_checkpoint(), force)))


@app.command()
def drop(query: Annotated[str, typer.Argument(metavar="QUERY", help="The query to drop.")], checkpoint: OfRun = None) -> None:
    """Drop a query of an application while it runs; its state is removed."""
    from penstock.apps.changing import changes_text, drop_query, only_checkpoint

    print(changes_text(drop_query(query, checkpoint or only_checkpoint())))


@app.command("list")
def list_queries(checkpoint: OfRun = None, as_json: Json = False) -> None:
    """List the queries of a checkpoint, since when they run, and where their answers go."""
    from penstock.apps.changing import listing, only_checkpoint

    _print(listing(checkpoint or only_checkpoint()), as_json)


@app.command()
def why(
    file: File,
    query: Annotated[str | None, typer.Option(help="Only what concerns this query.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Directory of a run. Default: .penstock/NAME.")] = None,
    as_json: Json = False,
) -> None:
    """Show what was decided about contracts while an application ran, such as to leave rows out.

    Each decision comes with what was measured, what was promised, the reason, and what it did.
    """
    from penstock.apps.running import default_checkpoint
    from penstock.apps.why import why as explained

    _print(explained(file, checkpoint or default_checkpoint(file), query), as_json)


@app.command()
def check(file: File, as_json: Json = False) -> None:
    """Prove that all state is bounded, or say what is missing, and show contracts. Exit code 1 if state is unbounded."""
    from penstock.apps.checking import check_application
    from penstock.apps.reading import read_catalog

    catalog = read_catalog(file)
    for warning in catalog.warnings:
        typer.echo(f"warning: {warning}", err=True)
    report = check_application(catalog)
    _print(report, as_json)
    raise typer.Exit(0 if report.is_bounded else 1)


@app.command()
def demo(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help=f"One of: {', '.join(EXAMPLES)}.")] = next(iter(EXAMPLES)),
    seconds: Annotated[
        float | None, typer.Option(min=1, help="How long the demo produces rows: by default 60, each run of 'overload' 30.")
    ] = None,
    as_json: Json = False,
    plain: Annotated[bool, typer.Option("--plain", help="Print lines instead of a live table.")] = False,
) -> None:
    """Run an example with its built-in feed on Spark in local mode."""
    from penstock.apps.early_start import begin_demo

    folder = begin_demo(name)
    from penstock.apps.demo import run_demo  # takes seconds, in which Java starts

    raise typer.Exit(run_demo(name, seconds, folder, as_json, plain))


@app.command()
def doctor(
    checkpoint: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Directory of a run.")],
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired without guessing.")] = False,
    as_json: Json = False,
) -> None:
    """Find damage in a checkpoint. Exit code 1 if there is any. Changes nothing without --repair."""
    from penstock.runners.spark.checkpoints import doctor as practice

    diagnosis = practice.repair(checkpoint) if repair else practice.examine(checkpoint)
    _print(diagnosis, as_json)
    raise typer.Exit(0 if diagnosis.is_healthy else 1)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(REPRODUCTIONS)}.")],
    out: Annotated[Path, typer.Option(help="Folder in which NAME/ is written.")] = Path("reproductions"),
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of independent streams to average over; by default 8, 20 or 24.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter streams, two seeds, one timing.")] = False,
    as_json: Json = False,
) -> None:
    """Run published experiments again: figures, and a table of the claims that held and that did not."""
    from penstock.experiments.running import run_reproduction

    run_reproduction(name, seeds, quick, out, as_json)


@app.command()
def version() -> None:
    """Print the version."""
    print(f"penstock {__version__}")


def _print(found: Any, as_json: bool) -> None:
    print(json.dumps(found.to_json(), indent=2) if as_json else str(found).rstrip("\n"))


def main() -> None:
    app(prog_name="penstock", args=sys.argv[1:])
