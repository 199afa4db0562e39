/* Rows of a picture with their padding, for vectors along their pixels: padded column first + q
 * goes to phase q % stride_w, place q / stride_w, so that what a tap of consecutive outputs wants
 * is consecutive. Phases are `phase` elements apart, and end in zeros. */
typedef struct {
    ptrdiff_t before, inside, count; /* of places: in the left padding, up to the right one, all */
    ptrdiff_t first, column;         /* padded column of place 0; source column of place `before` */
} FN(phase_span);

static FN(phase_span) FN(phase_span_of)(const sc_problem *p, ptrdiff_t first, ptrdiff_t columns) {
    const ptrdiff_t stride = p->stride_w, room = p->left + p->w_in - first;
    FN(phase_span) s;
    s.count = sc_ceil_div(columns, stride);
    s.before = sc_min(p->left > first ? sc_ceil_div(p->left - first, stride) : 0, s.count);
    s.inside = sc_max(s.before, room > 0 ? sc_min(sc_ceil_div(room, stride), s.count) : 0);
    s.first = first;
    s.column = first + s.before * stride - p->left;
    return s;
}

/* `count` elements, pixels `step` apart with `inner` images each. Up to a vector past the end may
 * be overwritten with zeros. */
SC_INLINE void FN(line_of_pixels)(const T *restrict from, ptrdiff_t step, ptrdiff_t inner,
                                  ptrdiff_t count, T *restrict to) {
    ptrdiff_t i = 0;
    if (step == inner) {
        for (; i + VL <= count; i += VL) v_store(to + i, v_load(from + i));
        if (i < count) v_store(to + i, v_load_mask(from + i, v_mask(count - i)));
    } else if (inner > 1) {
        for (; i < count; i += inner, from += step) FN(copy)(to + i, from, inner);
    } else if (step == 2) {
        for (; i + VL < count; i += VL)
            v_store(to + i, v_even(v_load(from + 2 * i), v_load(from + 2 * i + VL)));
        if (i < count) { /* the last place is the last element */
            const ptrdiff_t left = 2 * (count - i) - 1;
            const vec low = v_load_mask(from + 2 * i, v_mask(left));
            v_store(to + i, left <= VL
                                ? v_even(low, v_zero())
                                : v_even(low, v_load_mask(from + 2 * i + VL, v_mask(left - VL))));
        }
    } else {
        for (; i < count; i++) to[i] = from[i * step];
    }
}

SC_INLINE void FN(zeros)(T *to, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i += VL) v_store(to + i, v_zero());
}

/* One phase of one row that has a source, whose padding holds zeros already. `x` is the channel's
 * first element. Up to a vector past the phase's end may be overwritten with zeros. */
SC_INLINE void FN(phase_row)(const sc_problem *p, const FN(phase_span) *s, const T *x,
                             ptrdiff_t row, T *to) {
    const ptrdiff_t stride = p->stride_w, inner = p->inner;
    FN(line_of_pixels)(x + row * p->x_h + s->column * p->x_w, stride * p->x_w, inner,
                       (s->inside - s->before) * inner, to + s->before * inner);
    if (p->padding == SC_CONSTANT) return;
    for (ptrdiff_t i = 0; i < s->count; i++) {
        if (i == s->before) i = s->inside;
        if (i < s->count)
            FN(copy)(to + i * inner, FN(source)(p, x, row, s->first + i * stride), inner);
    }
}

/* All phases of one row of all channels, `pitch` elements from one channel to the next, with a
 * vector of room after each; row < 0: zeros */
static void FN(phase_channels)(const sc_problem *p, const T *x, ptrdiff_t row, ptrdiff_t first,
                               ptrdiff_t columns, ptrdiff_t phases, ptrdiff_t phase,
                               ptrdiff_t pitch, T *to) {
    enum { MOST = 4, SOON = 8, LINE = 64 / sizeof(T) };
    FN(phase_span) at[MOST];
    for (ptrdiff_t i = 0; i < phases; i++) at[i] = FN(phase_span_of)(p, first + i, columns - i);
    const ptrdiff_t inside = row < 0 ? 0 : (at[0].inside - at[0].before) * p->stride_w;
    for (ptrdiff_t c = 0; c < p->c_in; c++, to += pitch) {
        const T *soon = x + (c + SOON) * p->x_c + row * p->x_h + at[0].column * p->x_w;
        for (ptrdiff_t k = 0; k < inside && c + SOON < p->c_in; k += LINE)
            __builtin_prefetch(soon + k * p->x_w);
        for (ptrdiff_t i = 0; i < phases; i++) {
            T *put = to + i * phase;
            FN(zeros)(put, row < 0 ? phase : at[i].before * p->inner);
            if (row < 0) continue;
            FN(phase_row)(p, at + i, x + c * p->x_c, row, put);
            if (p->padding == SC_CONSTANT)
                FN(zeros)(put + at[i].inside * p->inner, phase - at[i].inside * p->inner);
        }
    }
}
