r"""The two kinds of equations that a layer gives about its input, as operators without a matrix.

For a layer with output gradient k, the observed weight gradient is linear in the input x, and so is
the output:

.. math:: K x = \partial L / \partial W, \qquad W x = z - b.

Both go through the same patches of x (im2col): with U the map from an input to its patches,
:math:`K x = k (U x)^T` and :math:`W x = W (U x)`. Zeros of the padding are no unknowns. The first
dimension of every tensor counts independent problems, each with its own x and k.
"""

from __future__ import annotations

import math

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from gradaudit.chain import Affine


class Patches:
    """U: from inputs to what every output position sees of them, by group of channels.

    Args:
        layer: A convolution, or a fully connected layer, which has one position.
    """

    def __init__(self, layer: Affine) -> None:
        self._layer = layer
        self.groups = layer.groups
        if layer.is_convolution:
            self.taps = math.prod(layer.kernel)
            self.size = math.prod(layer.weight.shape[1:])
            self.positions = math.prod(layer.layer_shape[1:])
        else:
            self.taps, self.size, self.positions = 1, layer.unknowns, 1

    def __call__(self, inputs: Float[Tensor, "p n"]) -> Float[Tensor, "p g t l"]:
        """Patches of flat inputs."""
        count, layer = len(inputs), self._layer
        if not layer.is_convolution:
            return inputs.reshape(count, 1, -1, 1)
        columns = functional.unfold(
            inputs.reshape(count, *layer.input_shape),
            layer.kernel,
            layer.dilation,
            layer.padding,
            layer.stride,
        )
        return columns.reshape(count, self.groups, self.size, self.positions)

    def adjoint(self, patches: Float[Tensor, "p g t l"]) -> Float[Tensor, "p n"]:
        """Sums of what the patches say of each entry."""
        count, layer = len(patches), self._layer
        if not layer.is_convolution:
            return patches.reshape(count, -1)
        folded = functional.fold(
            patches.reshape(count, -1, self.positions),
            (layer.input_shape[1], layer.input_shape[2]),
            layer.kernel,
            layer.dilation,
            layer.padding,
            layer.stride,
        )
        return folded.reshape(count, -1)


class LayerEquations:
    """K and W of one layer for several problems.

    Args:
        layer: With weights in float64.
        output_gradient: k, loss gradient at the layer's own output, flat.
    """

    def __init__(self, layer: Affine, output_gradient: Float[Tensor, "p q"]) -> None:
        self.layer = layer
        self.patches = Patches(layer)
        self._weight = layer.weight.reshape(layer.groups, -1, self.patches.size)
        self.k = output_gradient.reshape(len(output_gradient), layer.groups, -1, self._positions)

    @property
    def _positions(self) -> int:
        return self.patches.positions

    def __call__(
        self, inputs: Float[Tensor, "p n"]
    ) -> tuple[Float[Tensor, "p w"], Float[Tensor, "p z"]]:
        """K x, a flat weight gradient, and W x, what the activation is given, less constants."""
        patches = self.patches(inputs)
        gradient = self.k @ patches.mT
        return gradient.reshape(len(inputs), -1), self._behind(self._weight @ patches)

    def adjoint(
        self, gradients: Float[Tensor, "p w"], outputs: Float[Tensor, "p z"]
    ) -> Float[Tensor, "p n"]:
        """K^T of a weight gradient plus W^T of what the activation is given."""
        shaped = gradients.reshape(len(gradients), *self._weight.shape)
        return self.patches.adjoint(shaped.mT @ self.k + self._weight.mT @ self._before(outputs))

    def gradient(self, inputs: Float[Tensor, "p n"]) -> Float[Tensor, "p w"]:
        """K x alone."""
        return (self.k @ self.patches(inputs).mT).reshape(len(inputs), -1)

    def gradient_adjoint(self, gradients: Float[Tensor, "p w"]) -> Float[Tensor, "p n"]:
        """K^T alone."""
        shaped = gradients.reshape(len(gradients), *self._weight.shape)
        return self.patches.adjoint(shaped.mT @ self.k)

    def output(self, inputs: Float[Tensor, "p n"]) -> Float[Tensor, "p z"]:
        """W x alone."""
        return self._behind(self._weight @ self.patches(inputs))

    def output_adjoint(self, outputs: Float[Tensor, "p z"]) -> Float[Tensor, "p n"]:
        """W^T alone: the loss gradient at the input from that behind the fixed maps."""
        return self.patches.adjoint(self._weight.mT @ self._before(outputs))

    def input_gradient(self) -> Float[Tensor, "p n"]:
        """The loss gradient at the input that k implies."""
        return self.patches.adjoint(self._weight.mT @ self.k)

    def _behind(self, values: Float[Tensor, "p g o l"]) -> Float[Tensor, "p z"]:
        """Through the fixed maps."""
        values = values.reshape(len(values), *self.layer.layer_shape)
        for step in self.layer.after:
            values = step.linear(values)
        return values.reshape(len(values), -1)

    def _before(self, outputs: Float[Tensor, "p z"]) -> Float[Tensor, "p g o l"]:
        """Back through the fixed maps, to the layer's own output."""
        flat = layer_gradient(self.layer, outputs)
        return flat.reshape(len(flat), self.layer.groups, -1, self._positions)


def layer_gradient(layer: Affine, outputs: Float[Tensor, "p z"]) -> Float[Tensor, "p q"]:
    """The loss gradient at the layer's own output from that behind its fixed maps, flat."""
    values = outputs.reshape(len(outputs), *layer.output_shape)
    for step in reversed(layer.after):
        values = step.adjoint(values)
    return values.reshape(len(outputs), -1)


def constant(layer: Affine) -> Float[Tensor, " z"]:
    """What the activation is given for an input of zeros."""
    zeros = layer.weight.new_zeros(1, *layer.input_shape)
    return layer(zeros).reshape(-1)
