"""R-GAP on the whole network: candidates from the recursion, refined and judged."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from gradaudit.certify.reconstruction import ReconstructionVerdict, judge_reconstruction
from gradaudit.chain import Chain
from gradaudit.evidence import Status
from gradaudit.models.loaded import LoadedModel
from gradaudit.models.losses import Loss
from gradaudit.outcome import Outcome
from gradaudit.outcome.rgap import CONTRADICTION, Judged, describe_rgap
from gradaudit.rgap import Candidate, NotSolvableError
from gradaudit.rgap.gradient_map import GradientMap
from gradaudit.rgap.invert import invert_chain
from gradaudit.rgap.observed import Observed, observe, perturbed
from gradaudit.rgap.refine import refine
from gradaudit.rgap.updates import prepare
from gradaudit.session.setup import Setup
from gradaudit.solvers.derivative import DENSE_UNKNOWNS

# A value may lie outside an input's range by this part of it, or so many predicted errors.
RANGE_SLACK = 0.02
RANGE_ERRORS = 100.0


@dataclass(frozen=True)
class RGapAttack:
    """The recursion through all layers, from the last to the first.

    Attributes:
        setup: The audit's.
        rescaled: Whether the gradient may have been multiplied by a positive factor. It is tried
            where nothing has the gradient as it is.
    """

    setup: Setup
    rescaled: bool = False
    _seconds: dict[str, float] = field(default_factory=dict)

    def run(self) -> Outcome:
        """Attack the network, or say why it cannot be."""
        setup = self.setup
        model = setup.network_of.model or setup.plan.guess.model
        if model is None:
            return Outcome(
                Status.NOT_APPLICABLE,
                "R-GAP computes the network backwards, and no network was given.",
                "Give the model.",
            )
        try:
            loaded, chain = prepare(model, setup.update, setup.image_shape, setup.place)
            seen = observe([setup.update], [loaded], rescaled=self.rescaled)
            candidates = self._candidates(chain, seen)
        except NotSolvableError as refused:
            return Outcome(Status.NOT_APPLICABLE, refused.cause, refused.remedy)
        possible = self._in_range(chain, candidates)
        judged = [self._judged(loaded, chain, seen, candidate) for candidate in possible]
        if seen.scale_known and not any(each.recovered for each in judged) and not self._stop():
            clipped = RGapAttack(setup, rescaled=True, _seconds=self._seconds).run()
            if clipped.status is Status.RECOVERED:
                return clipped
        return describe_rgap(
            judged,
            layers=chain.affine,
            excluded=len(candidates) - len(possible),
            loss_given=setup.network_of.hypothesis.loss_given,
            stopped=setup.control.stop_reason(),
            seconds=dict(self._seconds),
        )

    def _stop(self) -> bool:
        return self.setup.control.stop_reason() is not None

    def _candidates(self, chain: Chain, seen: Observed) -> tuple[Candidate, ...]:
        self.setup.control.report("solving layer after layer, the last first")
        started = time.perf_counter()
        found = invert_chain(
            chain,
            seen.gradients,
            seen.noise,
            loss=self.setup.network_of.loss_function.name,
            scale_known=seen.scale_known,
            stop=self._stop,
        )[0]
        spent = time.perf_counter() - started
        self._seconds["recursion"] = self._seconds.get("recursion", 0.0) + spent
        return found

    def _judged(
        self, loaded: LoadedModel, chain: Chain, seen: Observed, candidate: Candidate
    ) -> Judged:
        loss = self.setup.network_of.loss_function
        inputs = candidate.inputs[None]
        label = _label(loaded, chain, loss, seen, candidate)
        consistent = candidate.residual <= CONTRADICTION
        if label is None or not candidate.determined or not consistent:
            return Judged(candidate, None)
        labels = torch.tensor([label], device=inputs.device)
        spread = self._spread(chain, seen, candidate)
        verdict = self._verdict(loaded, loss, candidate, labels, spread)
        if verdict.recovered or self._stop():
            return Judged(candidate, verdict)
        self.setup.control.report("refining on the gradients of all layers")
        started = time.perf_counter()
        better = refine(GradientMap(loaded, loss, labels, seen), inputs, self._stop)
        self._seconds["refinement"] = time.perf_counter() - started
        candidate = replace(candidate, inputs=better.inputs[0])
        return Judged(candidate, self._verdict(loaded, loss, candidate, labels))

    def _spread(self, chain: Chain, seen: Observed, candidate: Candidate) -> float:
        """How far the solution moves if the gradient's noise were another.

        Only where the derivative, which tells it better, is too large to be formed.
        """
        if candidate.inputs.numel() <= DENSE_UNKNOWNS or self._stop():
            return 0.0
        again = self._candidates(chain, perturbed(seen, self.setup.generator))
        moved = [
            float((other.inputs - candidate.inputs).square().mean().sqrt())
            for other in again
            if (other.name, other.label) == (candidate.name, candidate.label)
        ]
        return min(moved, default=math.inf)

    def _verdict(
        self,
        loaded: LoadedModel,
        loss: Loss,
        candidate: Candidate,
        labels: Tensor,
        spread: float = 0.0,
    ) -> ReconstructionVerdict:
        self.setup.control.report("certifying")
        started = time.perf_counter()
        verdict = judge_reconstruction(
            loaded,
            self.setup.update,
            loss,
            candidate.inputs[None],
            labels,
            generator=self.setup.generator,
            determined=candidate.determined,
            spread=spread,
            rescaled=self.rescaled,
            stop=self._stop,
        )
        spent = time.perf_counter() - started
        self._seconds["certification"] = self._seconds.get("certification", 0.0) + spent
        return verdict

    def _in_range(self, chain: Chain, candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
        """Those that can be an input, where the preprocessing tells; all, if it rules out all."""
        preprocessing = self.setup.update.preprocessing
        ranges = None if preprocessing is None else preprocessing.input_range(chain.input_shape)
        if ranges is None:
            return candidates
        least, largest = (torch.from_numpy(limit) for limit in ranges)

        def possible(one: Candidate) -> bool:
            inputs = one.inputs.cpu()
            slack = RANGE_SLACK * (largest - least) + RANGE_ERRORS * one.error
            return bool(((inputs >= least - slack) & (inputs <= largest + slack)).all())

        return tuple(filter(possible, candidates)) or candidates


def _label(
    loaded: LoadedModel, chain: Chain, loss: Loss, seen: Observed, candidate: Candidate
) -> int | None:
    """The class of a candidate: what the recursion says, or whose loss has the bias's gradient."""
    if candidate.label is not None:
        return candidate.label
    last = chain.affine[-1]
    if last.bias_name not in seen.gradients:
        return None
    observed = seen.gradients[last.bias_name][0]
    with torch.inference_mode(False), torch.enable_grad():
        outputs = loaded_outputs(loaded, candidate.inputs[None].clone())
        classes = max(2, math.prod(outputs.shape[1:]))
        spread = outputs.detach().expand(classes, *outputs.shape[1:]).clone().requires_grad_()
        labels = torch.arange(classes, device=outputs.device)
        gradients = torch.autograd.grad(loss(spread, labels, "sum"), spread)[0].flatten(1)
    if gradients.shape[1] != len(observed):
        return None
    return int((gradients - observed).norm(dim=1).argmin())


def loaded_outputs(loaded: LoadedModel, inputs: Tensor) -> Tensor:
    """The network's outputs with the update's weights."""
    outputs: Tensor = torch.func.functional_call(loaded.module, loaded.tensors, (inputs,))
    return outputs
