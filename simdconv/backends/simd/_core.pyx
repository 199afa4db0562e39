# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=True
"""The binding: pointers in, a call without the GIL, error codes out. No arithmetic, no validation.

Callers (simdconv.backends.simd) hand over aligned arrays in native byte order whose innermost axis is
contiguous, and a Problem that describes them.
"""

from libc.stddef cimport ptrdiff_t, size_t

import numpy as np

cimport numpy as cnp

cnp.import_array()

cdef extern from "simdconv.h" nogil:
    ctypedef enum sc_algorithm:
        pass
    ctypedef enum sc_layout:
        SC_NHWC
    ctypedef enum sc_dtype:
        SC_F32
        SC_F64
    ctypedef enum sc_activation:
        pass
    ctypedef enum sc_padding:
        pass
    ctypedef enum sc_error:
        SC_OK
        SC_NO_MEMORY
    enum:
        SC_N_ISAS
    ctypedef struct sc_problem:
        sc_layout layout
        ptrdiff_t images, inner, groups, c_in, c_out
        ptrdiff_t h_in, w_in, h_f, w_f, h_out, w_out
        ptrdiff_t stride_h, stride_w, dilation_h, dilation_w
        ptrdiff_t top, left, h_p, w_p
        ptrdiff_t x_image, x_c, x_h, x_w
        ptrdiff_t w_o, w_i, w_h, w_w
        sc_padding padding
        sc_activation activation
        double act_lo, act_hi
    ctypedef struct sc_team:
        int threads, flush_denormals
    ctypedef struct sc_kernel:
        const char *id
        sc_algorithm algorithm
        sc_layout layout
        sc_dtype dtype
        int isa
        ptrdiff_t (*filter_size)(const sc_kernel *, const sc_problem *)
        int (*variant)(const sc_problem *)
    int sc_isa_built(int)
    int sc_isa_found(int)
    const char *sc_isa_name(int)
    size_t sc_cache_bytes(int)
    int sc_openmp()
    int sc_max_threads()
    int sc_kernel_count()
    const sc_kernel *sc_kernel_at(int)
    int sc_threads_for(const sc_problem *, int)
    size_t sc_conv_workspace(const sc_kernel *, const sc_problem *, int, int)
    sc_error sc_conv(const sc_kernel *, const sc_problem *, const void *, const void *, const void *,
                     int, const void *, void *, sc_team)
    int sc_pack(const sc_kernel *, const sc_problem *, const void *, void *, sc_team)
    sc_error sc_im2col(const sc_problem *, size_t, const void *, void *, sc_team)
    sc_error sc_im2win(const sc_problem *, size_t, const void *, void *, sc_team)
    size_t sc_last_allocation()
    void *sc_block_take(size_t)
    void sc_block_give(void *)
    double sc_peak_gflops(int, sc_dtype, int)
    double sc_bandwidth(int)

cdef extern from *:
    """
    #ifdef __clang__
    #define SC_COMPILER "clang " __clang_version__
    #elif defined(__GNUC__)
    #define SC_COMPILER "gcc " __VERSION__
    #else
    #define SC_COMPILER "unknown"
    #endif
    """
    const char *SC_COMPILER

ALGORITHMS = ("direct", "im2win", "im2col", "implicit")  # in the order of sc_algorithm
LAYOUTS = ("NCHW", "NHWC", "CHWN", "CHWN8")  # in the order of sc_layout
DTYPES = ("f32", "f64")  # in the order of sc_dtype
PADDINGS = ("constant", "edge", "reflect", "symmetric", "wrap")  # in the order of sc_padding
ACTIVATIONS = ("none", "clip", "leaky")  # in the order of sc_activation
# where image, channel, row and column stand in an array of each layout
NO_WORKSPACE = "simdconv: no memory for the workspace of this convolution"
AXES = ((0, 1, 2, 3), (0, 3, 1, 2), (3, 0, 1, 2), (0, 1, 2, 3))


def isas_built():
    """Names of the ISAs that this build has, from the floor upward."""
    return [sc_isa_name(i).decode() for i in range(SC_N_ISAS) if sc_isa_built(i)]


