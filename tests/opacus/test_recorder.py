"""What is recorded is what Opacus computed, in whatever way the batch came about."""

from __future__ import annotations

import sys

import pytest
import torch
from scipy.stats import chi2
from torch import Tensor, nn

from gradaudit import audit
from gradaudit.capture import load_update
from gradaudit.errors import InputError, MissingExtraError
from gradaudit.opacus import PrivateStep, Recorder
from gradaudit.tensorfile import read_tensors

pytest.importorskip("opacus.optimizers")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Optimal order is the largest alpha"),
    pytest.mark.filterwarnings("ignore:PrivacyEngine detected new dataset object"),
]

# Opacus adds this to the norm that it divides by.
OPACUS_NORM_OFFSET = 1e-6
# Float64 sums of a few thousand terms in another order.
ROUNDING = 1e-12


def clipped_sum(
    model: nn.Module, inputs: Tensor, labels: Tensor, bound: float
) -> tuple[dict[str, Tensor], int]:
    """The sum of clipped gradients, each record's by a backward pass, and how many are clipped."""
    clipped = 0
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for record, label in zip(inputs, labels, strict=True):
        loss = nn.functional.cross_entropy(model(record[None]), label[None])
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        clipped += int(norm > bound)
        factor = min(1.0, bound / float(norm + OPACUS_NORM_OFFSET))
        for name, gradient in zip(total, gradients, strict=True):
            total[name] += factor * gradient
    return total, clipped


def assert_equal(found, expected):
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=ROUNDING, atol=ROUNDING, msg=name)


@pytest.mark.parametrize(("bound", "shares"), [(0.1, {8}), (11.0, set(range(1, 8))), (1e3, {0})])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_the_sum_is_that_of_clipped_gradients(private, bound, shares, reduction, mode):
    run = private(max_grad_norm=bound, reduction=reduction, grad_sample_mode=mode)
    expected, clipped = clipped_sum(run.plain, run.inputs[:8], run.labels[:8], bound)
    assert clipped in shares
    run.loader = [(run.inputs[:8], run.labels[:8])]
    with Recorder(run.optimizer, run.model) as recorder:
        run.train()
    (step,) = recorder.steps
    divisor = 8 if reduction == "mean" else 1
    assert step.mechanism.divisor == divisor
    assert_equal(step.before_noise.gradient, {k: g / divisor for k, g in expected.items()})
    assert_equal(step.sent.gradient, step.before_noise.gradient)
    assert step.sent.noise == 0
    assert step.batch_size == (8 if mode == "hooks" else None)


def assert_noise_as_stated(steps: list[PrivateStep]) -> None:
    """A chi-squared test of the noise over all steps; fails by chance once in 10^9 runs."""
    total, count = 0.0, 0
    for step in steps:
        assert step.sent.noise == step.mechanism.noise > 0
        for name, gradient in step.sent.gradient.items():
            noise = (gradient - step.before_noise.gradient[name]) / step.sent.noise
            total += float(noise.square().sum())
            count += noise.numel()
    low, high = chi2.ppf([5e-10, 1 - 5e-10], count)
    # A formula without adaptive clipping's correction is off by 1.5, squared; others by more.
    assert high / low < 1.2
    assert low < total < high


def test_the_weights_are_those_before_the_step(private):
    run = private(noise_multiplier=1.0)
    before = {k: t.clone() for k, t in run.plain.state_dict().items()}
    with Recorder(run.optimizer, run.model) as recorder:
        run.train()
    assert_equal(recorder.steps[0].sent.weights, before)
    first, second = recorder.steps[:2]
    moved = {k: t - 0.1 * first.sent.gradient[k] for k, t in first.sent.weights.items()}
    assert_equal(second.sent.weights, moved)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reduction": "sum"},
        {"clipping": "per_layer", "max_grad_norm": [0.5, 0.1, 1.0, 0.2]},
        {"grad_sample_mode": "ghost"},
        {
            "clipping": "adaptive",
            "target_unclipped_quantile": 0.5,
            "clipbound_learning_rate": 0.5,
            "max_clipbound": 10.0,
            "min_clipbound": 0.01,
            "unclipped_num_std": 1.0,
        },
    ],
    ids=["flat", "sum", "per_layer", "ghost", "adaptive"],
)
def test_the_noise_is_as_large_as_stated(private, options):
    run = private(noise_multiplier=1.5, seed=3, **options)
    with Recorder(run.optimizer, run.model) as recorder:
        run.train()
        run.train()
    assert len(recorder.steps) == 6
    assert_noise_as_stated(recorder.steps)


