"""A check runs its target several times, for example eagerly and then compiled. Each run, called a leg, runs all of the
check's calls and starts from the same state.
"""
