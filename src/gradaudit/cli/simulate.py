"""``gradaudit simulate``: a client's update, made from data of one's own choice."""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from pathlib import Path

import click

from gradaudit.cli.verb import FILE, LOSS_NAMES, MODEL_WORDS, Verb, flag, option, seed_option
from gradaudit.errors import InputError

EXAMPLES = (
    (
        "Sixteen photo patches, and what the client used",
        "gradaudit simulate --batch-size 16 --out update.safetensors --truth truth.safetensors",
    ),
    (
        "Rows of a table, labels in its column 'income'",
        "gradaudit simulate --data 'adult.csv?label_column=income' --out update.safetensors",
    ),
    (
        "A difference of weights, sent in half precision",
        "gradaudit simulate --observe delta --learning-rate 0.1 --gradient-dtype float16 "
        "--out update.safetensors",
    ),
)


@click.command(cls=Verb, examples=EXAMPLES, short_help="Make a client's update.")
@option(
    "--data",
    metavar="SPEC",
    default="patches",
    show_default=True,
    help="Where records come from: patches, digits, torchvision:NAME, a folder of images, or a "
    ".npz, .csv or .csv.gz file; with options as in 'patches?size=16&channels=1'.",
)
@option(
    "--model",
    metavar="SPEC",
    help=f"The network: {MODEL_WORDS}. "
    "By default, two hidden ReLU layers of width 400 that fit the data.",
)
@option(
    "--batch-size",
    metavar="B",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    help="Records in the client's batch.",
)
@seed_option
@option("--label", metavar="K", type=click.IntRange(0), help="Draw records of this class only.")
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
    "--observe",
    metavar="KIND",
    type=click.Choice(("gradient", "delta")),
    default="gradient",
    show_default=True,
    help="What the client sends: its gradient, or the delta of its weights, after minus before.",
)
@option("--learning-rate", metavar="LR", type=float, help="Of the client's step, for a delta.")
@option(
    "--gradient-dtype",
    metavar="TYPE",
    type=click.Choice(("float64", "float32", "float16", "bfloat16")),
    help="Round what is sent to float64, float32, float16 or bfloat16.",
)
@option("--out", metavar="FILE", type=FILE, required=True, help="The update, as safetensors.")
@option("--truth", metavar="FILE", type=FILE, help="The records used, for a comparison.")
@flag("--quiet", "-q", help="Print nothing.")
def simulate(
    *,
    data: str,
    model: str | None,
    batch_size: int,
    seed: int,
    label: int | None,
    loss: str,
    dtype: str,
    observe: str,
    learning_rate: float | None,
    gradient_dtype: str | None,
    out: Path,
    truth: Path | None,
    quiet: bool,
) -> None:
    """Make the update of a simulated client: one gradient of one batch (FedSGD).

    The file is what a server sees: weights and gradient, and how records become network inputs.
    The records themselves go into the truth file alone.
    """
    from gradaudit.cli.client import simulated_update
    from gradaudit.cli.outputs import check_places
    from gradaudit.cli.terminal import output, say
    from gradaudit.data import load_source

    check_places({"--out": out, "--truth": truth}, {"--data": Path(data.partition("?")[0])})
    if (observe == "delta") != (learning_rate is not None):
        raise InputError(
            "--learning-rate",
            f"{learning_rate} with --observe {observe}",
            "a learning rate with --observe delta, and none without",
        )
    update, originals, description = simulated_update(
        load_source(data),
        batch_size=batch_size,
        model=model,
        seed=seed,
        label=label,
        loss=loss,
        dtype=dtype,
        observe=observe,
        learning_rate=learning_rate,
        gradient_dtype=gradient_dtype,
    )
    update.save(out)
    if truth is not None:
        originals.save(truth)
    if not quiet:
        console = output()
        say(console, description)
        for path in filter(None, (out, truth)):
            say(console, f"Written: {path}", "dim")
