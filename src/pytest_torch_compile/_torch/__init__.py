"""All uses of private torch names are in the modules of this package. The docstring of each module lists the torch
versions with which its private names were checked.
"""
