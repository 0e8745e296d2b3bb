"""Measure speed tests, and detect regressions. ``measuring`` needs torch; ``deciding`` imports neither torch nor
pytest.
"""
