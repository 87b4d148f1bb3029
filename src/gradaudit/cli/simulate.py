"""``gradaudit simulate``: a client's update, made from data of one's own choice."""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gradaudit.cli.training import local_training, training_options
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
    (
        "Three epochs of local training in batches of five, with differential privacy",
        "gradaudit simulate --batch-size 20 --local-epochs 3 --local-batch-size 5 "
        "--learning-rate 0.01 --defense dp-sgd:clip=2,noise=1e-4 --out update.safetensors",
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
    help="The client's records: one batch, unless it trains locally in smaller ones.",
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
    help="What the client sends: its gradient, or the delta of its weights, after minus before. "
    "By default, the gradient, or the delta where it trains locally.",
)
@option("--learning-rate", metavar="LR", type=float, help="Of the client's steps, for a delta.")
@training_options
@option(
    "--defense",
    "defenses",
    metavar="NAME[:KEY=VALUE,..]",
    multiple=True,
    help="What the client does before it sends anything, in the order given: clip-per-record, "
    "dp-sgd, clip-update, gaussian-noise, prune, sign, quantise, mask, soteria or none, with "
    "options as in 'dp-sgd:clip=2,noise=1e-4', 'prune:share=0.9' or 'quantise:bits=8'.",
)
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
    observe: str | None,
    learning_rate: float | None,
    defenses: tuple[str, ...],
    gradient_dtype: str | None,
    out: Path,
    truth: Path | None,
    quiet: bool,
    **local: Any,
) -> None:
    """Make the update of a simulated client: one gradient of one batch (FedSGD).

    With an option of local training, it is the difference of weights after that (FedAvg).

    The file is what a server sees: weights and gradient or delta, how the client trains, how much
    Gaussian noise it adds, and how records become network inputs. The records themselves go into
    the truth file alone.
    """
    from gradaudit.cli.client import simulated_update
    from gradaudit.cli.outputs import check_places
    from gradaudit.cli.terminal import output, say
    from gradaudit.data import load_source
    from gradaudit.defenses import NO_DEFENSE, parse_defense

    check_places({"--out": out, "--truth": truth}, {"--data": Path(data.partition("?")[0])})
    training = local_training(learning_rate, **local)
    if observe == "gradient" and training is not None:
        raise InputError("--observe", "gradient with local training", "delta, or nothing")
    observe = observe or ("gradient" if training is None else "delta")
    if (observe == "delta") != (learning_rate is not None):
        raise InputError(
            "--learning-rate",
            f"{learning_rate} with --observe {observe}",
            "a learning rate with --observe delta or local training, and none without",
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
        training=training,
        defenses=[parse_defense(text) for text in defenses if text.strip() != NO_DEFENSE],
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
