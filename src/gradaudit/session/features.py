"""From recovered features to the network's inputs, as estimates beside the proven features."""

from __future__ import annotations

from dataclasses import replace

import torch

from gradaudit.errors import InputError
from gradaudit.evidence import ApproximateEvidence
from gradaudit.gradient_matching import invert_features
from gradaudit.models.loaded import load_model
from gradaudit.outcome import Outcome
from gradaudit.session.setup import Setup


def estimate_inputs(setup: Setup, outcome: Outcome) -> Outcome:
    """Search for the input behind each certified row of features.

    Args:
        setup: The audit's.
        outcome: The best; returned as it is unless it holds the inputs of an inner layer.

    Raises:
        InputError: No model is given, or its inputs' shape is not known.
    """
    model, shape = setup.network_of.model, setup.image_shape
    if model is None or shape is None:
        missing = "model" if model is None else "preprocessing"
        raise InputError(
            missing,
            "none, to invert features with",
            "the network and the images' shape",
            "give both",
        )
    proven = [j for j, record in enumerate(outcome.evidence) if record.recovered]
    if outcome.records is None or outcome.layer is None or outcome.role == "input" or not proven:
        return outcome
    loaded = load_model(model, setup.update, dtype=torch.float32, device=setup.place)
    loaded.module.load_state_dict(loaded.tensors, strict=False)
    found = invert_features(
        loaded.module,
        outcome.layer,
        outcome.records[proven].float(),
        shape,
        preprocessing=setup.update.preprocessing,
        up_to_scale=not outcome.scale_identified,
        generator=setup.generator,
        control=setup.control,
    )
    early = f" (ended early: {found.stopped})" if found.stopped else ""
    return replace(
        outcome,
        cause=f"{outcome.cause} For each of {len(proven)} proven rows of features an input with "
        f"nearly these features was searched for{early}; how far it is from the record is unknown.",
        approximate_records=found.records.flatten(1).double().cpu(),
        approximate_evidence=tuple(
            ApproximateEvidence(None, None, residual=residual)
            for residual in found.residuals.tolist()
        ),
        estimates_inputs=True,
        counters={
            **outcome.counters,
            **{f"features: {name}": count for name, count in found.counters.items()},
        },
        seconds={**outcome.seconds, **found.seconds},
    )
