"""What an accelerator's declaration is made of, and what is derived from it.

``sizes``: arithmetic over size variables. ``template``: the term a unit computes, with size
variables in place of numbers. ``samples``: sizes that satisfy a declaration, or why there are none.
``mapping``: the rewrite that finds the unit. ``tiling``: a call of any size in passes of the unit's
own size. ``programs``: random programs on which the rewrite is checked.
"""
