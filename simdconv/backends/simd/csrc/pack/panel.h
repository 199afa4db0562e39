/* A panel: im2col's columns for one tile, packed for the rows kernel and never stored elsewhere.
 *
 *   panel[(c, u, v)][column]      width = whole vectors; columns past the last are zero
 *
 * A column is one image of one output pixel. Columns of one output row make a piece; a tile may
 * hold several pieces, because it runs across row ends (and image ends), so there are no width
 * tails. */
#ifndef SC_PIECE
#define SC_PIECE
typedef struct {
    ptrdiff_t start, columns; /* in the panel */
    ptrdiff_t image, m, j;    /* first output pixel */
    ptrdiff_t lane;           /* first image of the first pixel (inner > 1) */
} sc_piece;

/* Cuts columns [first, first + columns) of the flattened (image, m, j, lane) into pieces; of each
 * image only the first `each` columns count */
static int cut_pieces(const sc_problem *p, ptrdiff_t image, ptrdiff_t each, ptrdiff_t first,
                      ptrdiff_t columns, sc_piece *pieces) {
    ptrdiff_t row = p->w_out * p->inner, done = 0;
    int count = 0;
    while (done < columns) {
        sc_piece *piece = &pieces[count++];
        ptrdiff_t q = (first + done) % each, in_row = q % row;
        piece->start = done;
        piece->columns = sc_min(columns - done, sc_min(row - in_row, each - q));
        piece->image = image + (first + done) / each;
        piece->m = q / row;
        piece->j = in_row / p->inner;
        piece->lane = in_row % p->inner;
        done += piece->columns;
    }
    return count;
}
#endif

/* Where kernel column v of a piece's columns comes from: the first `before` and those from `inside`
 * on lie in the side padding. */
typedef struct {
    ptrdiff_t before, inside, from; /* columns of the panel; element of the first inside */
} FN(piece_span);

static FN(piece_span) FN(piece_span_of)(const sc_problem *p, const sc_piece *piece, ptrdiff_t v) {
    const ptrdiff_t pixels = sc_ceil_div(piece->lane + piece->columns, p->inner);
    const FN(phase_span) at = FN(phase_span_of)(p, piece->j * p->stride_w + v * p->dilation_w,
                                                (pixels - 1) * p->stride_w + 1);
    FN(piece_span) s;
    s.before = sc_min(sc_max(at.before * p->inner - piece->lane, 0), piece->columns);
    s.inside = sc_min(sc_max(at.inside * p->inner - piece->lane, s.before), piece->columns);
    s.from = at.column * p->x_w + (at.before ? 0 : piece->lane);
    return s;
}

/* Columns [from, end) of a piece one pixel at a time: images of a pixel that lie apart from the
 * next pixel's, and what padding other than zeros is beyond the image. `x`: the row's first
 * element */
static void FN(panel_pixels)(const sc_problem *p, const sc_piece *piece, const T *x, ptrdiff_t v,
                             ptrdiff_t from, ptrdiff_t end, ptrdiff_t channels, ptrdiff_t down,
                             T *to) {
    for (ptrdiff_t n = from, lanes; n < end; n += lanes) {
        const ptrdiff_t pixel = (piece->lane + n) / p->inner, lane = (piece->lane + n) % p->inner;
        const ptrdiff_t first = (piece->j + pixel) * p->stride_w + v * p->dilation_w;
        const ptrdiff_t column = FN(source_column)(p, first);
        lanes = sc_min(p->inner - lane, end - n);
        for (ptrdiff_t c = 0; c < channels && column >= 0; c++)
            FN(copy)(to + c * down + n, x + c * p->x_c + column * p->x_w + lane, lanes);
    }
}

/* The first of `columns` columns, at most a vector: whole stores where they can be, masked ones
 * take several times as long with AVX2 */
SC_INLINE void FN(put_columns)(T *to, vec v, ptrdiff_t columns, mask valid) {
    if (columns >= VL) v_store(to, v);
    else v_store_mask(to, v, valid);
}

