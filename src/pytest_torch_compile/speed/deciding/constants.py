"""The constants that determine the results of speed tests, with the reasons for their values. For the measurements, see
``docs/study-of-the-gate.md``.
"""

# The probability that an unchanged suite fails must be at most 1%. A fifth of this limit, the constant below, is
# divided among the tests. The rest is a margin for two effects: stored runs that are fast by chance make all new runs
# look slow, and times have heavier tails than a t test assumes.
FAMILY_LEVEL = 0.002
# More compilations are requested if the p-value of a change is below a threshold: the first threshold is for slowdowns,
# and the second is for improvements. For 24 unchanged tests, this leads to 5 to 7 additional compilations in total. The
# threshold for improvements is stricter, because an improvement does not fail a test.
SCREEN_OF_A_LOSS, SCREEN_OF_A_GAIN = 0.05, 0.005
# By chance, autotuning may choose the same code in a few compilations in a row. For example, all stored runs of one
# test were 25% slower than the first new run. So there must be enough runs for a rank test alone to detect a change:
# the number of ways to distribute the ranks among the stored and the additional runs must be at least this constant.
# With 5 stored runs, 7 additional runs are needed; with 7 stored runs, 5; with 10, 4; and with 15, 3. With fewer than 5
# stored runs, even the maximum of 7 additional runs is not enough.
MIN_ORDERS = 700
# The maximum number of new compilations of a test, including the first.
MAX_COMPILATIONS = 8
# A few stored runs are not enough to estimate how much a time varies. So their spread is combined with the typical
# spread (SPREADS), which counts as this many degrees of freedom.
PRIOR_FREEDOM = 4
# If the host time is more than this fraction of the wall time, the device waits for the host, and compiled wall time is
# compared with eager's wall time instead of eager's device time.
HOST_BOUND = 0.9
# The maximum number of runs that a baseline stores for each test.
MAX_RUNS = 20
# If the stored runs come from at least this many devices of the same model, the variation between devices is known, so
# runs on any other device of this model can be judged.
ENOUGH_DEVICES = 3
# If the kernels or the host account for at least this fraction of a change in wall time, the change is attributed to
# that side alone.
MOST = 0.7

# A change in a time is not reported if it is smaller than this fraction.
FLOORS = {"device": 0.01, "wall": 0.02, "start": 0.25, "warm_start": 0.25}
# The typical standard deviation of the log of a time. The first mapping is for different compilations; the second is
# for processes that share a persistent cache and therefore run the same code.
SPREADS = {"device": 0.015, "wall": 0.025, "start": 0.08, "warm_start": 0.08}
SPREADS_OF_A_KEPT_CACHE = {"device": 0.003, "wall": 0.008, "start": 0.08, "warm_start": 0.08}

# The tolerance for peak memory, as a fraction. Padding that autotuning chose changed the peak by 0.4%.
MEMORY_SHARE = 0.01
# The tolerance for Python calls. Code that is added around the compiled code adds a few calls, and an additional kernel
# adds about fifteen.
PYTHON_CALLS_SHARE, PYTHON_CALLS_NUMBER = 0.05, 30
# The host time of one guard and one Python call in microseconds, for messages. Evaluating the guards of BERT, Llama and
# ResNet-18 (1,344 to 1,881 guards) took 12 to 61 ns per guard with torch 2.13 and 2.15. In the study, 1,500 Python
# calls took about 0.1 us each.
GUARD_MICROSECONDS, PYTHON_CALL_MICROSECONDS = 0.05, 0.1
