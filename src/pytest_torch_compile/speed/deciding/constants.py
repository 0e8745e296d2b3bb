"""The constants of the speed gate, with reasons. The measurements are in the study of the gate."""

# The false-alarm rate for a whole unchanged suite is 1%. Only a fifth of that budget is divided among the tests: stored
# runs that are fast by chance make the first run and the additional compilations look slow, and times have longer tails
# than a t test assumes.
FAMILY_LEVEL = 0.002
# Another compilation is requested if a time is this unlikely to be chance, which leads to 5 to 7 compilations in total
# for 24 unchanged tests. The threshold for improvements is stricter, because they do not fail a test.
SCREEN_OF_A_LOSS, SCREEN_OF_A_GAIN = 0.05, 0.005
# A few compilations may all have the same tuning; in one test, all stored runs were a quarter slower than the next run.
# So there must be enough stored and new compilations for a rank test alone to detect a change, at a level of 1 in this
# number of orders. With 5 stored runs, 7 more are needed; with 7 stored runs, 5 more; with 10, 4 more; and with 15, 3
# more. With fewer than 5, no number is enough.
MIN_ORDERS = 700
# Includes the first compilation.
MAX_COMPILATIONS = 8
# The spread of a few stored runs is a poor estimate, so it is combined with the typical spread, weighted like four more
# runs.
PRIOR_FREEDOM = 4
# If the host time is more than this fraction of the wall time, the calls wait for the host, and compiled wall time is
# compared with eager's wall time.
HOST_BOUND = 0.9
# The maximum number of stored runs of an unchanged test.
MAX_RUNS = 20
# With runs from this many devices of one model, their variation is known, and any other device can be judged.
ENOUGH_DEVICES = 3
# If the kernels or the host cause more than this fraction of a change in wall time, only the kernels or only the host
# are reported.
MOST = 0.7

# Smaller changes in a time are not reported.
FLOORS = {"device": 0.01, "wall": 0.02, "start": 0.25, "warm_start": 0.25}
# The typical standard deviation of the log of a time: between compilations, and between processes that share a
# persistent cache and so run the same code.
SPREADS = {"device": 0.015, "wall": 0.025, "start": 0.08, "warm_start": 0.08}
SPREADS_OF_A_KEPT_CACHE = {"device": 0.003, "wall": 0.008, "start": 0.08, "warm_start": 0.08}

# Memory is allocated in whole tensors. Padding chosen by the compiler's tuning changed it by 0.4%.
MEMORY_SHARE = 0.01
# Processes with the same code differed by up to four of several thousand calls; an additional kernel adds about fifteen
# calls.
PYTHON_CALLS_SHARE, PYTHON_CALLS_NUMBER = 0.01, 4
