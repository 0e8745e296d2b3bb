"""Modules that use private names of torch; no other modules use private names. Each module lists the torch versions on
which its names were checked.
"""
