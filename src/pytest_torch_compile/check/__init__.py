"""The user-facing checks: ``check_compile``, ``compile_guard`` and ``CompileSuite``, and their verdicts."""
