/* Where the result goes past the caches and its rows are no whole lines (in NCHW they start at any
 * address, in CHWN and CHWN8 some do), a tile alone would write pieces of lines. A segment waits in
 * the thread's own planes, [filter][pixel], in L2, while the next one is computed in other planes;
 * some of it leaves after each tile, so that memory is written while sums go on. */
#define PLANES_HALVES 2

/* What waits: `filters` pieces of `pixels` elements, `done` of the first one gone */
typedef struct {
    const T *from;
    T *to;
    ptrdiff_t from_filter, to_filter, filters, pixels, done;
    int half; /* the half that the next segment fills */
} FN(planes);

/* how many parts of a segment, of so many bytes, may wait */
static ptrdiff_t FN(fit_in_planes)(size_t bytes) {
    return (ptrdiff_t)(sc_cache_bytes(2) / 4 / PLANES_HALVES / bytes);
}

/* Output rows of a task: so many that it writes long pieces of each plane, few enough for L2, where
 * they wait, and for the threads to have several tasks each. Rows follow one another in a plane
 * only where a segment is all of one. */
static ptrdiff_t FN(rows_of_planes)(ptrdiff_t rows, ptrdiff_t segments, ptrdiff_t tasks,
                                    int threads, ptrdiff_t filters, ptrdiff_t pixels) {
    enum { TASKS_A_THREAD = 8, MOST = 16 };
    ptrdiff_t fit = FN(fit_in_planes)((size_t)(filters * pixels) * sizeof(T));
    ptrdiff_t busy = threads > 1 ? rows * tasks / (threads * TASKS_A_THREAD) : rows;
    return segments > 1 ? 1 : sc_max(1, sc_min(sc_min(rows, MOST), sc_min(fit, busy)));
}

/* The next vectors of what waits, about so many. A piece starts with what lies before a whole
 * vector; lines that pieces share are asked for a piece ahead. */
static void FN(put_some)(FN(planes) *w, ptrdiff_t vectors) {
    const int stream = w->pixels >= 2 * VL;
    while (vectors > 0 && w->filters > 0) {
        T *to = w->to + w->done;
        const T *from = w->from + w->done;
        ptrdiff_t left = w->pixels - w->done, n;
        if (stream && w->done == 0) {
            const T *next = w->to + (w->filters > 1 ? w->to_filter : 0);
            const ptrdiff_t head = (ptrdiff_t)((-(size_t)to & (sizeof(vec) - 1)) / sizeof(T));
            __builtin_prefetch(next, 1);
            __builtin_prefetch(next + left - 1, 1);
            v_store_mask(to, v_load(from), v_mask(head));
            to += head, from += head, left -= head;
        }
        n = sc_min(vectors, left / VL);
        vectors -= n + 1;
        left -= n * VL;
        for (const T *end = from + n * VL; from < end; from += VL, to += VL) {
            const vec v = v_load(from);
            if (stream) v_stream(to, v);
            else v_store(to, v);
        }
        w->done = w->pixels - left;
        if (left >= VL) return;
        if (left) {
            const mask valid = v_mask(left);
            v_store_mask(to, v_load_mask(from, valid), valid);
        }
        w->from += w->from_filter;
        w->to += w->to_filter;
        w->filters--;
        w->done = 0;
    }
}

/* where the next segment is to wait, `half_bytes` at most */
static T *FN(free_planes)(FN(planes) *w, size_t half_bytes) {
    return (T *)((char *)w + sc_lines(sizeof *w) + (size_t)w->half * half_bytes);
}

/* What `next` says of the next segment waits, from where it was put, once the last one is gone */
static void FN(wait_in_planes)(FN(planes) *w, FN(planes) next, size_t half_bytes) {
    next.from = FN(free_planes)(w, half_bytes);
    next.half = !w->half;
    FN(put_some)(w, PTRDIFF_MAX);
    *w = next;
}

static size_t FN(planes_bytes)(size_t half_bytes) {
    return sc_lines(sizeof(FN(planes))) + PLANES_HALVES * half_bytes;
}

/* before the first task: nothing waits in any thread's planes */
static void FN(empty_planes)(char *first, size_t thread_bytes, int threads) {
    for (int i = 0; i < threads; i++)
        memset(first + (size_t)i * thread_bytes, 0, sizeof(FN(planes)));
}
