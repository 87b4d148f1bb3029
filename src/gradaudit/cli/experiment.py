"""``gradaudit experiment``: the papers' tables and figures, run again."""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from pathlib import Path

import click

from gradaudit.cli.engines import engine_options
from gradaudit.cli.exit_codes import ExitCode
from gradaudit.cli.verb import FILE, Verb, flag, option, seed_option
from gradaudit.errors import GradauditError, InputError

EXAMPLES = (
    ("What there is", "gradaudit experiment --list"),
    ("SPEAR's first table, in a minute", "gradaudit experiment spear-table1 --quick --out results"),
    (
        "On all cores",
        "gradaudit experiment spear-table2 --engine processes --out results",
    ),
    (
        "All of them on data of one's own, at the papers' sizes; the same words go on with it",
        "gradaudit experiment all --full --data images/ --out results",
    ),
)


@click.command(cls=Verb, examples=EXAMPLES, short_help="Run the papers' experiments again.")
@click.argument("name", metavar="[NAME|all]", required=False)
@flag("--list", "listed", help="List the experiments, and run nothing.")
@flag("--quick", help="Small sizes: each ends within three minutes on two cores.")
@flag("--full", help="The papers' own sizes, which may take hours or days.")
@option("--seeds", metavar="N", type=click.IntRange(min=1), help="Batches of each kind.")
@option(
    "--data",
    metavar="SPEC",
    help="Where records come from, as for simulate. By default, the papers' data sets where the "
    "folder that GRADAUDIT_DATA names has them, else digits and photo patches.",
)
@seed_option
@option(
    "--out",
    metavar="FOLDER",
    type=FILE,
    default="experiments",
    show_default=True,
    help="For NAME.csv, NAME.json, NAME.md and NAME.png. What is there is not run again.",
)
@flag("--again", help="Run again what is there.")
@flag("--no-figures", help="Tables and rows only, without matplotlib.")
@engine_options
@flag("-q", "--quiet", help="Print nothing.")
def experiment(
    name: str | None,
    *,
    listed: bool,
    quick: bool,
    full: bool,
    seeds: int | None,
    data: str | None,
    seed: int,
    out: Path,
    again: bool,
    no_figures: bool,
    engine: str | None,
    workers: int | None,
    address: str | None,
    quiet: bool,
) -> ExitCode | None:
    """Run the experiment NAME, or all of them, and set the results beside the papers'.

    Every batch is simulated, audited as 'gradaudit audit' would, and compared with the truth. An
    interrupted run goes on where it was when it is started again with the same words.
    """
    from gradaudit.cli.progress import progress_display
    from gradaudit.cli.search import new_control
    from gradaudit.cli.terminal import output, say
    from gradaudit.data import load_source
    from gradaudit.engine import open_engine
    from gradaudit.errors import require
    from gradaudit.experiments import NAMES, Scale, load, run_experiment

    console = output()
    if listed:
        for known in map(load, NAMES):
            say(console, f"{known.NAME}: {known.TITLE} ({known.SOURCE})")
        return None
    if name is None:
        raise InputError("NAME", "none", "an experiment, or all", "see --list")
    if quick and full:
        raise InputError("--quick, --full", "both", "one of the two")
    if not no_figures:
        require("matplotlib", "report")
    if data is not None:
        load_source(data)
    chosen = [load(each) for each in (NAMES if name == "all" else (name,))]
    scale = Scale("quick" if quick else "full" if full else "standard", seeds, data, seed)
    complete = True
    failed: dict[str, str] = {}
    with new_control(None) as control, open_engine(engine, workers, address) as place:
        for each in chosen:
            with progress_display(quiet=quiet, machine=False) as display:
                control.listener = display
                ran = run_experiment(
                    each,
                    scale,
                    out,
                    control=control,
                    again=again,
                    figures=not no_figures,
                    engine=place,
                )
            failed |= {f"{each.NAME} {unit}": why for unit, why in ran.failed.items()}
            complete = complete and ran.done == ran.units
            if not quiet:
                written = f": {ran.page}" if ran.page is not None else ""
                say(console, f"{each.NAME}, {ran.done} of {ran.units} units{written}")
            if control.interrupted:
                break
    if failed:
        unit, why = next(iter(failed.items()))
        number = "one unit" if len(failed) == 1 else f"{len(failed)} units"
        raise GradauditError(f"{number} failed, of which {unit}: {why}")
    return ExitCode.DONE if complete and not control.interrupted else ExitCode.UNFINISHED
