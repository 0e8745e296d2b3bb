"""Advice that names switches of torch which are not public: read on torch 2.6, 2.8, 2.11, 2.13 and 2.15. No torch."""

SURFACE_ERRORS = "mend the error, or set torch._dynamo.config.suppress_errors = False to let it surface"
SEE_CACHE_BYPASS = "TORCH_LOGS=+torch._inductor.codecache says why a graph is not cached: often an op or a custom pass"
