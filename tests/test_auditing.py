"""Whole audits: statuses, labels, reproducibility, and what an audit must leave alone."""

from __future__ import annotations

import copy
import threading
from itertools import pairwise

import pytest
import torch
from certify.settings import audited, draw, errors
from torch import nn

from gradaudit.auditing import audit
from gradaudit.budget import Budget, Control
from gradaudit.clients import FedSGD
from gradaudit.errors import InputError
from gradaudit.evidence import Status
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.proposers import PROPOSERS
from gradaudit.linear.proposers.protocol import Proposals
from gradaudit.models import mlp
from gradaudit.outcome import UNCONFIRMED
from gradaudit.preprocessing import Preprocessing
from gradaudit.result import AuditResult
from gradaudit.truth import Truth
from gradaudit.update import Update

PATIENT = Budget(seconds=20)
SHORT = Budget(seconds=0.4)


def simulate(batch=5, features=50, widths=(80, 40), classes=10, seed=0, labels=None, **options):
    """(update, truth, model) of one client."""
    make = {k: options.pop(k) for k in ("activation", "bias") if k in options}
    model = mlp(features, list(widths), classes, seed=seed, dtype="float64", **make)
    loss = options.pop("loss", "cross_entropy")
    inputs = options.pop("inputs", None)
    inputs = draw(batch, features, seed) if inputs is None else inputs
    labels = [i % max(classes, 2) for i in range(len(inputs))] if labels is None else labels
    update, truth = FedSGD(model, loss, **options).update(inputs, labels)
    return update, truth, model


def labels_by_record(result: AuditResult, truth: Truth) -> list[tuple[int | None, int]]:
    """(found, true) label of every record."""
    distance = torch.cdist(result.records, truth.inputs.flatten(1).double())
    return list(zip(result.labels, truth.labels[distance.argmin(1)].tolist(), strict=True))


class SomeTrueDirections:
    """A search that finds the directions of all records but a few."""

    unit = "rounds"
    by_sparsity = False
    needs_bias_gradient = False
    settings = (Setting.SPARSE_GRADIENT,)
    joins_after = 0.0
    columns: torch.Tensor

    def __init__(self, problem: Problem) -> None:
        directions = self.columns @ problem.factors.left
        self._directions = torch.nn.functional.normalize(directions, dim=1)

    def propose(self, generator, minimum_zeros, *, found=None, at_most=None) -> Proposals:
        return Proposals(self._directions, 1, 1.0, exhausted=True)


class TestSomeRecords:
    """Directions are missing, and neurons fire for few records."""

    @pytest.mark.parametrize(("lowered", "options"), [(0.9, {}), (0.0, {"budget": SHORT})])
    def test_what_is_known_of_single_records(self, monkeypatch, lowered, options):
        inputs, labels = draw(24, 50, 0), [i % 10 for i in range(24)]
        model = mlp(50, [400], 10, seed=0, dtype="float64")
        with torch.no_grad():
            model.get_parameter("fc1.bias").sub_(lowered)
        client = FedSGD(model)
        update, truth = client.update(inputs, labels)
        single = [client.update(inputs[j : j + 1], labels[j : j + 1])[0] for j in range(24)]
        columns = [next(iter(each.linear_layers())).bias_gradient for each in single]
        monkeypatch.setattr(SomeTrueDirections, "columns", torch.stack(columns[6:]), raising=False)
        monkeypatch.setitem(PROPOSERS, "peeling", SomeTrueDirections)
        result = audited(update, truth, attack="peeling", **options)
        known = result.approximate_records
        if lowered:
            assert result.status is Status.PARTIAL
            assert result.certificate.kind == "explained_rows"
            assert 10 <= result.records_recovered == len(result.records) <= 18
            assert float(errors(result.records, truth.inputs).max()) < 1e-9
            assert all(found == true for found, true in labels_by_record(result, truth))
            assert any("gradient confirms" in line for line in result.assumptions)
        else:
            # Every neuron fires for many records: rows prove nothing, but each is confined.
            assert not result.status.leak_proven
            assert result.records is None
            assert "No record is proven" in result.cause
            assert len(known) >= 10
        if known is not None:
            actual = errors(known, truth.inputs)
            expected = [record.estimated_error for record in result.approximate_evidence]
            # See the calibration in tests/linear: beyond lies less than one in a million.
            assert bool((actual < 4 * torch.tensor(expected)).all())
            assert result.records is None or float(errors(known, result.records).min()) > 1e-3