def isas_found():
    """Names of those that this machine can run."""
    return [sc_isa_name(i).decode() for i in range(SC_N_ISAS) if sc_isa_found(i)]


def compiler():
    """Which compiler built the C library."""
    return SC_COMPILER.decode()


def openmp():
    """The OpenMP version (a date as yyyymm) that the parallel loop was built with; 0: without."""
    return sc_openmp()


def max_threads():
    """How many threads a call would use now, at most."""
    return sc_max_threads()


def cpu_info():
    """What the C library knows of the processor: cache sizes in bytes."""
    return {f"l{level}_bytes": sc_cache_bytes(level) for level in (1, 2, 3)}


def kernels():
    """(index, id, algorithm, layout, isa, dtype) of every kernel in the table."""
    table = []
    for i in range(sc_kernel_count()):
        kernel = sc_kernel_at(i)
        table.append((i, kernel.id.decode(), ALGORITHMS[<int>kernel.algorithm],
                      LAYOUTS[<int>kernel.layout], sc_isa_name(kernel.isa).decode(),
                      DTYPES[<int>kernel.dtype]))
    return table


def last_allocation():
    """Bytes of workspace that the last convolution of this thread was given."""
    return sc_last_allocation()


def peak_gflops(str isa, str dtype, int threads=1):
    """Measured: GFLOP/s of independent FMAs in registers; 0 where the machine lacks the ISA."""
    cdef int index = -1, code = DTYPES.index(dtype), i
    cdef double rate
    for i in range(SC_N_ISAS):
        if sc_isa_name(i).decode() == isa:
            index = i
    with nogil:
        rate = sc_peak_gflops(index, <sc_dtype>code, threads)
    return rate


def bandwidth(int threads=1):
    """Measured: GB/s that a triad over 128 MiB moves."""
    cdef double rate
    with nogil:
        rate = sc_bandwidth(threads)
    return rate


cdef class Block:
    """Memory of the C library's allocator; goes back to it with the last array that lies in it."""

    cdef void *data

    def __dealloc__(self):
        sc_block_give(self.data)


cdef enum:
    LARGE = 1 << 18  # bytes; below, NumPy's own allocation is as good and quicker


def empty(tuple shape, int type_number, size_t size):
    """A new array in C order of a NumPy type and `size` bytes, not cleared.

    Large ones come from the C library's allocator, aligned to lines; it keeps the last few blocks that
    were given back: a fresh one costs a page fault for every page that is written.
    """
    cdef Block block
    cdef cnp.npy_intp sizes[32]
    cdef int axes = len(shape), i
    cdef cnp.ndarray array
    for i in range(axes):
        sizes[i] = shape[i]
    if size < LARGE:
        return cnp.PyArray_SimpleNew(axes, sizes, type_number)
    block = Block.__new__(Block)
    block.data = sc_block_take(size)
    if block.data == NULL:
        raise MemoryError(f"simdconv: no memory for a result of {size} bytes, shape {shape}")
    array = cnp.PyArray_SimpleNewFromData(axes, sizes, type_number, block.data)
    cnp.set_array_base(array, block)
    return array


