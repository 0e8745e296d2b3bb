"""Failing targets, each labelled by hand with what a diagnosis should say of it."""
