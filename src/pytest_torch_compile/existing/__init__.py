"""``--compile-existing=PACKAGE``: check each call that the project's tests make into a package, at the moment of the
call.
"""
