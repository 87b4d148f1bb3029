"""A small network, clients that take one step on records of their own, and Flower's messages."""

from __future__ import annotations

import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor, nn

from flower.local_grid import LocalGrid
from gradaudit.budget import Budget
from gradaudit.models import mlp

FEATURES, WIDTH, CLASSES, RECORDS, RATE = 30, 80, 3, 4, 0.1
# Float32 weights of about 0.1 whose difference is read: 1e-8 over the step's entries.
PRECISION = 1e-3
SETTINGS = {"loss": "cross_entropy", "budget": Budget(seconds=20)}


def make_model() -> nn.Module:
    return mlp(FEATURES, [WIDTH], CLASSES, seed=1)


def records_of(partition: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(partition)
    inputs = torch.randn(RECORDS, FEATURES, generator=generator)
    return inputs, torch.arange(RECORDS) % CLASSES


def sent_content() -> RecordDict:
    return RecordDict({"arrays": ArrayRecord(make_model().state_dict())})


def trained(model: nn.Module, partition: int) -> nn.Module:
    """One step of one batch of a client's records."""
    inputs, labels = records_of(partition)
    model.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    torch.optim.SGD(model.parameters(), lr=RATE).step()
    return model


def reply_content(partition: int) -> RecordDict:
    return answer(trained(make_model(), partition))


def answer(model: nn.Module, **metrics: float) -> RecordDict:
    return RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": RECORDS, **metrics}),
        }
    )


def make_client_app(mods=()) -> ClientApp:
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message, context):
        model = make_model()
        arrays = message.content["arrays"].to_torch_state_dict(keep_input=False)
        model.load_state_dict(arrays)
        partition = context.node_config["partition-id"]
        return Message(answer(trained(model, partition), loss=0.5), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1})}), reply_to=message)

    return app


def make_grid(mods=(), nodes=2) -> LocalGrid:
    return LocalGrid(make_client_app(mods), nodes)


def is_recovered(records: Tensor, partition: int) -> bool:
    """Whether each of a client's records is among those recovered."""
    inputs, _ = records_of(partition)
    distances = (records[None] - inputs[:, None].double()).abs().amax(2)
    return bool((distances.amin(1) < PRECISION).all())
