"""``gradaudit rank``: how much of a record does a network's gradient determine?"""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gradaudit.cli.verb import FILE, Verb, flag, numbers, option, seed_option

if TYPE_CHECKING:
    from gradaudit.rank import RankAnalysis

EXAMPLES = (
    ("R-GAP's network, and the variant that loses data", "gradaudit rank cnn6_d"),
    (
        "A network of one's own, and what changes would do",
        "gradaudit rank my_models:make_network --input-shape 3,32,32 --what-if",
    ),
    (
        "For a program, with ranks measured at random weights",
        "gradaudit rank 'lenet?num_classes=10&activation=leaky_relu' --measure --json",
    ),
)


@click.command(cls=Verb, examples=EXAMPLES, short_help="Find layers that lose data.")
@click.argument("model", metavar="MODEL")
@option(
    "--input-shape",
    metavar="C,H,W",
    callback=numbers(int),
    help="Shape of a record, where MODEL does not say it.",
)
@flag(
    "--what-if",
    help="Also analyse the network with one change at a time: a layer's channels cut to the most "
    "that lose data, a stride doubled, a block without its skip.",
)
@flag("--measure", help="Measure ranks at random weights, where that takes seconds, as well.")
@seed_option
@option("--figure", metavar="FILE", type=FILE, help="Draw it, as .svg or .png.")
@flag("--json", "as_json", help="Print the analysis as JSON, and nothing else, on stdout.")
def rank(
    model: str,
    *,
    input_shape: tuple[int, ...] | None,
    what_if: bool,
    measure: bool,
    seed: int,
    figure: Path | None,
    as_json: bool,
) -> None:
    """Count, layer by layer, what the gradient of one record determines in the network MODEL.

    MODEL is lenet, cnn6, cnn6_d, vgg_small or resnet18 (with options as in
    'resnet18?without_skip=3'), mlp:INPUTS-WIDTH-...-OUTPUTS, or package.module:factory (its code
    is run). It is taken in evaluation mode. No gradient and no data are needed.

    A layer with fewer independent equations than unknowns loses data in R-GAP's recursion. That
    protects nothing by itself: other attacks use the equations of other layers.
    """
    import json

    from gradaudit.cli.outputs import check_places
    from gradaudit.models import parse_model_on
    from gradaudit.rank import rank_analysis
    from gradaudit.report.ranks import check_figure, write_rank_figure

    if figure is not None:
        check_figure(figure)
        check_places({"--figure": figure}, {})
    network, shape = parse_model_on(model, input_shape, seed=seed)
    analysis = rank_analysis(network.eval(), shape, measure=measure, seed=seed)
    if figure is not None:
        write_rank_figure(analysis, figure)
    if as_json:
        variants = [v.to_json() for v in analysis.what_if()] if what_if else None
        data = analysis.to_json() | ({} if variants is None else {"what_if": variants})
        click.echo(json.dumps(data, indent=2))
    else:
        _print(analysis, what_if, figure)


def _print(analysis: RankAnalysis, what_if: bool, figure: Path | None) -> None:
    from gradaudit.cli.terminal import output, say, show_table
    from gradaudit.rank.table import HEAD, NO_PROMISE, cells, summary

    console = output()
    show_table(console, HEAD, list(map(cells, analysis.layers)), right=range(1, len(HEAD)))
    say(console, "")
    say(console, summary(analysis.layers))
    if what_if:
        say(console, "")
        variants = [(v.title, f"{v.analysis.deficit:,}", v.where) for v in analysis.what_if()]
        as_it_is = ("as it is", f"{analysis.deficit:,}", analysis.where)
        show_table(console, ("what if", "open", "where"), [as_it_is, *variants], right={1})
        say(console, NO_PROMISE)
    if figure is not None:
        say(console, f"Written: {figure}", "dim")
