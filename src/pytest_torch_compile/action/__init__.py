"""The steps of ``action.yml``. The steps use only the standard library and this package."""
