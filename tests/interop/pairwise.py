"""Pairwise test cases: few cases that contain every pair of values of two dimensions."""

import itertools
import random

CANDIDATES = 60


def product(dimensions):
    """Every case there is, as dicts."""
    names = list(dimensions)
    return [dict(zip(names, values)) for values in itertools.product(*dimensions.values())]


def pairs_of(case):
    """The pairs of values that a case covers, with their names."""
    return {frozenset(pair) for pair in itertools.combinations(case.items(), 2)}


def all_pairs(dimensions):
    return {frozenset(((a, x), (b, y)))
            for a, b in itertools.combinations(dimensions, 2)
            for x in dimensions[a] for y in dimensions[b]}


def pairwise(dimensions, seed):
    """A list of cases that covers all pairs; the same seed gives the same list."""
    rng = random.Random(seed)
    missing = all_pairs(dimensions)
    cases = []
    while missing:
        # Sets have no order that the seed fixes.
        ordered = sorted(missing, key=lambda pair: sorted(map(str, pair)))
        best = max((_candidate(dimensions, ordered, rng) for _ in range(CANDIDATES)),
                   key=lambda case: len(pairs_of(case) & missing))
        missing -= pairs_of(best)
        cases.append(best)
    return cases


def _candidate(dimensions, missing, rng):
    """A case that covers at least one missing pair, with its other values random."""
    case = {name: rng.choice(values) for name, values in dimensions.items()}
    case.update(rng.choice(missing))
    return case
