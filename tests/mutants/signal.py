"""How much a mutant changes, in multiples of the error that eager's own rounding makes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from pytest_torch_compile.numerics import CallRecord
from pytest_torch_compile.numerics.measure import bitwise_equal, root_mean_square
from pytest_torch_compile.numerics.rule import STORE_RMS_EPS, eps
from pytest_torch_compile.numerics.sections import plain_values

Values = Mapping[str, torch.Tensor]


def signal(mutant: CallRecord, original: CallRecord, eager: CallRecord, reference: CallRecord) -> float:
    """The largest change to a leaf, by root mean square and by single elements, over eager's own error there.

    Infinite where anything that is no rounding differs, or where it cannot be told.
    """
    if any(record.error is not None for record in (mutant, original, eager, reference)):
        return math.inf
    one, two, plain, true = (plain_values(record) for record in (mutant, original, eager, reference))
    if one.keys() != two.keys() or any(not torch.equal(mutant.rng[d], original.rng[d]) for d in original.rng):
        return math.inf
    changed = [name for name in one if not bitwise_equal(one[name], two[name])]
    return max((_of_leaf(name, one, two, plain, true) for name in changed), default=0.0)


def _of_leaf(name: str, one: Values, two: Values, plain: Values, true: Values) -> float:
    known = name in plain and name in true and one[name].shape == two[name].shape == true[name].shape
    if not known or not one[name].is_floating_point() or bool((one[name].isfinite() != two[name].isfinite()).any()):
        return math.inf
    change = _finite(one[name].double() - two[name].double())
    own = _finite(plain[name].double() - true[name].double())
    stored = STORE_RMS_EPS * eps(plain[name].dtype) * root_mean_square(true[name])
    by_size = root_mean_square(change) / max(root_mean_square(own), stored)
    return max(by_size, float(change.abs().max()) / max(float(own.abs().max()), stored))


def _finite(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values.isfinite(), values, 0.0)
