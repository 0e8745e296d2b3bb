"""The steps of ``action.yml``. Uses only the standard library and this package."""