class TestRecovered:
    @pytest.mark.parametrize("options", [{}, {"gradient_dtype": "float32"}, {"reduction": "sum"}])
    def test_records_labels_and_the_full_gradient(self, options):
        update, truth, model = simulate(6, **options)
        for given in (None, model):
            result = audited(update, truth, given, PATIENT)
            assert result.status is Status.RECOVERED
            assert result.batch_size == result.records_recovered == 6
            assert result.certificate.kind == "full_gradient"
            assert all(check.passed for check in result.certificate.checks)
            assert all(found == true for found, true in labels_by_record(result, truth))
            assert [e.copies for e in result.evidence] == [1] * 6
            assert (result.layer, result.search.attack) == (
                "fc1",
                "peeling+halfspace+spear+spear++",
            )
            assert float(errors(result.records, truth.inputs).max()) < 1e-6
        guess = any("guessed" in line for line in audited(update, truth, None).assumptions)
        assert guess
        assert not any("guessed" in line for line in result.assumptions)

    @pytest.mark.parametrize("kind", ["gradient", "delta"])
    @pytest.mark.parametrize("classes", [1, 2, 3, 100])
    def test_labels_of_few_and_many_classes(self, classes, kind):
        options = {"observe": "delta", "learning_rate": 0.1} if kind == "delta" else {}
        loss = "binary_cross_entropy" if classes == 1 else "cross_entropy"
        update, truth, _ = simulate(5, classes=classes, loss=loss, **options)
        result = audited(update, truth, None, PATIENT, loss=loss)
        assert result.status is Status.RECOVERED, result.cause
        assert all(found == true for found, true in labels_by_record(result, truth))
        factor = "1 times" if kind == "gradient" else "-0.1 times"
        assert any(f"The update is {factor} the mean" in line for line in result.assumptions)

    def test_the_loss_of_a_single_logit_need_not_be_named(self):
        update, truth, model = simulate(5, classes=1, loss="binary_cross_entropy")
        for given in (None, model):
            result = audited(update, truth, given, PATIENT)
            assert result.certificate.kind == "full_gradient"
            assert all(found == true for found, true in labels_by_record(result, truth))
            said = "loss binary_cross_entropy, not given"
            assert any(said in line for line in result.assumptions)

    def test_a_named_loss_that_does_not_hold_is_in_the_result(self):
        update, truth, _ = simulate(5, classes=3)
        result = audited(update, truth, None, PATIENT, loss="mse")
        assert (result.status, result.certificate.kind) == (Status.RECOVERED, "layer")
        assert result.assumptions[-1].startswith(UNCONFIRMED)
        assert "loss mse, as given" in result.assumptions[-1]
        unnamed = audited(update, truth, None, PATIENT)
        assert not any(line.startswith(UNCONFIRMED) for line in unnamed.assumptions)

    @pytest.mark.parametrize("classes", [2, 10])
    @pytest.mark.parametrize("kind", ["gradient", "delta"])
    def test_one_record(self, kind, classes):
        options = {"observe": "delta", "learning_rate": 0.1} if kind == "delta" else {}
        update, truth, _ = simulate(1, classes=classes, labels=[1], **options)
        result = audited(update, truth, None, PATIENT)
        assert result.status is Status.RECOVERED, result.cause
        assert result.labels == (1,)
        assert result.search.attack == "closed_form"
        assert "1 distinct record," in result.cause

    @pytest.mark.parametrize("classes", [2, 10])
    @pytest.mark.parametrize("activation", ["tanh", "sigmoid", "leaky_relu", "gelu"])
    def test_one_record_behind_another_activation(self, activation, classes):
        update, truth, model = simulate(1, classes=classes, activation=activation)
        for given in (None, model):
            result = audited(update, truth, given, PATIENT)
            assert result.status is Status.RECOVERED, (given is None, result.cause)
            kind = "layer" if given is None else "full_gradient"
            assert (result.layer, result.certificate.kind) == ("fc1", kind)
            assert result.labels == ((0,) if given is not None else (None,))

    def test_a_record_that_is_there_twice(self):
        inputs = draw(4, 50, 1)
        inputs[3] = inputs[2]
        update, truth, _ = simulate(inputs=inputs, labels=[0, 1, 2, 2])
        result = audited(update, truth, None, PATIENT)
        assert result.status is Status.RECOVERED
        assert result.batch_size == 3
        assert sorted(e.copies for e in result.evidence) == [1, 1, 2]

    def test_a_record_that_is_there_twice_with_two_labels(self):
        """Its column is the sum of two classes' gradients, which no single label explains."""
        inputs = draw(4, 50, 1)
        inputs[3] = inputs[2]
        update, truth, model = simulate(inputs=inputs, labels=[0, 1, 2, 3])
        result = audited(update, truth, model, PATIENT)
        assert result.status is Status.RECOVERED
        assert result.batch_size == 3
        assert sorted((label is None) for label in result.labels) == [False, False, True]
        assert result.certificate.kind == "layer"

    def test_without_a_bias_records_are_known_up_to_a_factor(self):
        update, truth, _ = simulate(4, bias=False)
        result = audited(update, truth, None, PATIENT)
        assert result.status is Status.RECOVERED
        assert not result.scale_identified
        assert "up to a positive factor" in result.cause
        cosines = nn.functional.cosine_similarity(
            result.records[:, None], truth.inputs[None], dim=2
        ).amax(1)
        assert float((1 - cosines).max()) < 1e-10
        assert all(label is None for label in result.labels)

    def test_constant_columns_and_dead_neurons(self):
        inputs = draw(5, 50, 2)
        inputs[:, :10] = 0.0
        inputs[:, 10:20] = 3.0
        model = mlp(50, [120, 40], 10, dtype="float64")
        model.fc1.bias.data[:30] = -100
        update, truth = FedSGD(model).update(inputs, [0, 1, 2, 3, 4])
        result = audited(update, truth, None, PATIENT)
        assert result.status is Status.RECOVERED
        assert float(errors(result.records, inputs).max()) < 1e-9
        assert torch.equal(result.records[:, :10].abs().amax(), torch.tensor(0.0).double()) or (
            float(result.records[:, :10].abs().max()) < 1e-9
        )

    @pytest.mark.parametrize("gradient", ["float16", "bfloat16"])
    def test_sixteen_bits(self, gradient):
        """Recovered to what sixteen bits hold, or a reason; the type is named."""
        update, truth, model = simulate(2, widths=(200,), gradient_dtype=gradient)
        result = audited(update, truth, model, PATIENT)
        assert result.search.observed_dtype == gradient
        if result.status is Status.RECOVERED:
            assert "predicted error" in result.cause
            assert all(1e-5 < e.estimated_error < 0.1 for e in result.evidence)


