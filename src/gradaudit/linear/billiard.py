"""Random points of many polytopes at once: billiard balls that are everywhere equally often."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# Mean time between turns; a polytope of the shape that is given is crossed in less than one.
TURN_AFTER = 4.0


class Walkers:
    r"""Points that move straight ahead, are reflected at every boundary, and turn now and then.

    The polytope of walker w is :math:`\{y : \sigma_{wu}\,(c_u \cdot y + o_{wu}) \ge 0\}`. In the
    long run each is everywhere in its own with equal probability, as long as it turns after random
    times. Such a walk forgets where it was within a few times as many reflections as there are
    dimensions; hit-and-run takes about their square.

    Args:
        y: Where each starts, inside.
        margins: :math:`\sigma_{wu}\,(c_u \cdot y + o_{wu})` there, positive.
        sides: :math:`\sigma_{wu}`, zero where a boundary does not count for the walker.
        slopes: :math:`c_u`, common to all.
        shapes: A linear image of a ball, of as many dimensions as each walks in, that has about
            the shape of its polytope.
        generator: On their device.

    Source:
        Polyak and Gryazina, Billiard walk, IFAC Proceedings 47 (3), 2014.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> one, slopes = torch.ones(1, 2), torch.tensor([[1.0], [1.0]])
        >>> sides = torch.tensor([[1.0, -1.0]])  # y > -1 and y < 1
        >>> walkers = Walkers(
        ...     torch.zeros(1, 1), one, sides, slopes=slopes, shapes=one[None, :, :1], generator=g
        ... )
        >>> places = torch.cat([walkers.move()[0] for _ in range(50)])
        >>> bool((places.abs() <= 1).all()), bool(places.std() > 0.3)
        (True, True)
    """

    def __init__(
        self,
        y: Float[Tensor, "w d"],
        margins: Float[Tensor, "w u"],
        sides: Float[Tensor, "w u"],
        *,
        slopes: Float[Tensor, "u d"],
        shapes: Float[Tensor, "w d e"],
        generator: torch.Generator,
    ) -> None:
        self._y, self._margins, self._sides = y, margins, sides
        self._slopes, self._shapes, self._generator = slopes, shapes, generator
        self._velocity = torch.zeros_like(y)
        self._left = torch.zeros_like(y[:, 0])
        self._turn(torch.ones_like(self._left, dtype=torch.bool))

    def move(self) -> tuple[Float[Tensor, "w d"], Float[Tensor, " w"]]:
        """Go on to the next boundary or turn.

        Returns:
            A random point on the way there, and the time it took, by which the point is to be
            weighted; infinite where there is no boundary ahead.
        """
        speed = self._sides * (self._velocity @ self._slopes.T)
        arrival = torch.where(speed < 0, -self._margins / speed, torch.inf)
        reached, boundary = arrival.min(1)
        length = torch.minimum(reached, self._left)
        between = self._y + (self._uniform() * length)[:, None] * self._velocity
        self._y = self._y + length[:, None] * self._velocity
        self._margins = (self._margins + length[:, None] * speed).clamp(min=0)
        self._left = self._left - length
        normal = self._slopes[boundary]
        across = (self._shapes @ (self._shapes.mT @ normal[..., None]))[..., 0]
        rate = (normal * self._velocity).sum(1) / (normal * across).sum(1)
        bounce = (reached == length)[:, None]
        self._velocity = torch.where(
            bounce, self._velocity - 2 * rate[:, None] * across, self._velocity
        )
        self._turn(~bounce[:, 0])
        return between, torch.where(torch.isfinite(reached), length, torch.inf)

    def _turn(self, which: Bool[Tensor, " w"]) -> None:
        noise = torch.randn(
            len(self._y),
            self._shapes.shape[2],
            1,
            generator=self._generator,
            dtype=self._y.dtype,
            device=self._y.device,
        )
        self._velocity = torch.where(which[:, None], (self._shapes @ noise)[..., 0], self._velocity)
        left = -TURN_AFTER * torch.log(self._uniform())
        self._left = torch.where(which, left, self._left)

    def _uniform(self) -> Float[Tensor, " w"]:
        return torch.rand(
            len(self._y), generator=self._generator, dtype=self._y.dtype, device=self._y.device
        )
