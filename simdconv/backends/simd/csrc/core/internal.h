/* What the parts of the library share and its users do not see. */
#ifndef SC_INTERNAL_H
#define SC_INTERNAL_H

#include "../simdconv.h"

#if defined(__x86_64__)
#define SC_X86 1
#define SC_ARM 0
#elif defined(__aarch64__)
#define SC_X86 0
#define SC_ARM 1
#else
#define SC_X86 0
#define SC_ARM 0
#endif

/* One run of a window: `x` elements from the tile's first element in the image (or strip, patch,
 * matrix), at row `k` of the packed filter. Runs of one table have the same length, but for those
 * of rows that are split by the stride (filter_rows.h). */
typedef struct {
    ptrdiff_t x, k, len;
} sc_run;

typedef struct {
    const sc_run *runs;
    ptrdiff_t count, len, step; /* runs; steps of each; elements of the image from step to step */
    int even;                   /* each is as long, and at its turn in the packed filters */
} sc_table;

static inline ptrdiff_t sc_min(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
static inline ptrdiff_t sc_max(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
static inline ptrdiff_t sc_ceil_div(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }
/* start of part i when n things are split into `parts` balanced parts */
static inline ptrdiff_t sc_part(ptrdiff_t n, ptrdiff_t parts, ptrdiff_t i) { return n * i / parts; }
/* bytes rounded up to whole cache lines, so that no two threads share one */
static inline size_t sc_lines(size_t bytes) { return (bytes + 127) & ~(size_t)127; }

/* strides of the result, C-contiguous in the problem's layout, in elements */
typedef struct {
    ptrdiff_t image, c, h, w;
} sc_strides;
sc_strides sc_result_strides(const sc_problem *);

/* parallel.c: body(context, task, thread) for each task, disjoint results, dynamic schedule */
typedef void (*sc_body)(void *context, ptrdiff_t task, int thread);
void sc_parallel(ptrdiff_t tasks, sc_team team, sc_body body, void *context);
/* `part` tasks in a row share what a thread prepares for them: parts stay whole where each thread
 * gets as many. */
void sc_parallel_parts(ptrdiff_t tasks, ptrdiff_t part, sc_team team, sc_body body, void *context);

/* fpcontrol.c: the thread's floating-point control word */
unsigned long sc_fp_save(void);
void sc_fp_restore(unsigned long control);
void sc_fp_flush_denormals(void);

int sc_most_threads(void);

/* workspace.c: what one call works in; NULL when there is no memory */
void *sc_alloc(size_t bytes);
void sc_free(void *);

/* Windows of one output row in place: how far the tables and interior checks go (problem.c) */
typedef struct {
    ptrdiff_t first, last; /* output columns [first, last) whose windows touch no side padding */
} sc_span;
sc_span sc_interior_columns(const sc_problem *);
int sc_row_is_interior(const sc_problem *, ptrdiff_t m);
/* has row m, kernel row u a source row? Its index, or -1 */
/* (the same for any coordinate outside [0, size)) */
ptrdiff_t sc_beyond(sc_padding, ptrdiff_t i, ptrdiff_t size);
ptrdiff_t sc_source_row(const sc_problem *, ptrdiff_t m, ptrdiff_t u);
/* 1x1, stride 1, unpadded: rows (and in NHWC images) that follow one another are one long row */
sc_problem sc_merged(const sc_problem *);
int sc_is_pointwise(const sc_problem *); /* 1x1, stride 1, unpadded */

/* Tables of runs of the in-place window (problem.c); `room` entries suffice for sc_table_room. */
typedef struct {
    ptrdiff_t x_c, x_h, x_w; /* strides of what the runs point into */
    int channels_last;
    int row_map; /* take source rows of output row m from the map, leave out zero rows */
    ptrdiff_t m;
    ptrdiff_t ring; /* not 0: padded row r lies at row r % ring */
} sc_place;
ptrdiff_t sc_table_room(const sc_problem *);
sc_table sc_window_table(const sc_problem *, const sc_place *, sc_run *room);
sc_table sc_strip_table(const sc_problem *, int channels_last, ptrdiff_t strip_columns,
                        sc_run *room);

/* tables of kernels that the ISA units export, SC_N_DTYPES x rows of kernels.def each */
#define SC_KERNEL(algorithm, ALGORITHM, layout, LAYOUT, driver) +1
enum {
    SC_N_RECIPES = 0
#include "../kernels.def"
};
#undef SC_KERNEL
typedef struct {
    sc_kernel kernels[SC_N_DTYPES * SC_N_RECIPES];
    double (*peak_flops)(sc_dtype,
                         ptrdiff_t iterations); /* runs FMAs in registers, returns their flops */
} sc_unit;
#define SC_ISA(name, condition) extern const sc_unit sc_unit_##name;
#include "../isas.def"
#undef SC_ISA

#endif
