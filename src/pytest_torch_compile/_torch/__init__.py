"""The only modules that use private torch names. Each module lists the torch versions on which these names were
checked.
"""
