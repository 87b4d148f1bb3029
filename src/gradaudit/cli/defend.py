"""``gradaudit defend``: what does each defence leave to an attack, and what does it cost?"""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradaudit.cli.exit_codes import ExitCode
from gradaudit.cli.verb import (
    FILE,
    LOSS_NAMES,
    MODEL_WORDS,
    Verb,
    flag,
    limit,
    numbers,
    option,
    seed_option,
)
from gradaudit.errors import InputError

if TYPE_CHECKING:
    from gradaudit.defending import DefenseCurve, Setting

EXAMPLES = (
    ("The usual defences, on patches of photos", "gradaudit defend --out defences"),
    (
        "How much noise it takes, with epsilon for a client of 2,000 records",
        "gradaudit defend --defense dp-sgd:clip=1,noise=0/1e-6/1e-4/1e-2/1 --records 2000 "
        "--out noise --report noise.html",
    ),
    (
        "Larger batches and more local training instead of a defence",
        "gradaudit defend --defense none --batch-size 8,16,32 --local-epochs 0,1,5 "
        "--learning-rate 0.01 --out larger",
    ),
    (
        "A gate in CI: the exit code is 1 if a record is recovered in spite of the defence",
        "gradaudit defend --defense clip-per-record:norm=1+prune:share=0.9 --seconds 30 "
        "--fail-on-leak",
    ),
)


@click.command(cls=Verb, examples=EXAMPLES, short_help="Try defences on a simulated client.")
@option(
    "--data",
    metavar="SPEC",
    default="patches",
    show_default=True,
    help="Where records come from; as for simulate.",
)
@option(
    "--model",
    metavar="SPEC",
    help=f"The network: {MODEL_WORDS}. By default, two hidden ReLU layers that fit the data.",
)
@option(
    "--width",
    metavar="M,..",
    callback=numbers(int),
    help="Neurons of each of these two layers; 400 by default.",
)
@option(
    "--batch-size",
    metavar="B,..",
    callback=numbers(int),
    default="16",
    show_default=True,
    help="The client's records.",
)
@option(
    "--defense",
    "defenses",
    metavar="NAME[:KEY=VALUE,..]",
    multiple=True,
    help="A defence to try, as for simulate, or none; / between values tries each, + applies "
    "several one after another, as in 'clip-per-record:norm=1+prune:share=0.5/0.9'. May be given "
    "several times. By default, one of each kind, from weak to strong.",
)
@option(
    "--local-epochs",
    metavar="N,..",
    callback=numbers(int),
    help="Passes of the client over its records (FedAvg); 0 is one gradient.",
)
@option(
    "--local-batch-size",
    metavar="N",
    type=click.IntRange(min=1),
    help="Records in a batch of its local training; by default, all of them.",
)
@option("--learning-rate", metavar="LR", type=float, help="Of its local training.")
@option("--momentum", metavar="MU", type=float, help="Of its local training.")
@option(
    "--loss",
    metavar="NAME",
    type=click.Choice(LOSS_NAMES),
    default="cross_entropy",
    show_default=True,
    help="cross_entropy, binary_cross_entropy or mse.",
)
@option(
    "--dtype",
    metavar="TYPE",
    type=click.Choice(("float32", "float64")),
    default="float32",
    show_default=True,
    help="What the client computes in: float32 or float64.",
)
@option(
    "--attack", metavar="NAME", default="auto", show_default=True, help="The attack, as for audit."
)
@option(
    "--repeats",
    metavar="N",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Audits of each setting, each of another batch and network, with seeds from --seed on.",
)
@seed_option
@option(
    "--seconds",
    metavar="N",
    callback=limit(float),
    default="60",
    show_default=True,
    help="Time budget of each audit, or none.",
)
@option(
    "--close",
    metavar="DB",
    type=float,
    default=20.0,
    show_default=True,
    help="A record known to within this PSNR counts as close, certified or not.",
)
@option("--device", metavar="D", default="auto", show_default=True, help="As for audit.")
@option(
    "--delta",
    metavar="D",
    type=float,
    default=1e-5,
    show_default=True,
    help="Of differential privacy's (epsilon, delta), which dp-sgd gives.",
)
@option(
    "--records",
    metavar="N",
    type=click.IntRange(min=1),
    help="Records that the client draws batches from, for epsilon; by default, those of --data.",
)
@option(
    "--steps",
    metavar="T",
    type=click.IntRange(min=1),
    help="Gradients that epsilon is counted over; by default, one pass over these records, or, "
    "with --accuracy, its rounds.",
)
@flag("--accuracy", help="Also train a model with each setting, and measure its accuracy.")
@option(
    "--rounds",
    metavar="N",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    help="Of this training.",
)
@option(
    "--out",
    metavar="FOLDER",
    type=FILE,
    help="Write curve.json and report.html here, and keep every audit that has ended: the same "
    "command goes on where it was stopped.",
)
@option("--report", "report_file", metavar="FILE.html", type=FILE, help="Write the report here.")
@flag("--json", "machine", help="Print the curve as JSON, and nothing else, on stdout.")
@flag("--quiet", "-q", help="Print the answer alone, and no progress.")
@flag("--fail-on-leak", help="Exit with 1 if a record was recovered in any setting.")
def defend(
    *,
    data: str,
    model: str | None,
    width: tuple[int, ...] | None,
    batch_size: tuple[int, ...],
    defenses: tuple[str, ...],
    local_epochs: tuple[int, ...] | None,
    local_batch_size: int | None,
    learning_rate: float | None,
    momentum: float | None,
    loss: str,
    dtype: str,
    attack: str,
    repeats: int,
    seed: int,
    seconds: float | None,
    close: float,
    device: str,
    delta: float,
    records: int | None,
    steps: int | None,
    accuracy: bool,
    rounds: int,
    out: Path | None,
    report_file: Path | None,
    machine: bool,
    quiet: bool,
    fail_on_leak: bool,
) -> ExitCode:
    """Try defences on a simulated client, and say what each leaves to an attack.

    Simulates the client at every point of a grid (batch sizes, widths, local training, defences),
    audits what it sends as 'gradaudit audit' would, and compares what was recovered with the
    truth. It answers: which is the cheapest defence tried under which this attack recovers nothing,
    here? A failed attack proves nothing about other attacks.
    """
    from gradaudit.cli.defend_output import tell
    from gradaudit.cli.outputs import check_places
    from gradaudit.cli.progress import progress_display
    from gradaudit.cli.search import new_control
    from gradaudit.data import load_source
    from gradaudit.defending import Accounting, Plan, Training, defense_curve
    from gradaudit.errors import require

    places = {
        "--out, the curve": None if out is None else out / "curve.json",
        "--report": report_file if report_file or out is None else out / "report.html",
    }
    check_places(places, {"--data": Path(data.partition("?")[0])})
    if places["--report"] is not None:
        require("matplotlib", "report")
    settings = _settings(
        batch_size,
        width,
        model,
        defenses,
        local_epochs=local_epochs,
        local_batch_size=local_batch_size,
        learning_rate=learning_rate,
        momentum=momentum,
    )
    plan = Plan(
        seeds=range(seed, seed + repeats),
        attack=attack,
        loss=loss,
        dtype=dtype,
        seconds=seconds,
        close_psnr=close,
        accounting=Accounting(delta, records, steps),
        training=Training(rounds=rounds) if accuracy else None,
        device=device,
    )
    # Its own time limit is none: each audit has one.
    with new_control(None) as control:
        with progress_display(quiet=quiet, machine=machine) as display:
            control.listener = display
            curve = defense_curve(load_source(data), settings, plan, folder=out, control=control)
        tell(
            curve,
            curve_file=places["--out, the curve"],
            report_file=places["--report"],
            machine=machine,
            quiet=quiet,
        )
    return _exit_code(curve, fail_on_leak)