def test_the_noise_of_adaptive_ghost_clipping(private):
    """Its module sets a multiplier for the noise, and leaves the accountant's as it is."""
    run = private(noise_multiplier=1.5, seed=3, grad_sample_mode="ghost")
    run.optimizer._adjusted_noise_multiplier = 2.5
    with Recorder(run.optimizer, run.model) as recorder:
        run.train()
    assert recorder.steps[0].mechanism.noise_multiplier == 2.5
    assert_noise_as_stated(recorder.steps)


def test_poisson_batches_are_counted(private):
    run = private(batch_size=2, poisson_sampling=True, noise_multiplier=1.0)
    with Recorder(run.optimizer, run.model, limit=100) as recorder:
        # 60 batches of 2 on average: one in 8 is empty (24 records, each drawn with 1 in 12), so
        # that none is with a probability below 4e-4; the seed is fixed.
        sizes = [size for _ in range(5) for size in run.train()]
    assert [step.batch_size for step in recorder.steps] == sizes
    assert len(set(sizes)) > 2
    assert {step.mechanism.expected_batch_size for step in recorder.steps} == {2}
    empty = next(step for step in recorder.steps if step.batch_size == 0)
    assert not any(g.any() for g in empty.before_noise.gradient.values())
    assert all(g.any() for g in empty.sent.gradient.values())


def test_virtual_steps_are_one_step(private):
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    recorded = []
    for physical in (8, 3):
        run = private(noise_multiplier=1.0)
        manager = BatchMemoryManager(
            data_loader=run.loader, max_physical_batch_size=physical, optimizer=run.optimizer
        )
        with manager as loader, Recorder(run.optimizer, run.model) as recorder:
            sizes = run.train(loader)
        assert len(sizes) == (3 if physical == 8 else 9)
        recorded.append(recorder.steps)
    for whole, split in zip(*recorded, strict=True):
        assert whole.batch_size == split.batch_size == 8
        assert_equal(split.sent.gradient, whole.sent.gradient)
        assert_equal(split.before_noise.gradient, whole.before_noise.gradient)


def test_batches_accumulated_without_zero_grad(private):
    run = private(noise_multiplier=1.0, max_grad_norm=0.5)
    expected, _ = clipped_sum(run.plain, run.inputs[:16], run.labels[:16], 0.5)
    # Opacus kept the gradients of those backward passes too.
    run.optimizer.zero_grad()
    with Recorder(run.optimizer, run.model) as recorder:
        for start in (0, 8):
            part = slice(start, start + 8)
            run.loss(run.model(run.inputs[part]), run.labels[part]).backward()
        run.optimizer.step()
    (step,) = recorder.steps
    assert (step.batch_size, step.mechanism.divisor) == (16, 16)
    assert_equal(step.before_noise.gradient, {k: g / 16 for k, g in expected.items()})
    assert step.sent.noise == 0.5 / 16


def test_the_accountant_goes_on_counting(private):
    run = private(noise_multiplier=1.0)
    accountant = run.optimizer.step_hook
    recorder = Recorder(run.optimizer, run.model)
    recorder.attach()
    run.train()
    recorder.detach()
    assert run.optimizer.step_hook is accountant
    assert "clip_and_accumulate" not in vars(run.optimizer)
    run.train()
    assert sum(steps for _, _, steps in run.engine.accountant.history) == 6
    assert recorder.steps_seen == 3


