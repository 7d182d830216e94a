"""What the models of time were fitted to, by device and kind of mapping.

A profile takes one of these (:attr:`~glenside.codegen.gpu.interface.DeviceLimits.fit`). What they
mean is in the ``time`` module of each kind; without, those go by first principles.
"""

from glenside.codegen.gpu.interface import Fit

_THREADS = {
    "floor": 0.5,  # microseconds of a kernel beside its launch
    "exchange": 1.11,  # cycles a warp takes to hand one sum a thread to another
    "load": 0.438,  # instructions' worth of reading local memory
    "row": 1.43,  # of each element of the resident operand that is read there
    "bank": 1.82,  # of reading once more, since lanes want several places of one bank
    "bring": 3.49,  # instructions an element of the streamed operand takes to be staged
    "latency": 206,  # cycles until what is read past local memory is there
    "packed": 295,  # the same of the resident operand, which is read in order
    "uneven": 0.175,  # of a unit's quarters that a group leaves idle, what is lost
    "hide": 0.88,  # warps of one unit that hide the latency of arithmetic
    "wait": 0.928,  # microseconds of a stage that one group alone waits
    "batch": 18.6,  # fetches of one thread that are under way at a time
    "share": 0.182,  # how far groups on one unit hide each other's waiting
    "joined": 4,  # reading gets cheaper by this power of the elements that lie evenly
    "line": 2.42,  # instructions' worth of reading one more line of the cache, past local memory
    "scatter": 0.0177,  # by how much storing takes longer where 32 threads store to many lines
    "camp": 0.664,  # and for each of them at a multiple of 4 KiB, in the same part of the cache
    "result": 212e3,  # lines of 128 bytes a microsecond
    "direct": 0.00334,  # of that, where nothing is staged
    "handing": 2.15,  # microseconds to hand on sums at the end
    "unstaged": 14.3,  # how much dearer reading past local memory is
    "overlap": 1.17,  # of the time it takes to store, what is not hidden
    "sum": 2.35e6,  # bytes of partial sums read a microsecond
    "second": 0.0087,  # launches' worth of a second kernel
    "ahead": 0.00365,  # of the waiting, what is left where the next stage is fetched meanwhile
    "each": 1.12,  # registers a sum takes
    "other": 7.7,  # and those beside sums and operands
}
"""Fitted to 2,000 measurements of fp32 products on an H200: 51
layers (VGG, ResNet, SqueezeNet, MobileNet), of whose measured mappings the one predicted to be best
took 1.05 times as long as the best, in geometric mean; 1.08 times on layers
left out of the fit, a third at a time. That wide loads of local memory wait for banks in full was
found afterwards: with it, and beside mappings of matrices, the one predicted to be best of 98
products of networks at batch 1 and 16 took 1.09 times as long as the best measured; 1.12 without.
"""

_WARPGROUPS = {
    "fetch": 78.0,  # bytes a cycle that one compute unit gets from the shared cache, at most
    "together": 1.8,  # of the shared cache's rate, where groups read the same at one time
    "apart": 1.0,  # the same, where some groups start when others end
    "latency": 720.0,  # cycles from asking for a copy to its arrival
    "wait": 300.0,  # cycles between two steps of a group, nothing kept under way
    "overlapped": 55.0,  # the same, a product kept under way
    "issue": 4.5,  # of the cycles it takes to ask for copies, what is not hidden
    "gather": 15.0,  # cycles a warp takes to bring an element for each of its threads
    "fill": 1130.0,  # cycles until the first step has arrived, and to start and to end
    "sums": 14.0,  # bytes of sums a cycle that go through local memory
    "cluster": 1600.0,  # cycles in which the groups of a cluster wait for each other
    "exchange": 4.0,  # bytes of sums a cycle from other groups
    "launch": 0.3,  # of the time between kernels, what is not hidden
}
"""Fitted to measurements of convolutions on an H200."""

_STREAMS = {
    "multiply": 0.537,  # cycles a position that a product takes
    "fetch": 68.0,  # bytes a cycle that one compute unit gets from the shared cache
    "line": 1.6,  # cycles that the copy engine takes for a line of a box, at least
    "latency": 850.0,  # cycles from asking for a copy to its arrival
    "portion": 64.0,  # cycles between the products of two portions of one warpgroup
    "fill": 1360.0,  # cycles until the first products, and to end
    "sums": 11.3,  # bytes of results a cycle that one warpgroup stores
    "store": 0.728,  # of the memory's bandwidth, what results get
    "launch": 0.77,  # of the time between kernels, what is not hidden
}
"""Fitted to 274 measurements of convolutions on an H200 (13 layers, mostly of 16 and 64 images; of
the mappings measured, the one predicted to be best took 1.014 times as long as the best, in
geometric mean)."""

_WARPS = {
    "rate": 0.49,  # of the units' peak that products reach, since whole warpgroups alone reach it
    "fetch": 68.0,  # bytes a cycle that one compute unit gets from the shared cache, at most
    "together": 0.68,  # of the shared cache's rate, where all units read at one time
    "read": 6.0,  # cycles that a load of four cells keeps local memory busy
    "turn": 27.0,  # cycles between loads of cells and the products of them
    "latency": 400.0,  # cycles from asking for a copy to its arrival
    "wait": 60.0,  # cycles between two steps of a group
    "gather": 15.0,  # cycles a warp takes to bring an element for each of its threads
    "fill": 1400.0,  # cycles until the first step has arrived, and to start and to end
    "sums": 20.0,  # bytes of sums a cycle that go through local memory
    "launch": 0.4,  # of the time between kernels, what is not hidden
    "parts": 0.8,  # launches that adding up parts costs
}
"""Fitted to measurements of this form on an H200."""

_MATRICES = {
    "read": 2.7,  # instructions that a wide read of local memory takes the time of
    "fetch": 2.0,  # the same of an element on its way there
    "uneven": 1.14,  # how much longer it takes where threads along columns are no power of two
    "few": 1.2,  # warps below which a unit waits
    "stage": 315.0,  # cycles of waiting for a stage
    "exchange": 0.018,  # cycles for each sum that threads exchange
    "start": 2350.0,  # cycles that a group begins and ends with
    "apart": 0.04,  # what of the shorter parts does not overlap
    "launch": 0.7e-6,  # seconds of a launch
}
"""Fitted to some 230 kernels on an H200, of products that minimal filtering and convolutions by
1 x 1 make; the typical error is 11 %."""

H200 = Fit(
    "an H200",
    {
        "threads": _THREADS,
        "matrices": _MATRICES,
        "warpgroups": _WARPGROUPS,
        "streams": _STREAMS,
        "warps": _WARPS,
    },
)
LIKE_H200 = Fit("an H200, no nearer device being at hand", {
    **H200.models,
    # Older units reach more of their peak, warp by warp.
    "warps": {**_WARPS, "rate": 0.7},
})  # fmt: skip
