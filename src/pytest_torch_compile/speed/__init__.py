"""Measure the speed of eager and compiled code, and detect regressions. The subpackage ``measuring`` requires torch;
the subpackage ``deciding`` imports neither torch nor pytest.
"""
