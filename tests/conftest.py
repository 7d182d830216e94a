"""Settings that every test shares."""

from hypothesis import settings

# The same examples on every run and machine: a red suite is red for everybody. For a wider search,
# run `make test ARGS=--hypothesis-profile=search`.
settings.register_profile("repeatable", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("search", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("repeatable")
