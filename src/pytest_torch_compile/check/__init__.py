"""The user-facing checks: ``check_compile``, ``compile_guard`` and ``CompileSuite``, and the code that creates their
findings.
"""
