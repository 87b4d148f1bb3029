"""What a Flower server can read out of its clients' updates, and a gate that stops it.

Two clients take one training step each on eight photo patches of their own. First the server
audits what it receives and recovers both clients' records. Then, with the same model and records,
each client audits its update before it is sent, and keeps it back.

    pip install 'gradaudit[flower,ray,data]'
    python examples/flower_audit.py --out flower-audit

Server and clients run in Flower's simulation, which needs Ray; most of the time is Ray's.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable

# Before Flower is imported: neither it nor Ray shall report to anybody that they ran.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import gradaudit as ga

CLIENTS = ("A", "B")
RECORDS, RATE = 8, 0.1
PATCHES = ga.data.load_source("patches")


def make_model() -> torch.nn.Module:
    """The network that is trained: its code is public, its weights come from the server."""
    return ga.models.mlp(PATCHES.preprocessing.features, [200], PATCHES.classes)


def private_batch(partition: int) -> ga.data.Batch:
    """What one client keeps to itself."""
    return PATCHES.batch(RECORDS, seed=partition, dtype=torch.float32)


def make_client_app(gate: ga.flower.Mod) -> ClientApp:
    """A client that trains as clients do, and a gate that this demonstration switches on."""

    def gate_when_asked(message: Message, context: Context, call_next: Callable) -> Message:
        asked = message.content["config"]["gate"]
        return gate(message, context, call_next) if asked else call_next(message, context)

    app = ClientApp(mods=[gate_when_asked])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model = make_model()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        batch = private_batch(context.node_config["partition-id"])
        loss = torch.nn.functional.cross_entropy(model(batch.inputs), batch.labels)
        loss.backward()
        torch.optim.SGD(model.parameters(), lr=RATE).step()
        content = {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": RECORDS, "loss": loss.item()}),
        }
        return Message(RecordDict(content), reply_to=message)

    return app


def make_server_app(
    strategy: ga.flower.AuditingStrategy, gated: ga.flower.AuditingStrategy
) -> ServerApp:
    """A server that trains the same round twice: as usual, and with the clients' gate."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        for each, gate in ((strategy, False), (gated, True)):
            arrays = ArrayRecord(make_model().state_dict())
            each.start(grid, arrays, num_rounds=1, train_config=ConfigRecord({"gate": gate}))

    return app


def exact_records(result: ga.AuditResult, partition: int) -> int:
    """How many of a client's records were recovered; only a rehearsal can tell."""
    batch = private_batch(partition)
    truth = ga.Truth(batch.inputs, batch.labels, batch.preprocessing)
    if result.records is None:
        return 0
    return sum(pair.exact for pair in ga.metrics.compare(result.records, truth).pairs)


def main() -> None:
    """Run both, and print what the server learned."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", help="new folder for the captured updates (default: temporary)")
    options = parser.parse_args()
    settings = {
        "model": make_model(),
        "loss": "cross_entropy",
        "step": ga.GradientStep(RATE),
        "preprocessing": PATCHES.preprocessing,
        "budget": ga.Budget(seconds=60),
    }

    folder = options.out or os.path.join(tempfile.mkdtemp(), "captures")
    fed_avg = {"fraction_evaluate": 0.0}
    strategy = ga.flower.AuditingStrategy(FedAvg(**fed_avg), capture_dir=folder, **settings)
    gated = ga.flower.AuditingStrategy(FedAvg(**fed_avg), **settings)
    run_simulation(
        make_server_app(strategy, gated),
        make_client_app(ga.flower.leakage_gate_mod(**settings)),
        num_supernodes=len(CLIENTS),
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )

    print("\nWithout a gate, the server received:")
    for audit in strategy.results:
        print(f"  node {audit.node_id}: {audit.result.summary()}")
        for partition, client in enumerate(CLIENTS):
            exact = exact_records(audit.result, partition)
            if exact:
                print(f"    {exact} of {RECORDS} are client {client}'s own, exactly")
        print(f"    for an audit later: gradaudit audit {audit.capture}")
    print(f"With the gate, the server received {len(gated.results)} updates.")


if __name__ == "__main__":
    main()
