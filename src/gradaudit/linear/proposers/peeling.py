"""The peeling decoder: a neuron with one record shows it, and what is known is subtracted."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gradaudit.linear.drift import settled
from gradaudit.linear.grams import gather_rows
from gradaudit.linear.null_space import masked_null_vectors, without_null_vector
from gradaudit.linear.problem import Problem, Setting
from gradaudit.linear.proposers.protocol import Proposals
from gradaudit.linear.refine import GRAM_GAP, KERNEL_GAP
from gradaudit.linear.tolerances import SIGN_RELATIVE, SIGN_SIGMAS

# Floating-point operations of a round, a tenth of a second of one core, and the pre-activations
# that it may hold at once: 128 MiB.
ROUND_COST = 2e9
ROUND_NUMBERS = 2**24
# What the records found so far leave of another's p . q is all of it; of one of theirs, nothing.
REPEATED = 0.5
# A candidate is screened by so many rows more than a null vector takes, in units of the batch size:
# their Gram matrix is well conditioned where there is none.
SCREEN_SURPLUS = 0.25
# A factorisation takes a third of a cube of operations, at an eighth of large products' speed.
SMALL_MATRICES = 3.0


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

    A row in which further records have next to no share is read all the same. Its p is off by
    their shares, which the subtraction makes good once those records are found. Of near-duplicates
    a difference may pass for a record, at the cost of those alone.
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
    needs_bias_gradient = True
    settings = (Setting.SPARSE_GRADIENT,)
    joins_after = 0.0

    def __init__(self, problem: Problem) -> None:
        if problem.setting not in self.settings:
            raise ValueError(f"peeling does not search a {problem.setting.value}")
        if problem.activation_map.shape[1] != problem.batch_size:
            raise ValueError("peeling needs the gradient of the layer's bias")
        self._problem = problem
        self._rows = problem.sparse[problem.live]
        self._activation = problem.activation_map[problem.live]
        drift = problem.activation_drift
        self._drift = None if drift is None else drift[problem.live]
        self._noise = problem.sparse_noise[problem.live] + problem.factors.arithmetic_error
        # Of a pre-activation: the norm of the weights that a record sees, its bias among them.
        self._scale = (self._activation / problem.factors.values).norm(dim=1)
        # Rows whose remainder has changed since it was last tested.
        self._untested = torch.ones_like(self._rows[:, 0], dtype=torch.bool)
        # Rows that seemed a record's but for some neurons that it ought to fire and does not:
        # taken for one's only when nothing better is left.
        self._doubtful = torch.zeros_like(self._untested)
        self._lenient = False
        # The pairs found: q as unit vectors, p with p . q = 1, and the error of p S.
        self._directions = self._rows[:0]
        self._normals = self._rows[:0]
        self._errors = self._rows[:0, 0]
        count, size = self._rows.shape
        self._screened = problem.zeros_needed + int(SCREEN_SURPLUS * size)
        # A pattern, a Gram matrix and its factor, in float64: at half the speed.
        self._row_cost = 4.0 * (count * size + self._screened * size**2) + SMALL_MATRICES * size**3
        self._round_size = max(1, min(int(ROUND_COST / self._row_cost), ROUND_NUMBERS // count))

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
        self._lenient = not bool(self._untested.any())
        if self._lenient:
            self._untested, self._doubtful = self._doubtful, torch.zeros_like(self._doubtful)
        remainder, noise = self._remainder()
        signs = self._signs(remainder, noise)
        possible = self._untested & (signs != 0)
        clearest = (self._visible(remainder) / noise).argsort(descending=True, stable=True)
        chosen = clearest[possible[clearest]][: self._round_size]
        self._untested = possible
        self._untested[chosen] = False
        self._doubtful[chosen] = False
        before = len(self._directions)
        self._test(chosen, remainder[chosen] * signs[chosen, None], noise[chosen])
        new = self._directions[before:]
        self._untested |= self._problem.pattern(new)[1][:, self._problem.live].any(0)
        products = 8.0 * self._rows.numel() * len(self._directions)
        return Proposals(
            new,
            # A round without candidates has looked at the rows all the same.
            max(len(chosen), 1),
            products + len(chosen) * self._row_cost,
            exhausted=not bool((self._untested | self._doubtful).any()),
        )

    @property
    def normals(self) -> Float[Tensor, "f b"]:
        r"""Rows of :math:`Q^{-1}` of the records found, in the order of their directions.

        P less what each p has of records found later, :math:`(P Q)^{-1} P`; as each was kept less
        those found before it, P Q is triangular. With a bias gradient the records follow:
        :math:`x = V S p / s` with :math:`s = p \cdot U^T \, \partial L / \partial b`.
        """
        overlap = self._normals @ self._directions.T
        return torch.linalg.solve_triangular(overlap, self._normals, upper=True, unitriangular=True)

    def _remainder(self) -> tuple[Float[Tensor, "l b"], Float[Tensor, " l"]]:
        """Every row less the records found, and the error of an entry of it times S."""
        entries = self._rows @ self._directions.T
        noise = self._noise.square() + entries.square() @ self._errors.square()
        return self._less_known(self._rows), noise.sqrt()

    def _less_known(self, rows: Float[Tensor, "k b"]) -> Float[Tensor, "k b"]:
        """Rows less the records found."""
        return rows - (rows @ self._directions.T) @ self.normals

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

    def _predicted(
        self, normals: Float[Tensor, "k b"], noise: Float[Tensor, " k"]
    ) -> tuple[Bool[Tensor, "k l"], Bool[Tensor, "k l"]]:
        """The neurons that a record with such a p clearly leaves inactive, and clearly fires."""
        margin = self._margin(normals, noise)[:, None] * self._scale
        preactivation = normals @ self._activation.T
        certain = settled(preactivation, None if self._drift is None else normals @ self._drift.T)
        return (preactivation < -margin) & certain, (preactivation > margin) & certain

    def _margin(
        self, normals: Float[Tensor, "k b"], noise: Float[Tensor, " k"]
    ) -> Float[Tensor, " k"]:
        """Error of a pre-activation by a unit row of weights, in the unit of p."""
        return SIGN_SIGMAS * noise + SIGN_RELATIVE * self._visible(normals)

    def _possible(self, inactive: Bool[Tensor, "k l"]) -> Bool[Tensor, " k"]:
        """Whether the first of the inactive rows may have a null vector, as all do for a record.

        They have none for nearly all mixtures, and to see that takes a fraction of the work.
        """
        order = inactive.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices
        rows = gather_rows(self._problem.weighed_rows, order[:, : self._screened])
        # No set of so many rows, of norm 1 at most, has a Gram matrix of a larger norm.
        largest = inactive.sum(1).to(rows)
        enough = largest >= rows.shape[1]
        return ~enough | ~without_null_vector(rows, GRAM_GAP * largest)

    def _test(
        self,
        rows: Int[Tensor, " k"],
        normals: Float[Tensor, "k b"],
        noise: Float[Tensor, " k"],
    ) -> None:
        """Keep the candidates whose inactive rows have exactly one null vector."""
        if not len(rows):
            return
        inactive, active = self._predicted(normals, noise)
        possible = self._possible(inactive)
        if not bool(possible.any()):
            return
        rows, normals, noise = rows[possible], normals[possible], noise[possible]
        inactive, active = inactive[possible], active[possible]
        weighed = self._problem.weighed_rows
        directions, first, second = masked_null_vectors(weighed, inactive.to(normals))
        single = (first < GRAM_GAP) & (second > KERNEL_GAP**2)
        zero, firing = (mask[:, self._problem.live] for mask in self._problem.pattern(directions))
        single &= zero.sum(1) > self._problem.zeros_needed
        single &= ~(firing & inactive).any(1) & firing.gather(1, rows[:, None])[:, 0]
        # A record that ought to fire more neurons than it does has others mixed in, or an odd
        # network behind it.
        doubtful = (zero & active).any(1) & (not self._lenient)
        for place in torch.nonzero(single)[:, 0].tolist():
            direction, normal = directions[place], self._less_known(normals[place, None])[0]
            factor = normal @ direction
            # Of a record that another row has shown by now next to nothing is left.
            if float(factor.abs()) <= REPEATED * float((normals[place] @ direction).abs()):
                continue
            if bool(doubtful[place]):
                self._doubtful[rows[place]] = True
                continue
            self._directions = torch.cat([self._directions, direction[None]])
            self._normals = torch.cat([self._normals, (normal / factor)[None]])
            self._errors = torch.cat([self._errors, (noise[place] / factor.abs())[None]])