cdef class Problem:
    """The geometry of a call, in C; strides are filled in for each call's arrays."""

    cdef sc_problem p
    cdef int axes[4]

    def __init__(self, str layout, sizes, str padding, activation):
        """sizes: images, inner, groups, c_in, c_out (of a group), h_in, w_in, h_f, w_f, h_out, w_out,
        stride_h, stride_w, dilation_h, dilation_w, top, left, h_p, w_p. padding: NumPy's name.
        activation: name, lo, hi.
        """
        cdef int code = LAYOUTS.index(layout), act = ACTIVATIONS.index(activation[0])
        cdef int mode = PADDINGS.index(padding)
        self.p.layout = <sc_layout>code
        (self.p.images, self.p.inner, self.p.groups, self.p.c_in, self.p.c_out, self.p.h_in,
         self.p.w_in, self.p.h_f, self.p.w_f, self.p.h_out, self.p.w_out, self.p.stride_h,
         self.p.stride_w, self.p.dilation_h, self.p.dilation_w, self.p.top, self.p.left, self.p.h_p,
         self.p.w_p) = sizes
        for i in range(4):
            self.axes[i] = AXES[code][i]
        self.p.padding = <sc_padding>mode
        self.p.activation = <sc_activation>act
        self.p.act_lo, self.p.act_hi = activation[1], activation[2]
        self.lay_plain()

    cdef void lay_plain(self):
        """Fill in the strides of C order."""
        cdef ptrdiff_t channels = self.p.groups * self.p.c_in
        cdef ptrdiff_t w = channels if self.p.layout == SC_NHWC else self.p.inner
        cdef ptrdiff_t plane = self.p.h_in * self.p.w_in * w
        if self.p.layout == SC_NHWC:
            set_strides(&self.p, plane, 1, self.p.w_in * w, w)
        else:
            set_strides(&self.p, channels * plane, plane, self.p.w_in * w, w)

    def lay(self, strides):
        """Fill in the strides of an image that is not in C order, in elements, for `workspace`."""
        set_strides(&self.p, strides[self.axes[0]], strides[self.axes[1]], strides[self.axes[2]],
                    strides[self.axes[3]])


cdef void set_strides(sc_problem *p, ptrdiff_t image, ptrdiff_t c, ptrdiff_t h, ptrdiff_t w):
    """NumPy's stride of an axis of one element may be any number; here it is that of C order."""
    p.x_image, p.x_c, p.x_h, p.x_w = image, c, h, w
    if p.w_in == 1:
        p.x_w = p.x_image if p.h_in == 1 and p.layout == SC_NHWC else p.x_h
    if p.h_in == 1:
        p.x_h = p.w_in * p.x_w