def _settings(
    batch_sizes: tuple[int, ...],
    widths: tuple[int, ...] | None,
    model: str | None,
    defenses: tuple[str, ...],
    *,
    local_epochs: tuple[int, ...] | None,
    local_batch_size: int | None,
    learning_rate: float | None,
    momentum: float | None,
) -> list[Setting]:
    from gradaudit.defending import USUAL_DEFENSES, grid
    from gradaudit.update import LocalTraining

    if model is not None and widths is not None:
        raise InputError("--width", "with --model", "one of the two")
    trains = any(local_epochs or ())
    given = (local_batch_size, learning_rate, momentum)
    if trains != (learning_rate is not None) or (not trains and any(given)):
        raise InputError(
            "--learning-rate, --local-epochs",
            "one without the other",
            "both for local training, and neither for one gradient",
        )
    trainings = [
        LocalTraining(learning_rate, epochs, local_batch_size, momentum=momentum or 0.0)
        if epochs
        else None
        for epochs in local_epochs or (0,)
    ]
    return grid(
        batch_sizes=batch_sizes,
        widths=widths or (400,),
        model=model,
        trainings=trainings,
        defenses=defenses or USUAL_DEFENSES,
    )


def _exit_code(curve: DefenseCurve, fail_on_leak: bool) -> ExitCode:
    if fail_on_leak and curve.certified:
        return ExitCode.LEAK
    # That a defence leaves nothing is not known from a search that had not ended.
    known = all(point.all_ended for point in curve.points if point.nothing_recovered)
    return ExitCode.DONE if curve.complete and known else ExitCode.UNFINISHED
