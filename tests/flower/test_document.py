"""What docs/flower.md shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="needs the extra gradaudit[flower]")

from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters

from flower.local_grid import LocalGrid, make_context
from flower.material import make_client_app, make_grid, make_model, trained
from gradaudit import load_update

DOCUMENT = Path(__file__).parents[2] / "docs" / "flower.md"


def parameters(model):
    return ndarrays_to_parameters([tensor.numpy() for tensor in model.state_dict().values()])


def test_the_document_as_it_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    server, client, defending, older = re.findall(
        r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL
    )
    names = {"make_model": make_model}
    exec(server, names)
    names["app"](make_grid(), make_context(0, {}))
    lines = capsys.readouterr().out.splitlines()
    verdicts = [line for line in lines if re.match(r"[12] [12] Proven leak: all 4", line)]
    assert len(verdicts) == 4
    captured = sorted((tmp_path / "captures").iterdir())
    assert captured[0].name == "round-0001-node-1.safetensors"
    assert load_update(captured[0]).step.records == 4

    exec(client, names)
    for source in (client, defending):
        exec(source, names)
        app = make_client_app([names["gate"]])
        exec(server, names)
        monkeypatch.chdir(tmp_path / "captures")
        names["app"](LocalGrid(app, 2), make_context(0, {}))
    assert "Proven leak" not in capsys.readouterr().out

    names["fit_ins"] = FitIns(parameters(make_model()), {})
    after = parameters(trained(make_model(), 0))
    names["fit_res"] = FitRes(Status(Code.OK, ""), after, 4, {})
    exec(older, names)
    assert names["result"].records_recovered == 4