cdef sc_problem described(Problem problem, cnp.ndarray x):
    """The problem with x's strides in elements."""
    cdef sc_problem p = problem.p
    cdef ptrdiff_t size = cnp.PyArray_ITEMSIZE(x)
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(x)
    set_strides(&p, strides[problem.axes[0]] // size, strides[problem.axes[1]] // size,
                strides[problem.axes[2]] // size, strides[problem.axes[3]] // size)
    return p


cdef void describe_filter(sc_problem *p, cnp.ndarray w):
    """Fill in the strides of a filter that is seen as (o, i, h, w)."""
    cdef ptrdiff_t size = cnp.PyArray_ITEMSIZE(w)
    cdef cnp.npy_intp *strides = cnp.PyArray_STRIDES(w)
    p.w_o = strides[0] // size
    p.w_i = strides[1] // size
    p.w_h = strides[2] // size
    p.w_w = strides[3] // size


def threads_for(Problem problem, int threads):
    """Threads that a call really uses, of at most `threads`."""
    return sc_threads_for(&problem.p, threads)


def workspace(int kernel, Problem problem, int threads, bint packed):
    """Bytes that `convolve` allocates; packed: with a filter packed before."""
    return sc_conv_workspace(sc_kernel_at(kernel), &problem.p, threads, packed)


def filter_size(int kernel, Problem problem):
    """Elements of a packed filter; 0 if the kernel reads filters where they lie."""
    cdef const sc_kernel *k = sc_kernel_at(kernel)
    return k.filter_size(k, &problem.p)


def variant(int kernel, Problem problem):
    """Which order the kernel packs this problem's filter in."""
    return sc_kernel_at(kernel).variant(&problem.p)


def pack(int kernel, Problem problem, cnp.ndarray w not None, cnp.ndarray packed not None,
         int threads):
    """Pack the filter w, an (o, i, h, w) view; returns whether all of it is finite."""
    cdef const sc_kernel *k = sc_kernel_at(kernel)
    cdef sc_problem p = problem.p
    cdef sc_team team
    cdef void *source = cnp.PyArray_DATA(w)
    cdef void *target = cnp.PyArray_DATA(packed)
    cdef int finite
    describe_filter(&p, w)
    team.threads, team.flush_denormals = threads, 0
    with nogil:
        finite = sc_pack(k, &p, source, target, team)
    return finite != 0


def convolve(int kernel, Problem problem, cnp.ndarray x not None, cnp.ndarray w, cnp.ndarray packed,
             bint finite, cnp.ndarray bias, cnp.ndarray y not None, int threads, bint flush_denormals):
    """Run the kernel: w (an (o, i, h, w) view) or a packed filter; y in C order."""
    cdef const sc_kernel *k = sc_kernel_at(kernel)
    cdef sc_problem p = described(problem, x)
    cdef sc_team team
    cdef sc_error error
    cdef void *image = cnp.PyArray_DATA(x)
    cdef void *weights = NULL
    cdef void *prepared = NULL
    cdef void *offset = NULL
    cdef void *result = cnp.PyArray_DATA(y)
    if w is not None:
        describe_filter(&p, w)
        weights = cnp.PyArray_DATA(w)
    if packed is not None:
        prepared = cnp.PyArray_DATA(packed)
    if bias is not None:
        offset = cnp.PyArray_DATA(bias)
    team.threads, team.flush_denormals = threads, flush_denormals
    with nogil:
        error = sc_conv(k, &p, image, weights, prepared, finite, offset, result, team)
    if error != SC_OK:
        raise MemoryError(NO_WORKSPACE)


cdef class Prepared:
    """A convolution of arrays in C order, described once: a repeated call hands over pointers only."""

    cdef sc_problem p
    cdef const sc_kernel *kernel
    cdef sc_team team
    cdef tuple shape
    cdef int type_number, most
    cdef size_t size
    cdef cnp.ndarray held
    cdef bint packed, finite

    def __init__(self, int kernel, Problem problem, cnp.ndarray w not None, bint keep, bint packed,
                 bint finite, tuple shape, int type_number, size_t size, int threads, int most,
                 bint flush_denormals):
        """w: a filter as an (o, i, h, w) view, like those to come, or, with `keep`, the one of all
        calls, which may be packed; finite: all of a packed one; shape, type_number, size: of the
        result; most: what max_threads() has to be for `threads` to be right, 0: anything.
        """
        self.p = problem.p
        if not packed:
            describe_filter(&self.p, w)
        self.kernel = sc_kernel_at(kernel)
        self.held = w if keep else None
        self.packed, self.finite = packed, finite
        self.shape, self.type_number, self.size = shape, type_number, size
        self.team.threads, self.team.flush_denormals = threads, flush_denormals
        self.most = most

    def __call__(self, cnp.ndarray x not None, cnp.ndarray w not None, cnp.ndarray bias):
        """The result; None where the number of threads has changed since."""
        cdef cnp.ndarray y
        cdef sc_error error
        cdef void *image = cnp.PyArray_DATA(x)
        cdef void *weights = cnp.PyArray_DATA(w if self.held is None else self.held)
        cdef void *packed = NULL
        cdef void *offset = NULL
        cdef void *result
        if self.packed:
            weights, packed = NULL, weights
        if bias is not None:
            offset = cnp.PyArray_DATA(bias)
        if self.most and sc_max_threads() != self.most:
            return None
        y = empty(self.shape, self.type_number, self.size)
        result = cnp.PyArray_DATA(y)
        with nogil:
            error = sc_conv(self.kernel, &self.p, image, weights, packed, self.finite, offset, result,
                            self.team)
        if error != SC_OK:
            raise MemoryError(NO_WORKSPACE)
        return y


def transform(Problem problem, bint strips, cnp.ndarray x not None, cnp.ndarray out not None,
              int threads):
    """im2col, or im2win where strips; any dtype of 1, 2, 4, 8 or 16 bytes, out in C order."""
    cdef sc_problem p = described(problem, x)
    cdef sc_team team
    cdef size_t element = cnp.PyArray_ITEMSIZE(x)
    cdef void *source = cnp.PyArray_DATA(x)
    cdef void *target = cnp.PyArray_DATA(out)
    team.threads, team.flush_denormals = threads, 0
    with nogil:
        if strips:
            sc_im2win(&p, element, source, target, team)
        else:
            sc_im2col(&p, element, source, target, team)