class TestLayers:
    def test_an_interior_layer_by_name(self):
        update, truth, model = simulate(4, widths=(60, 90))
        result = audited(update, truth, None, PATIENT, layer="fc2")
        assert result.status is Status.RECOVERED
        assert result.layer == "fc2"
        features = model[:3](truth.inputs).detach()
        assert float(errors(result.records, features).max()) < 1e-9
        assert "4 distinct inputs," in result.cause
        assert any("not the first one" in line for line in result.assumptions)
        skipped = [layer for layer in result.layers if not layer.analysed]
        assert {layer.reason for layer in skipped} == {"Not asked for."}

    def test_the_output_layer_by_name(self):
        update, truth, model = simulate(4, widths=(90,), classes=10)
        result = audited(update, truth, None, PATIENT, layer="fc2")
        assert result.status is Status.RECOVERED, result.cause
        features = model[:3](truth.inputs).detach()
        assert float(errors(result.records, features).max()) < 1e-9

    def test_after_a_convolution(self):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, 90), nn.ReLU(),
            nn.Linear(90, 10),
        ).double()  # fmt: skip
        inputs = draw(4, 64, 3).reshape(4, 1, 8, 8)
        update, truth = FedSGD(model).update(inputs, [0, 1, 2, 3])
        for given in (None, model):
            result = audited(update, truth, given, PATIENT)
            assert result.status is Status.RECOVERED
            assert result.layer == "3"
            assert float(errors(result.records, model[:3](inputs).detach()).max()) < 1e-9
            assert {layer.role for layer in result.layers} == {"other", "interior", "output"}

    def test_an_embedding_is_no_layer_of_records(self):
        class Text(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding = nn.Embedding(30, 12)
                self.fc = nn.Linear(12, 5)

            def forward(self, tokens):
                return self.fc(self.embedding(tokens).mean(1))

        torch.manual_seed(0)
        model = Text().double()
        tokens = torch.randint(0, 30, (3, 7))
        loss = nn.functional.cross_entropy(model(tokens), torch.tensor([0, 1, 2]))
        names = [name for name, _ in model.named_parameters()]
        gradient = dict(
            zip(names, torch.autograd.grad(loss, list(model.parameters())), strict=True)
        )
        result = audit(Update(dict(model.state_dict()), gradient), budget=SHORT)
        assert not result.status.leak_proven
        assert result.remedy

    @pytest.mark.parametrize("wrap", [False, True])
    def test_a_users_own_forward(self, wrap):
        class Own(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.dense = nn.Linear(64, 90)
                self.head = nn.Linear(90, 10)

            def forward(self, x):
                return self.head(torch.relu(self.dense(x.view(-1, 64))))

        torch.manual_seed(0)
        model = Own().double()
        inputs = draw(4, 64, 3).reshape(4, 1, 8, 8)
        update, truth = FedSGD(model).update(
            inputs, [0, 1, 2, 3], Preprocessing(image_shape=(1, 8, 8))
        )
        if wrap:
            prefixed = [
                {f"module._orig_mod.{n}": t for n, t in tensors.items()}
                for tensors in (update.weights, update.gradient)
            ]
            update = Update(*prefixed, preprocessing=update.preprocessing)
            model = nn.DataParallel(model)
        result = audited(update, truth, model, PATIENT)
        assert result.certificate.kind == "full_gradient"
        assert result.shaped_records().shape == (4, 1, 8, 8)
        assert result.layer == "dense"


class TestFailures:
    def test_no_gradient_at_all(self):
        update, truth, _ = simulate(3)
        zero = Update(update.weights, {n: g * 0 for n, g in update.gradient.items()})
        result = audited(zero, truth, None, SHORT)
        assert result.status is Status.NOT_APPLICABLE
        assert "zero in every entry" in result.cause

    def test_a_rank_that_says_nothing(self):
        update, truth, _ = simulate(90, widths=(40, 40))
        result = audited(update, truth, None, SHORT, layer="fc1")
        assert result.status is Status.NOT_APPLICABLE
        assert result.batch_size is None
        assert "largest rank" in result.cause

    def test_a_layer_too_narrow_for_its_batch(self):
        update, truth, _ = simulate(12, widths=(20, 40))
        result = audited(update, truth, None, SHORT, layer="fc1")
        assert result.status is Status.NOT_APPLICABLE
        assert "too narrow" in result.remedy

    def test_only_convolutions(self):
        model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 6), nn.Flatten())
        update, truth = FedSGD(model).update(draw(2, 64, 0).reshape(2, 1, 8, 8), [0, 1])
        result = audited(update, truth, None, SHORT)
        assert result.status is Status.NOT_APPLICABLE
        assert "no fully connected layer" in result.cause
        assert len(result.layers) == 2

    def test_a_budget_too_small(self):
        update, truth, _ = simulate(26, features=100, widths=(200, 100))
        result = audited(update, truth, None, Budget(seconds=0.5), layer="fc1", attack="spear")
        assert result.status is Status.BUDGET_EXHAUSTED
        assert "0.5 seconds" in result.cause
        assert "larger budget" in result.remedy
        assert result.search.counters["submatrices"] > 0
        assert result.search.seconds["total"] < 5
        by_count = audited(
            update, truth, None, Budget(seconds=30, submatrices=500), layer="fc1", attack="spear"
        )
        assert by_count.status is Status.BUDGET_EXHAUSTED
        assert "500 submatrices" in by_count.cause

    def test_an_interruption_from_another_thread(self):
        update, _, _ = simulate(26, features=100, widths=(200, 100))
        control = Control(Budget(seconds=60))
        timer = threading.Timer(0.4, control.interrupt)
        timer.start()
        result = audit(update, control=control, attack="spear")
        timer.join()
        assert result.status is Status.BUDGET_EXHAUSTED
        assert "interrupted" in result.cause
        assert control.elapsed_seconds < 20

    def test_an_interruption_before_the_start(self):
        update, _, _ = simulate(3)
        control = Control()
        control.interrupt()
        result = audit(update, control=control)
        assert result.status is Status.BUDGET_EXHAUSTED
        assert result.layer is None

    def test_control_c(self):
        """Raised inside the search, as where nobody handles the signal."""
        update, _, _ = simulate(26, features=100, widths=(200, 100))
        seen = []

        def press(progress):
            seen.append(progress)
            if progress.tried > 1000:
                raise KeyboardInterrupt

        result = audit(
            update, control=Control(Budget(seconds=60), press), layer="fc1", attack="spear"
        )
        assert result.status is Status.BUDGET_EXHAUSTED
        assert "interrupted" in result.cause
        assert result.search.counters["submatrices"] > 1000
        assert seen[-1].wanted == 26

    def test_the_closed_form_takes_one_record(self):
        update, truth, _ = simulate(3)
        result = audited(update, truth, None, SHORT, attack="closed_form", layer="fc1")
        assert result.status is Status.NOT_APPLICABLE
        assert "takes one" in result.cause


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"layer": "fc9"}, "layer: found 'fc9', expected a fully connected layer"),
            ({"attack": "magic"}, "attack: found 'magic', expected one of auto, halfspace"),
            ({"seed": -1}, "seed: found -1"),
            ({"seed": True}, "seed: found True"),
            ({"device": "abacus"}, "device: found 'abacus'"),
            ({"device": "cuda:99"}, "device: found 'cuda:99'"),
            ({"device": "meta"}, "device: found 'meta'"),
            ({"loss": "huber"}, "loss: found 'huber'"),
            ({"loss": "hinge"}, "loss: found 'hinge'"),
        ],
    )
    def test_refusals_are_one_line(self, options, words):
        update, _, model = simulate(2)
        with pytest.raises(InputError) as caught:
            audit(update, model=model if "loss" in options else None, **options)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_budget_and_a_control(self):
        update, _, _ = simulate(2)
        with pytest.raises(InputError, match="a control has its own budget"):
            audit(update, budget=SHORT, control=Control())

    @pytest.mark.parametrize(
        "model",
        [
            mlp(50, [80, 40], 9, dtype="float64"),
            mlp(50, [80], 10, dtype="float64"),
            mlp(50, [80, 40, 30], 10, dtype="float64"),
            nn.Linear(50, 10),
        ],
        ids=["classes", "shallower", "deeper", "linear"],
    )
    def test_a_model_of_another_kind(self, model):
        update, _, _ = simulate(2)
        with pytest.raises(InputError, match="model: found"):
            audit(update, model=model)


