"""What front ends lower to alike: functions over terms that know no file format.

Modules named after TVM hold what its two languages, Relay and Relax, have in common.
"""
