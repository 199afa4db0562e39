/* im2col and im2win as users get them: one task an image (or image block) and output row.
 * Channels are not grouped here: p->groups is 1 and p->c_in counts them all. */
static void FN(stored_matrix)(void *context, ptrdiff_t task, int thread) {
    const transform *t = context;
    const sc_problem *p = t->p;
    ptrdiff_t image = task / p->h_out, m = task % p->h_out, k = p->c_in * p->h_f * p->w_f;
    ptrdiff_t row = p->w_out * p->inner, plane = p->h_out * row;
    const T *x = (const T *)t->x + image * p->x_image;
    T *to = (T *)t->out + image * k * plane;
    (void)thread;
    if (p->layout == SC_NHWC) {
        for (ptrdiff_t j = 0; j < p->w_out; j++)
            FN(window_row)(p, x, m, j, p->c_in, to + (m * p->w_out + j) * k);
        return;
    }
    to += m * row;
    for (ptrdiff_t c = 0; c < p->c_in; c++)
        for (ptrdiff_t u = 0; u < p->h_f; u++)
            for (ptrdiff_t v = 0; v < p->w_f; v++, to += plane)
                FN(matrix_row)(p, x + c * p->x_c, m, u, v, to);
}

static void FN(stored_strip)(void *context, ptrdiff_t task, int thread) {
    const transform *t = context;
    const sc_problem *p = t->p;
    ptrdiff_t image = task / p->h_out, m = task % p->h_out;
    ptrdiff_t inner = p->layout == SC_NHWC ? p->c_in : p->inner, strip = p->w_p * p->h_f * inner;
    ptrdiff_t planes = p->layout == SC_NHWC ? 1 : p->c_in;
    T *to = (T *)t->out + (image * planes * p->h_out + m) * strip;
    (void)thread;
    FN(strip)(p, (const T *)t->x + image * p->x_image, m, 0, p->w_p, p->h_out * p->w_p, to);
}
