"""The constants of the speed gate, with reasons. The figures are in the study of the gate."""

# The probability that any time of an unchanged suite fails is 1 %. Only a fifth of it is distributed over the tests:
# stored runs that are fast by chance make the first run and the further ones look slow, and times have longer tails
# than a t test assumes.
FAMILY_LEVEL = 0.002
# A further compilation is requested if a time is this unlikely by chance: 5 to 7 in total for 24 unchanged tests. The
# threshold for improvements is stricter, since they do not fail a test.
SCREEN_OF_A_LOSS, SCREEN_OF_A_GAIN = 0.05, 0.005
# A few compilations may all have the same tuning; in one test, all stored runs were a quarter slower than the next one.
# So there must be enough of both that their ranks alone could show a change, which depends on this number of possible
# orders. With 5 stored runs it takes 7 further ones, with 7 it takes 5, with 10 it takes 4, with 15 it takes 3; with
# fewer than 5, no number is enough.
MIN_ORDERS = 700
# Includes the first compilation.
MAX_COMPILATIONS = 8
# A few stored runs give a poor estimate of the spread, so it is combined with the typical spread, weighted like four
# more runs.
PRIOR_FREEDOM = 4
# If the host time is more than this fraction of the wall time, a call waits for the host, and its time is compared with
# eager's wall time.
HOST_BOUND = 0.9
# The maximum number of stored runs of an unchanged test.
MAX_RUNS = 20
# With runs from this many devices of one model, their variation is known, and any other device can be judged.
ENOUGH_DEVICES = 3
# A side that causes more than this fraction of a change of wall time is reported alone.
MOST = 0.7

# Smaller changes of a time are not reported.
FLOORS = {"device": 0.01, "wall": 0.02, "start": 0.25, "warm_start": 0.25}
# The typical standard deviation of the log of a time, between compilations, and between processes with the same
# persistent cache, which run the same code.
SPREADS = {"device": 0.015, "wall": 0.025, "start": 0.08, "warm_start": 0.08}
SPREADS_OF_A_KEPT_CACHE = {"device": 0.003, "wall": 0.008, "start": 0.08, "warm_start": 0.08}

# Memory is allocated in whole tensors. Padding chosen by the compiler's tuning changed it by 0.4 %.
MEMORY_SHARE = 0.01
# Processes with the same code differed by up to four of several thousand calls; one more kernel adds about fifteen.
PYTHON_CALLS_SHARE, PYTHON_CALLS_NUMBER = 0.01, 4
