"""Clients made with ``client_fn``, and the secure aggregation that is made for them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("flwr", reason="needs the extra gradaudit[flower]")

from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

from flower.local_grid import LocalGrid, make_context
from flower.material import RECORDS, SETTINGS, make_model, sent_content, trained
from gradaudit.evidence import Status
from gradaudit.flower import Auditor, leakage_gate_mod
from gradaudit.flower.messages import is_masked

NODES = 3


class Client(NumPyClient):
    def __init__(self, partition: int) -> None:
        self.partition = partition

    def fit(self, parameters, config):
        model = make_model()
        names = model.state_dict()
        values = (names[name].new_tensor(p) for name, p in zip(names, parameters, strict=True))
        model.load_state_dict(dict(zip(names, values, strict=True)))
        after = trained(model, self.partition).state_dict().values()
        return [tensor.numpy() for tensor in after], RECORDS, {}


class ListeningGrid(LocalGrid):
    """Keeps every reply, as a curious server would."""

    run = SimpleNamespace(run_id=0)

    def __init__(self, *args):
        super().__init__(*args)
        self.heard = []

    def send_and_receive(self, messages, *, timeout=None):
        replies = list(super().send_and_receive(messages, timeout=timeout))
        self.heard += replies
        return replies


def run_round(mods, workflow=None) -> ListeningGrid:
    """A round of the older interface with these mods on every client."""

    def client_fn(context):
        return Client(int(context.node_config["partition-id"])).to_client()

    grid = ListeningGrid(ClientApp(client_fn=client_fn, mods=mods), NODES)
    initial = [tensor.numpy() for tensor in make_model().state_dict().values()]
    parameters = ndarrays_to_parameters(initial)
    strategy = FedAvg(
        initial_parameters=parameters, min_available_clients=NODES, fraction_evaluate=0.0
    )
    context = LegacyContext(make_context(0, {}), ServerConfig(num_rounds=1), strategy)
    DefaultWorkflow(fit_workflow=workflow)(grid, context)
    return grid


def secure() -> SecAggPlusWorkflow:
    return SecAggPlusWorkflow(num_shares=NODES, reconstruction_threshold=2)


def test_masked_replies_are_not_applicable():
    masked = [r for r in run_round([secaggplus_mod], secure()).heard if is_masked(r.content)]
    assert len(masked) == NODES
    for reply in masked:
        result = Auditor().examine(sent_content(), reply.content).result
        assert result.status is Status.NOT_APPLICABLE
        assert "Secure aggregation" in result.cause


def test_behind_the_mask_the_gate_sees_the_update():
    gate = leakage_gate_mod(model=make_model(), **SETTINGS)
    heard = run_round([secaggplus_mod, gate], secure()).heard
    assert not any(is_masked(r.content) for r in heard if r.has_content())
    assert sum(r.has_error() for r in heard) == NODES


def test_before_the_mask_the_gate_has_nothing_to_judge():
    gate = leakage_gate_mod(model=make_model(), **SETTINGS)
    heard = run_round([gate, secaggplus_mod], secure()).heard
    assert sum(is_masked(reply.content) for reply in heard) == NODES


def test_the_gate_works_without_names():
    gate = leakage_gate_mod(model=make_model(), **SETTINGS)
    heard = run_round([gate]).heard
    assert len(heard) == NODES
    assert all("Proven leak" in reply.error.reason for reply in heard)