class TestWhatIsLeftAlone:
    def test_update_model_and_torch(self):
        update, truth, model = simulate(4)
        model.train()
        before = copy.deepcopy(model.state_dict())
        digest = update.sha256()
        state = torch.get_rng_state()
        globals_before = (
            torch.get_default_dtype(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
        )
        audited(update, truth, model, PATIENT)
        assert update.sha256() == digest
        assert model.training
        assert all(p.grad is None and p.requires_grad for p in model.parameters())
        assert all(torch.equal(before[n], t) for n, t in model.state_dict().items())
        assert not any(m._forward_hooks for m in model.modules())
        assert torch.equal(torch.get_rng_state(), state)
        assert globals_before == (
            torch.get_default_dtype(),
            torch.get_num_threads(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
        )

    @pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
    def test_every_gradient_mode(self, mode):
        update, truth, model = simulate(3)
        with mode():
            for given in (None, model):
                result = audited(update, truth, given, PATIENT)
                assert result.certificate.kind == "full_gradient"
            # Tensors made in the mode, too.
            inside = Update(
                {n: t.clone() for n, t in update.weights.items()},
                {n: t.clone() for n, t in update.gradient.items()},
            )
            assert audited(inside, truth, model, PATIENT).certificate.kind == "full_gradient"

    def test_another_default_dtype(self):
        update, truth, model = simulate(3)
        torch.set_default_dtype(torch.float16)
        try:
            result = audited(update, truth, model, PATIENT)
        finally:
            torch.set_default_dtype(torch.float32)
        assert result.certificate.kind == "full_gradient"


class TestRepetition:
    def test_the_same_seed_gives_the_same_result(self):
        update, _, _ = simulate(5)
        results = [audit(update, seed=3).to_json() for _ in range(2)]
        for value in results:
            del value["created"]
            value["search"]["seconds"] = {}
        assert results[0] == results[1]

    def test_another_seed_gives_the_same_records(self):
        update, truth, _ = simulate(5)
        first, second = (audited(update, truth, None, PATIENT, seed=s).records for s in (1, 2))
        assert float(errors(first, second).max()) < 1e-11
        assert float(errors(second, first).max()) < 1e-11

    def test_neurons_in_another_order_give_the_same_records(self):
        update, truth, _ = simulate(4, widths=(90,))
        order = torch.randperm(90, generator=torch.Generator().manual_seed(0))
        shuffled = [
            {
                n: t[order] if n.startswith("fc1") else t[:, order] if t.ndim == 2 else t
                for n, t in tensors.items()
            }
            for tensors in (update.weights, update.gradient)
        ]
        first = audited(update, truth, None, PATIENT).records
        second = audited(Update(*shuffled), truth, None, PATIENT).records
        assert float(errors(first, second).max()) < 1e-11

    def test_results_are_read_back(self, tmp_path):
        for update, options in (
            (simulate(4)[0], {}),
            (simulate(4, bias=False)[0], {}),
            (simulate(90, widths=(40,))[0], {"layer": "fc1"}),
            (simulate(26, features=100, widths=(200,))[0], {"budget": Budget(seconds=0.2)}),
        ):
            result = audit(update, **options)
            result.save(tmp_path / "result.json")
            again = AuditResult.load(tmp_path / "result.json")
            assert {**again.to_json(), "arrays": None} == {**result.to_json(), "arrays": None}
            if result.records is not None:
                assert torch.equal(again.records, result.records)


def test_progress_ends_with_certification():
    update, _, _ = simulate(4)
    seen = []
    audit(update, control=Control(PATIENT, seen.append))
    assert "factoring" in seen[0].phase
    assert "certifying" in seen[-1].phase
    assert all(a.elapsed_seconds <= b.elapsed_seconds for a, b in pairwise(seen))


@pytest.mark.parametrize(
    ("attack", "given", "named"), [("auto", False, "model"), ("rgap", True, "invert_features")]
)
def test_features_that_cannot_be_inverted_are_refused_before_any_search(attack, given, named):
    model = mlp(30, [60], 3, dtype=torch.float64)
    update, _ = FedSGD(model).update(torch.rand(2, 30).double(), torch.tensor([0, 1]))
    control = Control(Budget(), lambda progress: pytest.fail("it searched"))
    with pytest.raises(InputError, match=named):
        audit(
            update,
            model=model if given else None,
            attack=attack,
            invert_features=True,
            control=control,
        )


@pytest.mark.parametrize("activation", [nn.Tanh, nn.ReLU])
def test_a_given_network_that_contradicts_a_single_record_withdraws_it(activation):
    # Biases with twice the learning rate make half the record of it, in the layer's eyes.
    model = nn.Sequential(nn.Linear(30, 60), activation(), nn.Linear(60, 5)).double()
    source = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data = torch.rand(parameter.shape, generator=source).double() / 5 - 0.1
    record = torch.rand(1, 30, generator=source).double()
    update, _ = FedSGD(model).update(record, torch.tensor([1]))
    assert audit(update, model=model).status is Status.RECOVERED
    doubled = {
        name: value * (2 if name.endswith("bias") else 1) for name, value in update.gradient.items()
    }
    result = audit(Update(dict(update.weights), doubled), model=model)
    assert not result.status.leak_proven
