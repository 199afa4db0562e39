/* simdconv's C library: the one header its users see (the Cython binding and the C tests).
 *
 * A convolution is described by sc_problem in the words of the map (README.md): `images` images,
 * each of `inner` interleaved pictures (NCHW, NHWC: 1; CHWN: n; CHWN8: 8), addressed by element
 * strides, so that a layout is nothing but strides. Padding is arithmetic on coordinates: no
 * padded copy of an image exists. Nothing here knows Python. Functions return 0 or an sc_error;
 * nothing is printed. / */
#ifndef SIMDCONV_H
#define SIMDCONV_H

#include <stddef.h>

typedef enum { SC_DIRECT, SC_IM2WIN, SC_IM2COL, SC_IMPLICIT, SC_N_ALGORITHMS } sc_algorithm;
typedef enum { SC_NCHW, SC_NHWC, SC_CHWN, SC_CHWN8, SC_N_LAYOUTS } sc_layout;
typedef enum { SC_F32, SC_F64, SC_N_DTYPES } sc_dtype;
typedef enum { SC_ACT_NONE, SC_ACT_CLIP, SC_ACT_LEAKY } sc_activation;
typedef enum { SC_CONSTANT, SC_EDGE, SC_REFLECT, SC_SYMMETRIC, SC_WRAP } sc_padding;
typedef enum { SC_OK, SC_NO_MEMORY, SC_NO_KERNEL } sc_error;

enum {
#define SC_ISA(name, needs) SC_ISA_##name,
#include "isas.def"
#undef SC_ISA
    SC_N_ISAS
};

typedef struct {
    sc_layout layout;
    ptrdiff_t images, inner;       /* n = images * inner */
    ptrdiff_t groups, c_in, c_out; /* channels of one group */
    ptrdiff_t h_in, w_in, h_f, w_f, h_out, w_out;
    ptrdiff_t stride_h, stride_w, dilation_h, dilation_w;
    ptrdiff_t top, left, h_p, w_p; /* padding before, padded size */
    ptrdiff_t x_image, x_c, x_h,
        x_w;                      /* strides in elements; the innermost axis of x is contiguous */
    ptrdiff_t w_o, w_i, w_h, w_w; /* strides of the filter in elements, any */
    sc_padding padding; /* what lies beyond the image, with NumPy's meaning at any width */
    sc_activation activation;
    double act_lo, act_hi; /* clip: bounds; leaky: slope in act_lo */
} sc_problem;              /* the result is C-contiguous in `layout` */

/* Who works, and how: at most `threads` threads, denormals taken for zeros in them or not */
typedef struct {
    int threads, flush_denormals;
} sc_team;

typedef struct {
    const void *x, *w, *packed, *bias; /* w: as it lies, or NULL and `packed` by the same kernel */
    void *y, *workspace;
    int packed_finite; /* every weight is: products with padding zeros may be skipped */
    sc_team team;
} sc_operands;

typedef struct sc_kernel sc_kernel;
struct sc_kernel {
    const char *id;
    sc_algorithm algorithm;
    sc_layout layout;
    sc_dtype dtype;
    int isa;
    /* elements of the packed filter; 0: read where it lies, which needs w in OIHW order, contiguous
     */
    ptrdiff_t (*filter_size)(const sc_kernel *, const sc_problem *);
    /* which of its orders the kernel packs this problem's filter in: a packed filter serves calls
     * with the same */
    int (*variant)(const sc_problem *);
    /* packs, and returns whether every weight is finite */
    int (*pack_filter)(const sc_kernel *, const sc_problem *, const void *w, void *packed, sc_team);
    /* bytes for `threads` threads; without a packed filter each packs the blocks that it works with
     */
    size_t (*workspace)(const sc_kernel *, const sc_problem *, int threads, int packed);
    void (*run)(const sc_kernel *, const sc_problem *, const sc_operands *);
};

/* What the machine has, and what is built */
int sc_isa_built(int isa);
int sc_isa_found(int isa);
const char *sc_isa_name(int isa);
int sc_isa_best(void);
size_t sc_cache_bytes(int level); /* 1, 2, 3; a sane default where the system does not tell */
int sc_openmp(void);              /* the value of _OPENMP, 0 without it */
int sc_max_threads(void); /* what OpenMP would use now; 1 without it, and in a forked child */

/* The table: every kernel that is built, in the order of kernels.def x isas.def */
int sc_kernel_count(void);
const sc_kernel *sc_kernel_at(int index);
const sc_kernel *sc_kernel_find(sc_algorithm, sc_layout, int isa, sc_dtype);

/* threads that sc_conv will really use for this problem, at most `threads` */
int sc_threads_for(const sc_problem *, int threads);

/* Bytes allocated by sc_conv with these arguments; packed: the caller holds the packed filter */
size_t sc_conv_workspace(const sc_kernel *, const sc_problem *, int threads, int packed);

/* y = conv(x, w) + bias, activation. Exactly one of w and packed is not NULL. */
sc_error sc_conv(const sc_kernel *, const sc_problem *, const void *x, const void *w,
                 const void *packed, int packed_finite, const void *bias, void *y, sc_team);

/* Packs a filter once for many calls; returns whether every weight is finite */
int sc_pack(const sc_kernel *, const sc_problem *, const void *w, void *packed, sc_team);

/* The stored transforms, for elements of 1, 2, 4, 8 or 16 bytes; out is C-contiguous */
sc_error sc_im2col(const sc_problem *, size_t element, const void *x, void *out, sc_team);
sc_error sc_im2win(const sc_problem *, size_t element, const void *x, void *out, sc_team);

/* Bytes handed out by the allocator in the last sc_conv of this thread (for tests of the formula)
 */
size_t sc_last_allocation(void);

/* Memory for results: aligned to 128 bytes, not cleared. The last blocks given back are kept for
 * the next. */
void *sc_block_take(size_t bytes);
void sc_block_give(void *);

/* Peaks of this machine, for the roofline: GFLOP/s of independent FMAs, GB/s of a triad */
double sc_peak_gflops(int isa, sc_dtype, int threads);
double sc_bandwidth(int threads);

#endif
