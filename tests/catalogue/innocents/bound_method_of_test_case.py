"""A method of a test case as the target, in unittest style, which fills an attribute of the test case."""

import unittest

import torch

from pytest_torch_compile import check_compile


class TestScores(unittest.TestCase):
    def setUp(self):
        self.weight = torch.randn(4, 4)
        self.last_scores = None

    def score(self, x):
        self.last_scores = x @ self.weight
        return self.last_scores.softmax(-1)

    def runTest(self, **options):
        check_compile(self.score, torch.randn(2, 4), backend="eager", **options)
        self.assertIsNone(self.last_scores)


def check(**options):
    case = TestScores()
    case.setUp()
    return case.runTest(**options)
