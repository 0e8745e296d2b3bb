"""``--compile-existing=PACKAGE``: checks calls that ordinary tests make into a package, at the moment of each call."""
