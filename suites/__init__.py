"""Suites over real models: each folder is one subject, each file opens with the practice it guards."""
