"""A method of a test case as the target: the attribute it fills on the test case is empty after the compiled call."""

import unittest

import torch

from pytest_torch_compile import check_compile

EXPECT = [("state", "last_scores")]


class TestScores(unittest.TestCase):
    def setUp(self):
        self.weight = torch.randn(4, 4)
        self.last_scores = None

    def score(self, x):
        scores = x @ self.weight
        if not torch.compiler.is_compiling():
            self.last_scores = scores
        return scores.softmax(-1)


def check(**options):
    case = TestScores()
    case.setUp()
    return check_compile(case.score, torch.randn(2, 4), backend="eager", **options)
