"""The steps of ``action.yml``. These steps use only the standard library and this package."""