def test_frozen_parameters_are_weights_without_a_gradient(private):
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    run = private()
    plain = nn.Sequential(nn.Linear(40, 5), nn.ReLU(), nn.Linear(5, 3)).double()
    plain[0].requires_grad_(False)
    run.model, run.optimizer, run.loader = PrivacyEngine().make_private(
        module=plain,
        optimizer=torch.optim.SGD(plain[2].parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(run.inputs, run.labels), batch_size=8),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    with Recorder(run.optimizer, run.model, limit=1) as recorder:
        run.train()
    (step,) = recorder.steps
    assert set(step.sent.weights) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert set(step.sent.gradient) == {"2.weight", "2.bias"}


def test_only_what_was_sent_is_written(private, tmp_path):
    run = private(noise_multiplier=1.0)
    with Recorder(run.optimizer, run.model, limit=2, folder=tmp_path / "captured") as recorder:
        run.train()
    assert (len(recorder.steps), recorder.steps_seen) == (2, 3)
    names = sorted(path.name for path in (tmp_path / "captured").iterdir())
    assert names == ["step-00001.safetensors", "step-00002.safetensors"]
    for name, step in zip(names, recorder.steps, strict=True):
        read = load_update(tmp_path / "captured" / name)
        assert read.sha256() == step.sent.sha256()
        assert read.noise == step.sent.noise
        notes = read_tensors(tmp_path / "captured" / name)[1]
        assert float(notes["note.opacus.noise_multiplier"]) == 1.0
        assert notes["note.opacus.expected_batch_size"] == "8"


def test_a_hook_attached_later_is_noticed(private):
    run = private()
    recorder = Recorder(run.optimizer, run.model)
    recorder.attach()
    run.optimizer.attach_step_hook(lambda optimizer: None)
    with pytest.raises(InputError, match="attach other hooks before the recorder"):
        recorder.detach()


def test_an_error_in_training_is_not_hidden(private):
    run = private()

    def fail() -> None:
        with Recorder(run.optimizer, run.model):
            run.optimizer.attach_step_hook(lambda optimizer: None)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_one_recorder_at_a_time(private):
    run = private()
    with (
        Recorder(run.optimizer, run.model),
        pytest.raises(InputError, match="one at a time"),
        Recorder(run.optimizer, run.model),
    ):
        pass


def test_refusals(private):
    from opacus.optimizers import DistributedDPOptimizer

    run = private()
    for other in (run.engine, run.optimizer.original_optimizer):
        with pytest.raises(InputError, match="the optimizer that PrivacyEngine"):
            Recorder(other, run.model)
    several = DistributedDPOptimizer.__new__(DistributedDPOptimizer)
    with pytest.raises(InputError, match="record on one worker"):
        Recorder(several, run.model)
    with pytest.raises(InputError, match="without the parameters that the optimizer trains"):
        Recorder(run.optimizer, nn.Linear(2, 1))
    with pytest.raises(InputError, match="limit: found 0"):
        Recorder(run.optimizer, run.model, limit=0)


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opacus.optimizers", None)
    with pytest.raises(MissingExtraError, match=r"gradaudit\[opacus\]"):
        Recorder(object(), nn.Linear(2, 1))


@pytest.mark.parametrize("given", [False, True])
def test_clipping_alone_hides_nothing(private, given):
    """Every record is scaled by a factor of its own, which cancels in the ratio to the bias.

    The model may be the one that Opacus wrapped.
    """
    run = private(max_grad_norm=0.05)
    with Recorder(run.optimizer, run.model, limit=1) as recorder:
        run.train()
    (step,) = recorder.steps
    result = audit(step.sent, model=run.model if given else None)
    assert result.records_recovered == 8
    distances = torch.cdist(run.inputs[:8], result.records.double()).min(dim=1).values
    # The audit's own estimate is 2e-13 an entry.
    assert float(distances.max()) < 1e-9
