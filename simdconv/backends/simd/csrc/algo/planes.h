/* NCHW: a segment of the result waits in the thread's own planes, [filter][pixel], in cache; whole
 * rows go to the result from there, past the caches where no cache will hold it. Rows of NCHW
 * start at any address, so a tile alone would write pieces of lines. */
/* Output rows that wait together: so many that a task writes long pieces of each plane, few enough
 * for L2 and for the threads to have several tasks each. Rows follow one another in a plane only
 * where a segment is all of one. */
static ptrdiff_t FN(rows_of_planes)(ptrdiff_t rows, ptrdiff_t segments, ptrdiff_t tasks,
                                    int threads, ptrdiff_t filters, ptrdiff_t pixels) {
    enum { TASKS_A_THREAD = 8, MOST = 16 };
    ptrdiff_t fit = (ptrdiff_t)(sc_cache_bytes(2) / 4 / ((size_t)(filters * pixels) * sizeof(T)));
    ptrdiff_t busy = threads > 1 ? rows * tasks / (threads * TASKS_A_THREAD) : rows;
    return segments > 1 ? 1 : sc_max(1, sc_min(sc_min(rows, MOST), sc_min(fit, busy)));
}

static void FN(ask_for_planes)(T *y, ptrdiff_t y_filter, ptrdiff_t filters, ptrdiff_t pixels) {
    enum { LINE = 64 / sizeof(T) };
    for (ptrdiff_t c = 0; c < filters; c++, y += y_filter)
        for (ptrdiff_t j = 0; j < pixels; j += LINE) __builtin_prefetch(y + j, 1);
}

static void FN(put_planes)(const T *planes, ptrdiff_t pitch, T *y, ptrdiff_t y_filter,
                           ptrdiff_t filters, ptrdiff_t pixels, int stream) {
    for (ptrdiff_t c = 0; c < filters; c++, y += y_filter, planes += pitch) {
        ptrdiff_t j = 0;
        if (stream && pixels >= 2 * VL) {
            j = (ptrdiff_t)((-(size_t)y & (sizeof(vec) - 1)) /
                            sizeof(T)); /* to the first whole line */
            v_store_mask(y, v_load(planes), v_mask(j));
            for (; j + VL <= pixels; j += VL) v_stream(y + j, v_load(planes + j));
        }
        for (; j + VL <= pixels; j += VL) v_store(y + j, v_load(planes + j));
        if (j < pixels) {
            mask valid = v_mask(pixels - j);
            v_store_mask(y + j, v_load_mask(planes + j, valid), valid);
        }
    }
}
