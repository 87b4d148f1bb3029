"""``gradaudit audit``: what does this update reveal?"""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gradaudit.budget import Budget
from gradaudit.cli.bulk import BULK_EXAMPLES, bulk_options, refuse_bulk_options
from gradaudit.cli.machine import machine_options, refuse_threads, set_threads
from gradaudit.cli.matching import knowledge_and_method, matching_options
from gradaudit.cli.training import local_training, observed_training_options, training_options
from gradaudit.cli.verb import (
    FILE,
    LOSS_NAMES,
    MODEL_WORDS,
    Verb,
    flag,
    limit,
    numbers,
    option,
    quiet_option,
    salt_option,
    seed_option,
    show_option,
)

EXAMPLES = (
    ("Weights and gradient in one file; keep the result", "gradaudit audit update.pt --out audit"),
    (
        "The weights a client sent back after one step",
        "gradaudit audit after.safetensors --weights before.safetensors --learning-rate 0.1",
    ),
    (
        "The weights after two epochs of local training in batches of 16",
        "gradaudit audit after.pt --weights before.pt --local-epochs 2 --local-batch-size 16",
    ),
    (
        "A gate in CI: the exit code is 1 if a leak is proven",
        "gradaudit audit update.pt --seconds 60 --json --fail-on-leak > result.json",
    ),
    (
        "A report to pass on; recovered images are redacted",
        "gradaudit audit update.pt --input-shape 3,32,32 --report report.html",
    ),
    *BULK_EXAMPLES,
)


