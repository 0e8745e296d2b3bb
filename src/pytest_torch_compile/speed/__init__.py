"""Measure the speed of eager and compiled code, and detect regressions. ``measuring`` requires torch; ``deciding``
imports neither torch nor pytest.
"""