/* `columns` neighbours, at most a tile's, of each channel */
static void FN(panel_neighbours)(const T *from, ptrdiff_t apart, ptrdiff_t columns,
                                 ptrdiff_t channels, ptrdiff_t down, T *to) {
    for (; columns > 0; columns -= VL, from += VL, to += VL) {
        const mask valid = v_mask(columns);
        for (ptrdiff_t c = 0; c < channels; c++)
            FN(put_columns)(to + c * down, v_load_mask(from + c * apart, valid), columns, valid);
    }
}

/* every second of them */
static void FN(panel_seconds)(const T *from, ptrdiff_t apart, ptrdiff_t columns, ptrdiff_t channels,
                              ptrdiff_t down, T *to) {
    for (; columns > 0; columns -= VL, from += 2 * VL, to += VL) {
        const ptrdiff_t last = 2 * columns - 1; /* nothing is read past the last one */
        const mask valid = v_mask(columns), low = v_mask(last);
        const mask high = v_mask(sc_max(0, last - VL));
        for (ptrdiff_t c = 0; c < channels; c++) {
            const T *at = from + c * apart;
            const vec second = last > VL ? v_load_mask(at + VL, high) : v_zero();
            FN(put_columns)(to + c * down, v_even(v_load_mask(at, low), second), columns, valid);
        }
    }
}

/* those `step` apart */
static void FN(panel_strided)(const T *from, ptrdiff_t step, ptrdiff_t apart, ptrdiff_t columns,
                              ptrdiff_t channels, ptrdiff_t down, T *to) {
    for (ptrdiff_t c = 0; c < channels; c++, from += apart, to += down)
        for (ptrdiff_t n = 0; n < columns; n++) to[n] = from[n * step];
}

/* What of one piece of the rows of one (u, v) lies in the image, some channels; `x`: the first
 * one's source row */
static void FN(panel_piece)(const sc_problem *p, const sc_piece *piece, const FN(piece_span) *s,
                            const T *x, ptrdiff_t v, ptrdiff_t channels, ptrdiff_t down, T *to) {
    const ptrdiff_t step = p->stride_w * p->x_w, columns = s->inside - s->before;
    if (step == p->inner)
        FN(panel_neighbours)(x + s->from, p->x_c, columns, channels, down, to + s->before);
    else if (p->inner == 1 && step == 2)
        FN(panel_seconds)(x + s->from, p->x_c, columns, channels, down, to + s->before);
    else if (p->inner == 1)
        FN(panel_strided)(x + s->from, step, p->x_c, columns, channels, down, to + s->before);
    else FN(panel_pixels)(p, piece, x, v, s->before, s->inside, channels, down, to);
}

/* Where a panel is the same steps of vectors for every row of K: elements from its first vector to
 * its second, each of columns side by side in the image. 0: it is not so, or padding is touched. */
static ptrdiff_t FN(vectors_apart)(const sc_problem *p, const sc_piece *piece,
                                   const FN(piece_span) *spans) {
    const ptrdiff_t pixel = p->stride_w * p->x_w, lane = piece->lane;
    const ptrdiff_t next = lane + VL, more = piece->columns - VL;
    int inside = p->layout != SC_NHWC && sc_row_is_interior(p, piece->m);
    for (ptrdiff_t v = 0; v < p->w_f; v++)
        inside &= spans[v].before == 0 && spans[v].inside == piece->columns;
    if (!inside) return 0;
    if (pixel == p->inner) return VL;
    if (lane + sc_min(VL, piece->columns) > p->inner || next % p->inner + more > p->inner) return 0;
    return next / p->inner * pixel + next % p->inner - lane;
}

