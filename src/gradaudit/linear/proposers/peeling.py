"""The peeling decoder: a neuron with one record shows it, and what is known is subtracted."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.proposers.protocol import Proposals
from gradaudit.linear.refine import null_vector
from gradaudit.linear.tolerances import (
    DUPLICATE_COSINE,
    INFORMATIVE_RATIO,
    SIGN_RELATIVE,
    SIGN_SIGMAS,
)

# Numbers in one block of candidates' Gram matrices and masked rows: 32 MiB, a core's share.
BLOCK_NUMBERS = 2**22
# Added to a Gram matrix, relative to its mean eigenvalue, so that a singular one has a Cholesky
# factor; what it hides is far below what the screen lets through.
JITTER = 1e-10
# Floating-point operations of a round: a second or two of one core.
ROUND_COST = 5e10
# Factorising small matrices is so many times slower than one large product.
SMALL_MATRICES = 8.0


class PeelingDecoder:
    r"""Reads records off neurons that fire for one record only, and subtracts them from the rest.

    Row i of U is :math:`u_i = \sum_j G_{ij}\, p_j`, with :math:`p_j` the rows of :math:`Q^{-1}`.
    Where a single record fires neuron i, the row *is* its :math:`p_j` up to a factor. The weights
    then say which neurons the record leaves inactive, and the rows of those have one common null
    vector, its direction :math:`q_j`: a mixture of records fails here. Scaled to
    :math:`p_j \cdot q_j = 1`, the pair is subtracted from every row,

    .. math:: r_i = u_i - \sum_{j\ \mathrm{known}} (u_i \cdot q_j)\, p_j ,

    which leaves other neurons with a single record, and so on. Every call of `propose` tests the
    clearest of the rows that changed since they were tested last, until there are none.

    Directions that others found do not help: without its p a record cannot be subtracted.

    Args:
        problem: A layer in the sparse-gradient setting, whose bias, if it has one, comes with its
            gradient: else the scale of a record against the bias is unknown, and with it which
            neurons it fires.

    Raises:
        ValueError: The problem is another one.

    Source:
        After "Cascading gradient inversion via LT-code inspired peeling" (2026): the reading of
        single neurons and the peeling. Verification by the null vector, and the subtraction by
        directions instead of through the network, are ours; so no later layer need be known.

    Example:
        >>> from gradaudit.linear.factor import factor_gradient
        >>> from gradaudit.linear.problem import build_problem
        >>> from gradaudit.update import LinearLayer
        >>> g = torch.Generator().manual_seed(0)
        >>> x, w, d = (torch.randn(s, generator=g).double() for s in ((3, 20), (60, 20), (60, 3)))
        >>> d = d * (w @ x.T > 0)
        >>> layer = LinearLayer("fc1", w, None, d @ x, None)
        >>> factors = factor_gradient(layer.weight_gradient, generator=g)
        >>> decoder = PeelingDecoder(build_problem(layer, factors, Setting.SPARSE_GRADIENT))
        >>> len(decoder.propose(g, 0).directions)
        3
    """

    unit = "neurons"
    by_sparsity = False
    settings = (Setting.SPARSE_GRADIENT,)

    def __init__(self, problem: Problem) -> None:
        if problem.setting not in self.settings:
            raise ValueError(f"peeling does not search a {problem.setting.value}")
        if not has_known_patterns(problem):
            raise ValueError("peeling needs the gradient of the layer's bias")
        self._problem = problem
        self._rows = problem.sparse[problem.live]
        self._activation = problem.activation_map[problem.live]
        # Of a pre-activation: the norm of the weights that a record sees, its bias among them.
        self._scale = (self._activation / problem.factors.values).norm(dim=1)
        # Rows whose remainder has changed since it was last tested.
        self._untested = torch.ones_like(self._rows[:, 0], dtype=torch.bool)
        # The pairs found: q as unit vectors, p with p . q = 1, and the error of p S.
        self._directions = self._rows[:0]
        self._normals = self._rows[:0]
        self._errors = self._rows[:0, 0]
        count, size = self._rows.shape
        # A pattern, a Gram matrix and its factor, in float64: at half the speed.
        self._candidate_cost = 4.0 * count * (size + size**2) + SMALL_MATRICES * size**3

    def propose(
        self,
        generator: torch.Generator,
        minimum_zeros: int,
        *,
        found: Float[Tensor, "f b"] | None = None,
        at_most: int | None = None,
    ) -> Proposals:
        """Test the next rows for being one record's, the clearest first.

        Args:
            generator: Not used: nothing is random.
            minimum_zeros: Not used: the null vector needs more zeros than a kernel has for free.
            found: Not used, see above.
            at_most: Not used.

        Returns:
            The directions that are new; `Proposals.exhausted` once every row was tested since it
            last changed.
        """
        remainder, noise = self._remainder()
        signs = self._signs(remainder, noise)
        possible = self._untested & (signs != 0)
        clearest = (self._visible(remainder) / noise).argsort(descending=True, stable=True)
        chosen = clearest[possible[clearest]][: max(int(ROUND_COST / self._candidate_cost), 1)]
        self._untested = possible
        self._untested[chosen] = False
        before = len(self._directions)
        block = max(BLOCK_NUMBERS // self._rows.numel(), 1)
        for rows in torch.split(chosen, block):
            inactive = self._inactive(remainder[rows] * signs[rows, None], noise[rows])
            passed = self._screen(remainder[rows], inactive)
            for row, silent in zip(rows[passed], inactive[passed], strict=True):
                self._verify(row, remainder[row], noise[row], silent)
        new = self._directions[before:]
        self._untested |= self._problem.pattern(new)[1][:, self._problem.live].any(0)
        products = 8.0 * self._rows.numel() * len(self._directions)
        return Proposals(
            new,
            # A round without candidates has looked at the rows all the same.
            max(len(chosen), 1),
            products + len(chosen) * self._candidate_cost,
            exhausted=not bool(self._untested.any()),
        )

    def _remainder(self) -> tuple[Float[Tensor, "l b"], Float[Tensor, " l"]]:
        r"""Every row less the records found, and the error of an entry of it times S.

        :math:`U - U Q (P Q)^{-1} P`: with errors in the pairs P Q is not quite 1, and the inverse
        makes good for whatever a p has of other records that have been found since.
        """
        noise = self._problem.sparse_noise[self._problem.live].square()
        noise = noise + self._problem.factors.arithmetic_error**2
        if not len(self._directions):
            return self._rows, noise.sqrt()
        entries = self._rows @ self._directions.T
        overlap = self._normals @ self._directions.T
        remainder = self._rows - entries @ torch.linalg.solve(overlap, self._normals)
        return remainder, (noise + entries.square() @ self._errors.square()).sqrt()

    def _visible(self, remainder: Float[Tensor, "k b"]) -> Float[Tensor, " k"]:
        """Norm of each row of the gradient that the remainder stands for."""
        return (remainder * self._problem.factors.values).norm(dim=1)

    def _signs(
        self, remainder: Float[Tensor, "l b"], noise: Float[Tensor, " l"]
    ) -> Float[Tensor, " l"]:
        """The sign that makes each row a p, if it is one; zero where it is none.

        It is the one with which the record fires the neuron whose row it is, and a bias gradient
        must agree.
        """
        own = (remainder * self._activation).sum(1)
        signs = torch.where(own.abs() > self._margin(remainder, noise) * self._scale, own.sign(), 0)
        bias_gradient = self._problem.layer.bias_gradient
        if bias_gradient is not None:
            bias_part = remainder @ (self._problem.factors.left.T @ bias_gradient)
            signs = torch.where(bias_part * own > 0, signs, 0)
        return signs

    def _inactive(
        self, normals: Float[Tensor, "k b"], noise: Float[Tensor, " k"]
    ) -> Bool[Tensor, "k l"]:
        """The neurons that a record with such a p would clearly not fire."""
        margin = self._margin(normals, noise)[:, None] * self._scale
        return normals @ self._activation.T < -margin

    def _margin(
        self, normals: Float[Tensor, "k b"], noise: Float[Tensor, " k"]
    ) -> Float[Tensor, " k"]:
        """Error of a pre-activation by a unit row of weights, in the unit of p."""
        return SIGN_SIGMAS * noise + SIGN_RELATIVE * self._visible(normals)

    def _screen(
        self, starts: Float[Tensor, "c b"], inactive: Bool[Tensor, "c l"]
    ) -> Bool[Tensor, " c"]:
        """Whether each candidate's inactive rows nearly annihilate some vector.

        By two steps of inverse iteration on their Gram matrix.
        """
        rows = self._problem.unit_rows
        size = rows.shape[1]
        jitter = JITTER / size * torch.eye(size).to(rows)
        gram = (rows.T[None] * inactive[:, None, :]) @ rows
        count = inactive.sum(1)
        factor = torch.linalg.cholesky_ex(gram + count[:, None, None] * jitter)[0]
        vector = starts / starts.norm(dim=1, keepdim=True)
        for _ in range(2):
            vector = torch.cholesky_solve(vector[..., None], factor)[..., 0]
            vector = vector / vector.norm(dim=1, keepdim=True)
        left = (vector * (gram @ vector[..., None])[..., 0]).sum(1)
        # A typical vector leaves entries of mean square 1/b.
        nearly = left < count * INFORMATIVE_RATIO**2 / size
        return nearly & (count > self._problem.zeros_needed)

    def _verify(
        self,
        row: Int[Tensor, ""],
        remainder: Float[Tensor, " b"],
        noise: Float[Tensor, ""],
        inactive: Bool[Tensor, " l"],
    ) -> None:
        """Keep a candidate whose inactive rows have one null vector, that is new and its own."""
        problem = self._problem
        direction = null_vector(problem.unit_rows[inactive])
        if direction is None:
            return
        zero, active = (mask[0, problem.live] for mask in problem.pattern(direction[None]))
        known = (self._directions @ direction).abs() > 1 - DUPLICATE_COSINE
        fits = int(zero.sum()) > problem.zeros_needed and not bool((active & inactive).any())
        if not fits or not bool(active[row]) or bool(known.any()):
            return
        factor = remainder @ direction
        self._directions = torch.cat([self._directions, direction[None]])
        self._normals = torch.cat([self._normals, (remainder / factor)[None]])
        self._errors = torch.cat([self._errors, (noise / factor.abs())[None]])


def has_known_patterns(problem: Problem) -> bool:
    """Whether a row of Q^-1 up to scale tells which neurons its record fires.

    It does without a bias, and with one whose gradient was observed.

    Args:
        problem: A layer in the sparse-gradient setting.
    """
    return problem.activation_map.shape[1] == problem.batch_size
