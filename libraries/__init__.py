"""The battery of other people's code: `check_compile` over libraries, held against an oracle of its own."""
