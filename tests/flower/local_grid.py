"""Flower apps without a network: a grid whose nodes are client apps in this process."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from flwr.app import Context, Error, Message, RecordDict, UserConfig
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

# Flower's code for a client app that raised an exception.
CLIENT_APP_RAISED_EXCEPTION = 2


class LocalGrid(Grid):
    """Runs a client app in this process for each of some nodes, one after the other.

    Nodes are numbered from 1, partitions from 0. What passes between server and clients is copied,
    as on a network.
    """

    def __init__(self, client_app: ClientApp, nodes: int) -> None:
        # Flower sets these where it starts a server; a message cannot be made without.
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 0, 0
        self._client_app = client_app
        self._contexts = {
            node_id: make_context(node_id, {"partition-id": node_id - 1, "num-partitions": nodes})
            for node_id in range(1, nodes + 1)
        }

    def get_node_ids(self) -> Iterable[int]:
        return list(self._contexts)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return [self._reply(copy.deepcopy(message)) for message in messages]

    def _reply(self, message: Message) -> Message:
        context = self._contexts[message.metadata.dst_node_id]
        try:
            return copy.deepcopy(self._client_app(message, context))
        # Whatever a client app raises becomes an error of its node, as on a network.
        except Exception as error:
            return Message(Error(CLIENT_APP_RAISED_EXCEPTION, str(error)), reply_to=message)

    @property
    def run(self):
        raise NotImplementedError

    def set_run(self, run):
        raise NotImplementedError

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError


def make_context(node_id: int, config: dict[str, int]) -> Context:
    return Context(
        run_id=0,
        node_id=node_id,
        node_config=UserConfig(config),
        state=RecordDict(),
        run_config=UserConfig(),
    )