/* Such a panel, in the order of K; what lies `ahead`, of the next panel, is asked for */
SC_INLINE void FN(panel_steps)(const sc_problem *p, const sc_piece *piece, const T *x,
                               ptrdiff_t apart, ptrdiff_t ahead, const int vectors, const int whole,
                               T *to) {
    const ptrdiff_t step = p->dilation_w * p->x_w;
    const mask low = v_mask(piece->columns), high = v_mask(sc_max(0, piece->columns - VL));
    x += (piece->m * p->stride_h - p->top) * p->x_h;
    for (ptrdiff_t c = 0; c < p->c_in; c++, x += p->x_c)
        for (ptrdiff_t u = 0; u < p->h_f; u++) {
            const T *from = x + u * p->dilation_h * p->x_h;
            for (ptrdiff_t v = 0; v < p->w_f; v++, from += step, to += vectors * VL) {
                v_store(to, whole ? v_load(from) : v_load_mask(from, low));
                if (vectors == 2)
                    v_store(to + VL,
                            whole ? v_load(from + apart) : v_load_mask(from + apart, high));
                __builtin_prefetch(from + ahead, 0, 2);
            }
        }
}

/* x: first channel of the group in image 0; pieces as cut above; spans: room for TILE_COLUMNS*w_f;
 * ahead: elements of the image from this panel's first column to that of the next one, or 0.
 * Where channels are planes, some of them at a time: their rows stay in cache for all (u, v). */
static void FN(pack_panel)(const sc_problem *p, const T *x, const sc_piece *pieces, int count,
                           ptrdiff_t width, ptrdiff_t ahead, FN(piece_span) *spans, T *panel) {
    const ptrdiff_t columns = pieces[count - 1].start + pieces[count - 1].columns;
    const ptrdiff_t window = p->h_f * p->w_f, down = window * width;
    const int nhwc = p->layout == SC_NHWC, padded = p->h_p > p->h_in || p->w_p > p->w_in;
    const ptrdiff_t together = nhwc ? sc_max(1, p->c_in) : 16;
    ptrdiff_t apart;
    for (int i = 0; i < count; i++)
        for (ptrdiff_t v = 0; v < p->w_f; v++)
            spans[i * p->w_f + v] = FN(piece_span_of)(p, &pieces[i], v);
    if (count == 1 && (apart = FN(vectors_apart)(p, pieces, spans)) > 0) {
        const T *from = x + pieces->image * p->x_image + spans->from;
        if (columns == TILE_COLUMNS) FN(panel_steps)(p, pieces, from, apart, ahead, 2, 1, panel);
        else if (width == TILE_COLUMNS) FN(panel_steps)(p, pieces, from, apart, ahead, 2, 0, panel);
        else FN(panel_steps)(p, pieces, from, apart, ahead, 1, 0, panel);
        return;
    }
    if (padded || columns < width)
        for (ptrdiff_t i = 0; i < p->c_in * down; i += VL) v_store(panel + i, v_zero());
    for (ptrdiff_t c = 0; c < p->c_in; c += together, panel += together * down) {
        const ptrdiff_t channels = sc_min(together, p->c_in - c);
        for (int i = 0; i < count; i++)
            for (ptrdiff_t u = 0; u < p->h_f; u++) {
                const sc_piece *piece = &pieces[i];
                const ptrdiff_t row = sc_source_row(p, piece->m, u);
                const T *from = x + piece->image * p->x_image + c * p->x_c + row * p->x_h;
                for (ptrdiff_t v = 0; v < p->w_f && row >= 0; v++) {
                    const FN(piece_span) *s = spans + i * p->w_f + v;
                    T *to = panel + (u * p->w_f + v) * width + piece->start;
                    if (!nhwc) FN(panel_piece)(p, piece, s, from, v, channels, down, to);
                    else if (s->inside > s->before)
                        FN(transpose)(from + s->from, p->stride_w * p->x_w, s->inside - s->before,
                                      channels, to + s->before, down);
                    if (p->padding == SC_CONSTANT) continue;
                    FN(panel_pixels)(p, piece, from, v, 0, s->before, channels, down, to);
                    FN(panel_pixels)(p, piece, from, v, s->inside, piece->columns, channels, down,
                                     to);
                }
            }
    }
}
