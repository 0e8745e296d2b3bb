"""``--compile-existing=PACKAGE``: check calls that the project's tests make into a package, at the moment of
each call.
"""
