"""The only rooms with private torch names. Each use says on which torch versions it was checked."""
