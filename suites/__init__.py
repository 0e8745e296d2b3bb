"""Suites over real models. Each folder covers one subject, and each file starts with a description of the practice that
it tests."""
