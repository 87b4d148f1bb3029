"""``gradaudit demo``: a leak from beginning to end, on data of our own."""

# ruff: noqa: PLC0415 - torch takes a second to import, and --help must not wait for it.

from __future__ import annotations

from pathlib import Path

import click

from gradaudit.cli.exit_codes import ExitCode
from gradaudit.cli.verb import FILE, Verb, limit, option, quiet_option, seed_option

EXAMPLES = (
    ("Sixty-four photos out of a gradient", "gradaudit demo"),
    ("A smaller batch, into another folder", "gradaudit demo --batch-size 4 --out small-demo"),
)

# Patches that show something: among photos of mere background many are nearly one another.
PHOTOS = "patches?contrast=0.1"


@click.command(cls=Verb, examples=EXAMPLES, short_help="See a batch of photos recovered.")
@option(
    "--out",
    metavar="FOLDER",
    type=FILE,
    default="demo",
    show_default=True,
    help="Where the demonstration leaves its files.",
)
@option(
    "--batch-size",
    metavar="B",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    help="Photos in the client's batch.",
)
@option(
    "--width",
    metavar="M",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Neurons of each of the two hidden layers.",
)
@seed_option
@option(
    "--seconds",
    metavar="N",
    callback=limit(float),
    default="100",
    show_default=True,
    help="Time budget of the search, or none.",
)
@quiet_option
def demo(
    *, out: Path, batch_size: int, width: int, seed: int, seconds: float | None, quiet: bool
) -> ExitCode:
    """Recover a batch of photos from a gradient, with proof and report.

    A simulated client computes the gradient of a ReLU network on patches of ten photos that come
    with scikit-image and scikit-learn, and writes it to a file. The audit sees that file alone.
    Afterwards its result is compared with the originals.
    """
    from gradaudit.capture import load_update
    from gradaudit.cli.client import simulated_update
    from gradaudit.cli.outputs import Outputs, check_places
    from gradaudit.cli.search import Manner, Question, ask, new_control
    from gradaudit.cli.showcase import leave_pictures, picture_files
    from gradaudit.cli.terminal import output, say
    from gradaudit.data import load_source

    update_file, truth_file = out / "update.safetensors", out / "truth.safetensors"
    result_file = out / "result.json"
    outputs = Outputs(
        result=result_file,
        report=out / "report.html",
        comparison=out / "comparison.json",
        show_records=True,  # our own photos, nobody's personal data
    )
    with new_control(seconds) as control:
        places = [update_file, truth_file, *picture_files(out)]
        check_places({f"--out, {path.name}": path for path in places}, {})
        outputs.check({})
        update, truth, description = simulated_update(
            load_source(PHOTOS), batch_size=batch_size, widths=(width, width), seed=seed
        )
        update.save(update_file)
        truth.save(truth_file)
        if not quiet:
            say(output(), f"A client computes a gradient: {description}")
            say(output(), f"Auditing {update_file}, the only thing the audit sees.")
        # From disk, so that nothing but the file's content can reach the audit.
        del update, truth
        code = ask(
            load_update(update_file),
            Question(seed=seed),
            control,
            outputs,
            Manner(quiet=quiet),
            truth_file=truth_file,
        )
        for path in leave_pictures(result_file, truth_file, out):
            if not quiet:
                say(output(), f"Written: {path}", "dim")
    return code