@click.command(cls=Verb, examples=EXAMPLES, short_help="Find out what an update reveals.")
@click.argument("updates", metavar="UPDATE...", type=FILE, nargs=-1, required=True)
@option("--weights", metavar="FILE", type=FILE, help="The global weights before the step.")
@option(
    "--contains",
    metavar="KIND",
    type=click.Choice(("auto", "gradient", "delta", "weights_after")),
    default="auto",
    show_default=True,
    help="What UPDATE holds: auto, gradient, delta (weights after minus before) or weights_after.",
)
@option(
    "--learning-rate",
    metavar="LR",
    type=float,
    help="The client's; recovered records do not depend on it.",
)
@training_options
@observed_training_options
@option(
    "--model",
    metavar="SPEC",
    help=f"The network, for the proof over all layers: {MODEL_WORDS}. "
    "By default, a ReLU network of the update's shapes.",
)
@option(
    "--loss",
    metavar="NAME",
    type=click.Choice(("auto", *LOSS_NAMES)),
    default="auto",
    show_default=True,
    help="The client's loss: cross_entropy, binary_cross_entropy, mse, or auto: "
    "binary_cross_entropy for a single logit, else cross_entropy.",
)
@option("--layer", metavar="NAME", default="auto", show_default=True, help="The layer to attack.")
@option(
    "--attack",
    metavar="NAME",
    default="auto",
    show_default=True,
    help="The attack: auto, halfspace, peeling, spear or spear++ (batches), closed_form (a single "
    "record), cocktail-party (estimates of a large batch), or, on all layers of the --model, rgap "
    "or idlg (a single record), dlg or inverting-gradients.",
)
@matching_options
@flag(
    "--invert-features",
    help="Search for the images behind features that are recovered behind convolutions; needs "
    "--model and --input-shape.",
)
@option(
    "--seconds",
    metavar="N",
    callback=limit(float),
    default=str(int(Budget.seconds or 0)),
    show_default=True,
    help="Time budget, or none.",
)
@option(
    "--submatrices",
    metavar="N",
    callback=limit(int),
    default=str(Budget.submatrices),
    show_default=True,
    help="Row subsets that SPEAR's search may try, or none.",
)
@machine_options
@seed_option
@option(
    "--device", metavar="D", default="auto", show_default=True, help="Such as cpu, cuda or cuda:1."
)
@option(
    "--input-shape",
    metavar="C,H,W",
    callback=numbers(int, 3),
    help="Records are images of this shape: channels, height, width.",
)
@option(
    "--mean",
    metavar="M,..",
    callback=numbers(float),
    help="Subtracted from pixels in [0, 1], a channel each.",
)
@option("--std", metavar="S,..", callback=numbers(float), help="Pixels were then divided by it.")
@option(
    "--out",
    metavar="FOLDER",
    type=FILE,
    help="Write result.json, and the recovered records as result.safetensors. For several updates: "
    "results of each, and summary.json, summary.csv and summary.html.",
)
@option(
    "--json-out",
    metavar="FILE.json",
    type=FILE,
    help="Write the result here instead, and the records beside it.",
)
@option("--report", "report_file", metavar="FILE.html", type=FILE, help="Write a report.")
@show_option
@option(
    "--truth",
    metavar="FILE",
    type=FILE,
    help="What a simulated client used; read after the audit, to compare.",
)
@flag("--discard-records", help="Write no recovered records.")
@salt_option
@flag("--json", "machine", help="Print the result as JSON, and nothing else, on stdout.")
@quiet_option
@flag("--fail-on-leak", help="Exit with 1 if a leak is proven.")
@bulk_options
def audit(
    updates: tuple[Path, ...],
    *,
    weights: Path | None,
    contains: str,
    learning_rate: float | None,
    noise: float | None,
    model: str | None,
    loss: str,
    layer: str,
    attack: str,
    batch_size: int | None,
    labels: tuple[int, ...] | None,
    restarts: int | None,
    iterations: int | None,
    invert_features: bool,
    seconds: float | None,
    submatrices: int | None,
    max_memory: int | None,
    threads: int | None,
    seed: int,
    device: str,
    input_shape: tuple[int, int, int] | None,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
    out: Path | None,
    json_out: Path | None,
    report_file: Path | None,
    show_records: bool,
    truth: Path | None,
    discard_records: bool,
    salt: str | None,
    machine: bool,
    quiet: bool,
    fail_on_leak: bool,
    bulk: dict[str, Any],
    **local: Any,
) -> int:
    """Audit the update in the file UPDATE, or each of several.

    Prints the verdict, what it rests on, and what to do about it. A failed attack proves nothing
    about other attacks. UPDATE is a safetensors, PyTorch (.pt) or NumPy (.npz) file; nothing in it
    is executed.

    Several updates are several files, a folder, a quoted pattern such as 'captures/*.pt', or a
    manifest (.json or .csv). What is finished in the folder of --out is not audited again.
    """
    from gradaudit.bulk import AuditSettings, Reading, is_many
    from gradaudit.capture import load_update
    from gradaudit.cli.fitting import check_truth, given_preprocessing
    from gradaudit.cli.outputs import audit_outputs
    from gradaudit.cli.search import Manner, Question, ask, new_control
    from gradaudit.cli.shards import refuse_shards, sharded
    from gradaudit.models.fitting import check_input_shape
    from gradaudit.truth import Truth

    manner = Manner(machine, quiet, show_records, fail_on_leak)
    preprocessing = given_preprocessing(input_shape, mean, std)
    before = None if weights is None else str(weights)

    def settings() -> AuditSettings:
        return AuditSettings(
            *(model, loss, layer, attack, batch_size, labels, restarts, iterations),
            *(invert_features, seed, device, seconds, submatrices, not discard_records),
            memory=max_memory,
        )

    def reading() -> Reading:
        return Reading(before, contains, learning_rate, noise, **local, preprocessing=preprocessing)

    if is_many(updates):
        from gradaudit.cli.bulk_run import audit_updates

        refuse_threads(threads)
        refuse_shards(bulk)
        return audit_updates(
            updates,
            settings(),
            reading(),
            out,
            manner,
            salt=salt,
            alone={"--json-out": json_out, "--report": report_file, "--truth": truth},
            **bulk,
        )
    update = updates[0]
    search = sharded(bulk, update, settings, reading)
    refuse_bulk_options(bulk)
    set_threads(threads)
    with new_control(seconds, submatrices, max_memory) as control:
        outputs = audit_outputs(
            out,
            json_out,
            report=report_file,
            compared=truth is not None,
            keep_records=not discard_records,
            show_records=show_records,
            salt=salt,
        )
        outputs.check({"UPDATE": update, "--weights": weights, "--truth": truth})
        originals = None if truth is None else Truth.load(truth)
        captured = load_update(
            update,
            weights,
            contains=contains,  # type: ignore[arg-type]
            learning_rate=learning_rate,
            training=local_training(learning_rate, **local),
            noise=noise,
            preprocessing=preprocessing,
        )
        check_input_shape(captured, input_shape)
        check_truth(captured, originals, truth)
        knowledge, method = knowledge_and_method(attack, batch_size, labels, restarts, iterations)
        return ask(
            captured,
            Question(model, loss, layer, attack, seed, device, knowledge, method, invert_features),
            control,
            outputs,
            manner,
            truth_file=truth,
            search=search,
        )
