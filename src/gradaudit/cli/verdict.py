"""An audit's result on the terminal: the verdict, a small table, the remedy, the comparison."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradaudit.cli.terminal import say
from gradaudit.evidence import ApproximateEvidence, Status
from gradaudit.metrics import Comparison, compare
from gradaudit.outcome import UNCONFIRMED, UNSEEN_NOISE
from gradaudit.report.text import count, duration, number, plain
from gradaudit.report.wording import layer_of
from gradaudit.result import AuditResult
from gradaudit.truth import Truth

# Largest error of a network input that counts as exact, by the gradient's floating-point type.
TOLERANCES = {"float64": 1e-6, "float32": 1e-3}
_COARSE = 1e-2
# Larger values cannot be squared.
_LARGEST = 1e100
_STYLES = {Status.RECOVERED: "bold red", Status.PARTIAL: "bold red"}


def print_verdict(console: Console, result: AuditResult, *, sentence_only: bool = False) -> None:
    """Print what was found, without any record.

    Args:
        console: Where to.
        result: What an audit found.
        sentence_only: Leave out all but the verdict's sentence.
    """
    # Names and causes come from files of others.
    say(console, plain(result.summary(), 600), _STYLES.get(result.status, "bold yellow"))
    if sentence_only:
        return
    console.print(_table(_facts(result)))
    if result.status is Status.PARTIAL:
        say(console, f"Why not all: {plain(result.cause, 600)}")
    if result.status.leak_proven:
        say(console, f"Proof: {plain(result.certificate.statement, 600)}")
    if result.remedy:
        say(console, f"What to do: {plain(result.remedy, 600)}")


def _facts(result: AuditResult) -> list[tuple[str, str]]:
    search = result.search
    size = "unknown" if result.batch_size is None else count(result.batch_size, "distinct record")
    return [
        ("Layer", layer_of(result)),
        ("Batch size", size),
        ("Records certified", f"{result.records_recovered:,}"),
        *_merged(result),
        *_approximate(result),
        ("Attack", plain(search.attack, 60)),
        *((plain(name, 120).replace("_", " ").capitalize(), number(value))
          for name, value in search.counters.items()),
        ("Time", duration(search.elapsed_seconds)),
    ]  # fmt: skip


def _merged(result: AuditResult) -> list[tuple[str, str]]:
    """What a record that occurs several times may be; `RecordEvidence` has why."""
    several = sum((record.copies or 1) > 1 for record in result.evidence)
    if not several:
        return []
    text = f"{several:,}; each may be the mean of records that the network cannot tell apart"
    return [("Found several times", text)]


def _approximate(result: AuditResult) -> list[tuple[str, str]]:
    known = result.approximate_evidence
    if not known:
        return []
    errors = [item.relative_error for item in known if item.relative_error is not None]
    how = f"to within {max(errors):.0%}" if errors else _estimated(known)
    return [("Known approximately", f"{count(len(known), 'record')}, {how}")]


def _estimated(known: tuple[ApproximateEvidence, ...]) -> str:
    stable = [item.stable for item in known if item.stable is not None]
    text = "with an unknown error"
    if stable:
        text += f"; {sum(stable):,} found again by a second search"
    residuals = [item.residual for item in known if item.residual is not None]
    if residuals:
        text += f"; at most {number(max(residuals))} of what they match is left unexplained"
    return text


def _table(rows: list[tuple[str, str]]) -> Table:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim", overflow="fold")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    return table


def print_warnings(console: Console, result: AuditResult) -> None:
    """Print what the caller gave and the update contradicts, such as a wrong loss or noise.

    Args:
        console: Where to; on stderr, so that it is seen whatever is printed of the result.
        result: What an audit found.
    """
    for line in result.assumptions:
        if line.startswith((UNCONFIRMED, UNSEEN_NOISE)):
            say(console, f"Warning: {plain(line, 600)}", "yellow")


def is_of_records(result: AuditResult) -> bool:
    """Whether what was found are records, or else estimates of them, rather than features."""
    if result.records_are_features:
        return True
    return all(layer.role == "input" for layer in result.layers if layer.name == result.layer)


def compare_with(result: AuditResult, truth: Truth) -> Comparison | None:
    """Compare with the originals: the certified records, or without any, all that there are.

    Args:
        result: What an audit found; its order of records is that of the comparison's.
        truth: What the simulated client used.

    Returns:
        The comparison, or None without usable records.

    Raises:
        InputError: The truth is of another network.
    """
    if result.records is None or result.records_are_features:
        return None
    usable = [i for i, row in enumerate(result.records) if bool((row.abs() <= _LARGEST).all())]
    chosen = [i for i in usable if result.recovered[i]] or usable
    if not chosen:
        return None
    return compare(
        result.records[chosen],
        truth,
        tolerance=TOLERANCES.get(result.search.observed_dtype.removeprefix("torch."), _COARSE),
        labels=[result.labels[i] for i in chosen] if truth.labels.ndim == 1 else None,
        up_to_scale=not result.scale_identified,
        structural=False,
    )


def print_comparison(console: Console, result: AuditResult, comparison: Comparison | None) -> None:
    """Print how close recovered records are to the originals.

    Args:
        console: Where to.
        result: What an audit found.
        comparison: What `compare_with` gave.
    """
    if result.records_are_features:
        say(console, "Compared with the truth: the estimated inputs, as the records are features.")
        return
    if comparison is None or not comparison.pairs:
        say(console, "Compared with the truth: nothing was recovered.")
        return
    kind = "certified" if any(result.recovered) else "reconstructed, not certified"
    compared = len(comparison.pairs) + len(comparison.unmatched_records)
    originals = len(comparison.pairs) + len(comparison.unmatched_truth)
    error = max(pair.max_abs_error for pair in comparison.pairs)
    psnr = comparison.mean_psnr
    rows = [
        ("Records compared", f"{compared:,} {kind}, {originals:,} originals"),
        (
            "Matched",
            f"{comparison.exact_records:,} within {number(comparison.tolerance)} of an original",
        ),
        ("Largest error", f"{number(error)} of a network input"),
        ("Mean PSNR", "unknown" if psnr is None or math.isnan(psnr) else f"{number(psnr)} dB"),
    ]
    if any(label is not None for label in result.labels):
        right = sum(pair.label_correct is True for pair in comparison.pairs)
        rows.append(("Classes right", f"{right:,} of {len(comparison.pairs):,}"))
    say(console, "Compared with the truth, after the audit:", "bold")
    console.print(_table(rows))


def print_estimates(console: Console, result: AuditResult, truth: Truth) -> None:
    """Print how close records that are known approximately are to the originals.

    Args:
        console: Where to.
        result: What an audit found.
        truth: What the simulated client used.
    """
    if result.approximate_records is None:
        return
    comparison = compare(
        result.approximate_records,
        truth,
        up_to_scale=not result.scale_identified,
        structural=False,
    )
    expected = [record.estimated_error for record in result.approximate_evidence]
    ratios = sorted(
        pair.mse**0.5 / error for pair in comparison.pairs if (error := expected[pair.record])
    )
    psnr = comparison.mean_psnr
    times = f"{number(ratios[0])} to {number(ratios[-1])} times" if ratios else ""
    rows = [
        ("Known approximately", f"{count(len(expected), 'record')}"),
        *([("Their errors", f"{times} the expected ones")] if ratios else []),
        ("Mean PSNR", "unknown" if psnr is None or math.isnan(psnr) else f"{number(psnr)} dB"),
    ]
    console.print(_table(rows))


def print_records(console: Console, result: AuditResult, truth: Truth | None) -> None:
    """Print the recovered records: a table's in its original columns, vectors as numbers.

    Args:
        console: Where to.
        result: What an audit found.
        truth: Originals to put beside them.
    """
    # Late: of all that is printed, this alone may need the report's packages.
    from gradaudit.cli.records import record_blocks  # noqa: PLC0415

    for title, rows in record_blocks(result, truth):
        say(console, title, "bold")
        if rows:
            console.print(_table(rows))
