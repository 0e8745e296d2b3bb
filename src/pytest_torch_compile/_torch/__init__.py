"""The only modules that use private torch names. Each use lists the torch versions on which it was checked."""
