"""``--compile-existing=PACKAGE``: the calls that ordinary tests make into a package, checked where they happen."""
