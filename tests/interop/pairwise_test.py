#!/usr/bin/env python3
"""The cases of the matrix cover what they claim."""

import sys
import unittest

sys.dont_write_bytecode = True

from pairwise import all_pairs, pairs_of, pairwise, product

DIMENSIONS = {"a": [1, 2], "b": [1, 2, 3], "c": ["x", "y", "z", "w"], "d": [True, False]}


class PairwiseTest(unittest.TestCase):
    def test_every_pair_is_met(self):
        for seed in range(5):
            covered = set().union(*map(pairs_of, pairwise(DIMENSIONS, seed)))
            self.assertEqual(covered, all_pairs(DIMENSIONS))

    def test_few_cases_suffice(self):
        count = len(pairwise(DIMENSIONS, 1))
        self.assertGreaterEqual(count, 12)  # c with b
        self.assertLess(count, len(product(DIMENSIONS)) // 2)

    def test_the_seed_decides(self):
        self.assertEqual(pairwise(DIMENSIONS, 3), pairwise(DIMENSIONS, 3))
        self.assertNotEqual(pairwise(DIMENSIONS, 3), pairwise(DIMENSIONS, 4))

    def test_product_has_every_case_once(self):
        cases = [tuple(case.values()) for case in product(DIMENSIONS)]
        self.assertEqual((len(cases), len(set(cases))), (48, 48))


if __name__ == "__main__":
    unittest.main()
