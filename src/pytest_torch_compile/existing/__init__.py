"""``--compile-existing=PACKAGE``: checks the calls from ordinary tests into a package, at the moment of each call."""
