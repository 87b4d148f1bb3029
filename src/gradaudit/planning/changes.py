"""The smallest change of a client, one at a time, past which an attack is expected to fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gradaudit.planning.client import PlannedClient
from gradaudit.planning.result import Change

# What one client or a layer may still be said to have; beyond it no change is named.
MOST_RECORDS, LEAST_WIDTH = 1_000_000, 2
# Standard deviations of noise that are tried, from weak to strong, in steps of a twentieth decade.
NOISES = tuple(10 ** (power / 20) for power in range(-160, 41))
OTHER_ACTIVATION = "leaky_relu"

Share = Callable[[PlannedClient], float]


def changes(client: PlannedClient, share: Share) -> tuple[Change, ...]:
    """For each lever the smallest change after which nothing is expected to be recovered.

    Args:
        client: As planned.
        share: The expected share of records that the attack recovers from a client.
    """
    batches = _bisect(client.batch_size, MOST_RECORDS, lambda b: replace(client, batch_size=b))
    widths = _bisect(client.width, LEAST_WIDTH, client.with_width)
    found = [
        _first("batch size", "{:,}", batches(share)),
        _first("width", "{:,}", widths(share)),
        _first("noise", "{:.2g}", _along(client, share)),
    ]
    if client.bias:
        found.append(_switch("first layer's bias", "none", replace(client, bias=False), share))
    if client.layer.activation == "relu":
        other = client.with_activation(OTHER_ACTIVATION)
        found.append(_switch("activation", OTHER_ACTIVATION, other, share))
    return tuple(found)


def _bisect(
    start: int, end: int, changed: Callable[[int], PlannedClient]
) -> Callable[[Share], float | None]:
    """The value nearest to the start at which nothing is left; the share falls on the way."""

    def search(share: Share) -> float | None:
        good, bad = end, start
        if share(changed(end)) > 0:
            return None
        while abs(good - bad) > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if share(changed(middle)) == 0 else (good, middle)
        return good

    return search


def _along(client: PlannedClient, share: Share) -> float | None:
    stronger = (value for value in NOISES if value > client.noise)
    return next((v for v in stronger if share(replace(client, noise=v)) == 0), None)


def _first(lever: str, form: str, value: float | None) -> Change:
    if value is None:
        return Change(lever, None, None)
    return Change(lever, form.format(value), 0.0)


def _switch(lever: str, value: str, client: PlannedClient, share: Share) -> Change:
    left = share(client)
    return Change(lever, value if left == 0 else None, left)
