"""The battery: run `check_compile` on third-party libraries, and compare its results with those of an independent
oracle, which uses only plain torch.
"""
