"""``--compile-existing=PACKAGE``: check the calls that ordinary tests make into a package, at the moment of each
call.
"""
