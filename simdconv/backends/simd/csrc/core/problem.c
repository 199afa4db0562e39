/* Geometry that every recipe shares: result strides, interiors, merged rows, tables of runs. */
#include "internal.h"

sc_strides sc_result_strides(const sc_problem *p) {
    ptrdiff_t channels = p->groups * p->c_out, rows = p->h_out, columns = p->w_out;
    sc_strides s;
    if (p->layout == SC_NHWC) {
        s.c = 1;
        s.w = channels;
        s.h = columns * channels;
        s.image = rows * s.h;
    } else {
        s.w = p->inner;
        s.h = columns * s.w;
        s.c = rows * s.h;
        s.image = channels * s.c;
    }
    return s;
}

sc_span sc_interior_columns(const sc_problem *p) {
    sc_span span;
    ptrdiff_t reach = (p->w_f - 1) * p->dilation_w;
    ptrdiff_t room = p->left + p->w_in - reach; /* starts j*stride_w < room end inside */
    span.first = sc_min(sc_ceil_div(p->left, p->stride_w), p->w_out);
    span.last = room > 0 ? sc_min(sc_ceil_div(room, p->stride_w), p->w_out) : 0;
    span.last = sc_max(span.last, span.first);
    return span;
}

int sc_row_is_interior(const sc_problem *p, ptrdiff_t m) {
    ptrdiff_t first = m * p->stride_h - p->top;
    return first >= 0 && first + (p->h_f - 1) * p->dilation_h < p->h_in;
}

ptrdiff_t sc_source_row(const sc_problem *p, ptrdiff_t m, ptrdiff_t u) {
    ptrdiff_t padded = m * p->stride_h + u * p->dilation_h, row = padded - p->top;
    return row >= 0 && row < p->h_in ? row : sc_beyond(p->padding, row, p->h_in);
}

ptrdiff_t sc_beyond(sc_padding padding, ptrdiff_t i, ptrdiff_t size) {
    ptrdiff_t period;
    if (size <= 0) return -1;
    switch (padding) {
    case SC_EDGE: return i < 0 ? 0 : size - 1;
    case SC_WRAP: period = size; break;
    case SC_SYMMETRIC: period = 2 * size; break;
    case SC_REFLECT: period = sc_max(1, 2 * size - 2); break;
    default: return -1;
    }
    i %= period;
    if (i < 0) i += period;
    if (i < size) return i;
    return padding == SC_SYMMETRIC ? period - 1 - i : period - i;
}

int sc_is_pointwise(const sc_problem *p) {
    return p->h_f == 1 && p->w_f == 1 && p->stride_h == 1 && p->stride_w == 1 &&
           p->h_p == p->h_in && p->w_p == p->w_in;
}

sc_problem sc_merged(const sc_problem *p) {
    sc_problem q = *p;
    if (!sc_is_pointwise(p) || p->x_h != p->w_in * p->x_w) return q;
    /* where pixels are neighbours in a row, they have to be in the long row: not so in a column of
     * which every other pixel is taken (w_in = 1) */
    if (p->layout != SC_NHWC && p->x_w != p->inner) return q;
    q.w_in = q.w_p = q.w_out = p->h_in * p->w_in;
    q.h_in = q.h_p = q.h_out = 1;
    if (p->layout == SC_NHWC && (p->images == 1 || p->x_image == q.w_in * p->x_w)) {
        q.w_in = q.w_p = q.w_out = p->images * q.w_in;
        q.images = 1;
    }
    q.x_h = q.w_in * q.x_w;
    return q;
}

ptrdiff_t sc_table_room(const sc_problem *p) {
    return (p->layout == SC_NHWC ? 1 : p->c_in) * p->h_f * p->w_f;
}

/* Channels last: k = (u, v, c), neighbours in memory are joined to one run. Else k = (c, u, v), a
 * run is a row of the window, or all channels where it is a single point. */
sc_table sc_window_table(const sc_problem *p, const sc_place *at, sc_run *room) {
    sc_table table = {room, 0, 1, 1, 1};
    ptrdiff_t channels = p->c_in, outer = 1, splits = 1;
    if (at->channels_last) {
        table.len = channels * p->w_f;
        if (p->dilation_w > 1 || at->x_w != channels) {
            table.len = channels;
            splits = p->w_f;
        }
    } else if (p->h_f * p->w_f == 1) {
        table.len = channels;
        table.step = at->x_c;
    } else {
        outer = channels;
        table.len = p->w_f;
        table.step = p->dilation_w * at->x_w;
    }
    for (ptrdiff_t c = 0; c < outer; c++)
        for (ptrdiff_t u = 0; u < p->h_f; u++) {
            ptrdiff_t row = u * p->dilation_h;
            if (at->row_map) row = sc_source_row(p, at->m, u);
            if (row < 0) {
                table.even = 0;
                continue;
            }
            if (at->ring) row = (at->m * p->stride_h + u * p->dilation_h) % at->ring;
            for (ptrdiff_t v = 0; v < splits; v++) {
                room[table.count].x = c * at->x_c + row * at->x_h + v * p->dilation_w * at->x_w;
                room[table.count].len = table.len;
                room[table.count++].k = ((c * p->h_f + u) * splits + v) * table.len;
            }
        }
    return table;
}

/* Channels last: k = (v, u, c). Else k = (c, v, u). A strip holds h_f rows of every padded column.
 */
sc_table sc_strip_table(const sc_problem *p, int channels_last, ptrdiff_t strip_columns,
                        sc_run *room) {
    sc_table table = {room, 0, p->h_f, channels_last ? 1 : p->inner, 1};
    ptrdiff_t outer = p->c_in, splits = p->w_f, column;
    if (channels_last) {
        outer = 1;
        table.len *= p->c_in;
    }
    column = p->h_f * (channels_last ? p->c_in : p->inner);
    if (p->dilation_w == 1) {
        table.len *= splits;
        splits = 1;
    }
    for (ptrdiff_t c = 0; c < outer; c++)
        for (ptrdiff_t v = 0; v < splits; v++) {
            room[table.count].x = (c * strip_columns + v * p->dilation_w) * column;
            room[table.count].len = table.len;
            room[table.count++].k = (c * splits + v) * table.len;
        }
    return table;
}
