"""The battery: `check_compile` on other people's libraries, compared with an independent oracle."""
