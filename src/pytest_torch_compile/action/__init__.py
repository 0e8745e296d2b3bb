"""What the steps of ``action.yml`` do. Runs on a bare Python: the standard library and this package only."""
