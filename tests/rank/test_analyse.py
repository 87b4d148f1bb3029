"""The analysis as a whole, with the figures of the papers' networks."""

from __future__ import annotations

import json
import re

import pytest
import torch
from torch import nn

import gradaudit as ga
from gradaudit.errors import InputError
from gradaudit.models import cnn6, cnn6_d, lenet, mlp, resnet18, vgg_small

# (naive, exact) by layer, as the design was derived by hand.
TABLES = {
    "cnn6": (cnn6, (3, 32, 32), {"conv1": (971, 828), "conv2": (3335, 1080)}),
    "cnn6_d": (cnn6_d, (3, 32, 32), {"conv1": (971, 828), "conv2": (311, -280)}),
    "lenet": (
        lenet, (1, 28, 28), {"conv1": (1867, 1724), "conv2": (1835, 432), "conv3": (3599, 444)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_the_table_of_the_papers_networks(name):
    make, shape, expected = TABLES[name]
    analysis = ga.rank_analysis(make(), shape)
    rows = {row.name: row for row in analysis.layers}
    assert {n: (rows[n].naive_index, rows[n].exact_index) for n in expected} == expected
    deficits = {row.name: row.deficit for row in analysis.layers if row.deficit}
    assert deficits == ({"conv2": 280} if name == "cnn6_d" else {})
    assert analysis.deficit == sum(deficits.values())


def test_the_gradient_of_cnn6_d_itself_has_that_rank():
    # The real network's weights and gradients are no less generic than random ones.
    model = cnn6_d(dtype="float64", seed=1)
    generator = torch.Generator().manual_seed(2)
    x = torch.rand(1, 3, 32, 32, generator=generator, dtype=torch.float64)
    kept: dict[str, torch.Tensor] = {}

    def keep(_module: nn.Module, inputs: tuple[torch.Tensor], output: torch.Tensor) -> None:
        kept["x"], kept["z"] = inputs[0].detach(), output
        output.retain_grad()

    handle = model.conv2.register_forward_hook(keep)
    nn.functional.softplus(model(x)).sum().backward()
    handle.remove()
    k = kept["z"].grad[0].flatten(1)
    patches = nn.functional.unfold(
        torch.arange(1.0, 290.0, dtype=torch.float64).reshape(1, 1, 17, 17), 3, 1, 1, 2
    )[0].long()
    b = torch.zeros(20, 9, 290, dtype=torch.float64)
    for tap, positions in enumerate(patches):
        b[:, tap].index_add_(1, positions, k)
    _, values, basis = torch.linalg.svd(b[:, :, 1:].reshape(180, 289))
    rank_of_b = int((values > 1e-10 * values[0]).sum())
    null = basis[rank_of_b:]
    # Behind all gradient constraints: every channel times every null vector, through the weights.
    open_inputs = torch.einsum("cd,vp->cvdp", torch.eye(12, dtype=torch.float64), null)
    image = model.conv2(open_inputs.reshape(-1, 12, 17, 17)).flatten(1).detach()
    found = torch.linalg.svdvals(image)
    rank = 12 * rank_of_b + int((found > 1e-10 * found[0]).sum())
    row = next(r for r in ga.rank_analysis(model, (3, 32, 32)).layers if r.name == "conv2")
    assert rank == row.exact_rank == 12 * 289 - 280


def test_measuring_confirms_counting():
    counted = ga.rank_analysis(cnn6_d(), (3, 32, 32))
    measured = ga.rank_analysis(cnn6_d(), (3, 32, 32), measure=True, seed=3)
    assert [row.measured for row in measured.layers] == [False] + [True] * 6
    assert [row.exact_index for row in measured.layers] == [
        row.exact_index for row in counted.layers
    ]


def test_measuring_finds_what_counting_does_not_see():
    # Two output channels and a kernel as large as the output.
    model = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(18, 1))
    counted, measured = (
        ga.rank_analysis(model, (3, 5, 5), measure=measure).layers[0] for measure in (False, True)
    )
    assert counted.deficit == 7
    assert measured.deficit == 10 == -measured.exact_index


def test_pooling_and_skip_connections_are_walked_though_nothing_can_solve_them():
    analysis = ga.rank_analysis(vgg_small(), (3, 32, 32))
    assert [row.name for row in analysis.losses] == ["pool3", "pool2", "pool1"]
    residual = ga.rank_analysis(resnet18().eval(), (3, 32, 32))
    rows = {row.name: row for row in residual.layers}
    # By the gradient of 64 x 64 x 3 x 3 entries alone, of 64 x 32 x 32 unknowns.
    assert rows["block1.conv2"].deficit == 64 * 32 * 32 - 64 * 64 * 9
    assert rows["block1.conv1"].block == "block1"
    assert rows["pool"].deficit == 512 * 15
    without = ga.rank_analysis(resnet18(without_skip=1).eval(), (3, 32, 32))
    assert next(r for r in without.layers if r.name == "block1.conv2").deficit == 0


def test_what_no_number_of_equations_helps_against_is_named():
    said = ga.rank_analysis(mlp(20, [10], 2, activation="gelu"), (20,)).summary
    assert "cannot pass gelu1: it does not rise everywhere" in said
    assert "gives the record" not in said
    said = ga.rank_analysis(vgg_small(), (3, 32, 32)).summary
    assert "cannot pass pool1, pool2, pool3: max pooling keeps one entry" in said


def test_json_and_text_say_the_same():
    analysis = ga.rank_analysis(cnn6_d(), (3, 32, 32))
    data = json.loads(json.dumps(analysis.to_json()))
    assert data["losses"] == ["conv2"]
    assert data["layers"][1]["deficit"] == data["deficit"] == 280
    lines = str(analysis).splitlines()
    assert re.split(r"\s{2,}", lines[3]) == [
        "conv2", "3,468", "3,780", "+311", "-280", "280", "+396", "+0",
    ]  # fmt: skip
    assert len({len(line) for line in lines[1:3]}) == 1
    assert data["summary"] == analysis.summary == lines[-1]


NETWORKS = [
    pytest.param(cnn6(), (3, 32, 32), id="cnn6"),
    pytest.param(cnn6_d(), (3, 32, 32), id="cnn6_d"),
    pytest.param(vgg_small(), (3, 32, 32), id="vgg_small"),
    pytest.param(resnet18(width=8).eval(), (3, 32, 32), id="resnet18"),
    pytest.param(mlp(20, [10], 2), (20,), id="mlp"),
    pytest.param(mlp(20, [10], 2, activation="gelu"), (20,), id="gelu"),
]
# What would read as if a deficit, or an audit, kept anything private.
PROMISES = re.compile(
    r"\b(safe|secure|private|guarante\w*|prevent\w*|impossible|immune|ensur\w*|protected|"
    r"cannot be recovered|no risk|harmless)\b",
    re.IGNORECASE,
)


def test_promises_are_seen():
    assert PROMISES.search("This deficit guarantees privacy.")
    assert PROMISES.search("the record cannot be recovered")


@pytest.mark.parametrize(("model", "shape"), NETWORKS)
def test_no_word_promises_anything(model, shape):
    analysis = ga.rank_analysis(model, shape)
    texts = [str(analysis), *(variant.advice for variant in analysis.what_if())]
    for text in texts:
        assert not PROMISES.search(text), text
        # Whoever reads of a deficit reads what it is not.
        if "open" in text:
            assert "A deficit protects nothing by itself" in text
            assert "optimisation attack" in text


def test_what_if_counts_against_the_network_as_it_is():
    variants = {v.title: v for v in ga.rank_analysis(cnn6_d(), (3, 32, 32)).what_if()}
    worse = variants["conv1 with stride 4 instead of 2"]
    assert worse.before == 280
    assert worse.analysis.deficit > 280
    assert f"{worse.analysis.deficit:,} dimensions open instead of 280" in worse.advice
    same = ga.rank_analysis(cnn6(), (3, 32, 32)).variant(channels={"conv2": 20})
    assert same == ga.rank_analysis(cnn6_d(), (3, 32, 32))


def test_networks_without_layers_are_refused():
    with pytest.raises(InputError, match="no layer"):
        ga.rank_analysis(nn.Sequential(nn.Flatten(), nn.ReLU()), (3, 4, 4))
