"""``gradaudit plan``: what would each attack recover from a client that does not exist yet?"""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradaudit.cli.verb import FILE, MODEL_WORDS, Verb, flag, numbers, option

if TYPE_CHECKING:
    from gradaudit.planning import Plan

EXAMPLES = (
    ("A fully connected network by its widths", "gradaudit plan --widths 3072,200,200,10 -b 20"),
    (
        "Eight clients in a secure aggregation, with noise, as a page",
        "gradaudit plan --widths 784,400,10 -b 16 --clients 8 --noise 1e-5 --html plan.html",
    ),
    ("A network, for a program", "gradaudit plan --model lenet -b 1 --json"),
)


@click.command(cls=Verb, examples=EXAMPLES, short_help="Predict what attacks would recover.")
@option("--model", metavar="SPEC", help=f"The network: {MODEL_WORDS}.")
@option(
    "--widths",
    metavar="N,M,..",
    callback=numbers(int),
    help="Instead: inputs, neurons of every layer, outputs, of a fully connected network.",
)
@option(
    "--input-shape",
    metavar="C,H,W",
    callback=numbers(int),
    help="Shape of a record, where the model does not say it.",
)
@option(
    "--batch-size",
    "-b",
    metavar="B",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Distinct records of one client.",
)
@option(
    "--clients",
    metavar="N",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Clients whose updates a secure aggregation sums.",
)
@option("--local-epochs", metavar="N", type=click.IntRange(1), help="Of local training (FedAvg).")
@option(
    "--local-batch-size",
    metavar="N",
    type=click.IntRange(1),
    help="Records in a batch of local training; by default, all of them.",
)
@option("--optimizer", metavar="NAME", help="Of local training; sgd by default.")
@option(
    "--noise",
    metavar="S",
    type=float,
    default=0.0,
    help="Standard deviation of Gaussian noise in each entry of the mean gradient.",
)
@option(
    "--activation",
    metavar="NAME",
    default="relu",
    show_default=True,
    help="With --widths: behind every layer but the last.",
)
@flag("--no-bias", help="With --widths: the first layer has no bias.")
@flag("--not-centred", help="Inputs are not centred, such as pixels from 0 to 1.")
@option(
    "--core-seconds",
    metavar="S",
    type=float,
    default=60.0,
    show_default=True,
    help="What an attacker spends on one update.",
)
@flag("--no-calibration", help="Predict seconds of the reference machine, not of this one.")
@option("--html", metavar="FILE", type=FILE, help="Write a page with a map of batches by widths.")
@flag("--json", "as_json", help="Print the plan as JSON, and nothing else, on stdout.")
def plan(
    *,
    model: str | None,
    widths: tuple[int, ...] | None,
    input_shape: tuple[int, ...] | None,
    batch_size: int,
    clients: int,
    local_epochs: int | None,
    local_batch_size: int | None,
    optimizer: str | None,
    noise: float,
    activation: str,
    no_bias: bool,
    not_centred: bool,
    core_seconds: float,
    no_calibration: bool,
    html: Path | None,
    as_json: bool,
) -> None:
    """Say, from sizes alone, what each attack is expected to recover from a client's update.

    For every attack: whether it applies, how many records, how many seconds, and the smallest
    change past its limit. Limits are measured ones and move: a plan promises nothing.
    """
    import json

    from gradaudit.cli.outputs import check_places
    from gradaudit.errors import InputError, require
    from gradaudit.models import parse_model_on
    from gradaudit.planning import plan as make_plan
    from gradaudit.report.plan import write_plan
    from gradaudit.update import LocalTraining

    if html is not None:
        require("matplotlib", "report")
        check_places({"--html": html}, {})
    if model is None and widths is None:
        raise InputError(
            "--widths or --model",
            "neither",
            "the network to plan for",
            "such as: gradaudit plan --widths 3072,200,200,10 -b 20",
        )
    if model is not None and widths is not None:
        raise InputError("--widths", "it beside --model", "one of the two")
    network, shape = None, None
    if model is not None:
        network, shape = parse_model_on(model, input_shape, seed=0)
    training = None
    if any(given is not None for given in (local_epochs, local_batch_size, optimizer)):
        training = LocalTraining(
            epochs=local_epochs or 1, batch_size=local_batch_size, optimizer=optimizer or "sgd"
        )
    said = make_plan(
        network,
        widths=widths,
        input_shape=shape,
        batch_size=batch_size,
        clients=clients,
        training=training,
        noise=noise,
        centred=not not_centred,
        activation=activation,
        bias=not no_bias,
        core_seconds=core_seconds,
        calibrate=not no_calibration,
    )
    if html is not None:
        write_plan(said, html)
    if as_json:
        click.echo(json.dumps(said.to_json(), indent=2))
    else:
        _print(said, html)


def _print(said: Plan, html: Path | None) -> None:
    from gradaudit.cli.terminal import output, say, show_table
    from gradaudit.planning.result import CAVEAT, GPU_CAVEAT, TITLES
    from gradaudit.report.plan import attack_row, change_row, sentence

    console = output()
    say(console, sentence(said), "bold")
    head = ("attack", "records", "here", "GPU (guess)", "confidence", "limit, or why not")
    attacks = [attack_row(each) for each in said.expectations]
    show_table(console, head, attacks, framed=True)
    if said.changes:
        levers = [
            (TITLES[name], "; ".join(f"{a}: {b}" for a, b in change_row(found)))
            for name, found in said.changes.items()
        ]
        changes = "smallest changes, one at a time, past its limit"
        show_table(console, ("attack", changes), levers, framed=True)
    for caveat in (CAVEAT, GPU_CAVEAT):
        say(console, caveat)
    if html is not None:
        say(console, f"Written: {html}", "dim")
