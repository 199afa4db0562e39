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

/* Cuts columns [first, first + columns) of the flattened (image, m, j, lane) into pieces */
static int cut_pieces(const sc_problem *p, ptrdiff_t image, ptrdiff_t first, ptrdiff_t columns,
                      sc_piece *pieces) {
    ptrdiff_t row = p->w_out * p->inner, done = 0;
    int count = 0;
    while (done < columns) {
        sc_piece *piece = &pieces[count++];
        ptrdiff_t q = first + done, in_row = q % row, line = q / row;
        piece->start = done;
        piece->columns = sc_min(columns - done, row - in_row);
        piece->image = image + line / p->h_out;
        piece->m = line % p->h_out;
        piece->j = in_row / p->inner;
        piece->lane = in_row % p->inner;
        done += piece->columns;
    }
    return count;
}
#endif

/* one piece of panel row (c, u, v): source row `from` (NULL: zeros), kernel column v */
static void FN(panel_piece)(const sc_problem *p, const sc_piece *piece, const T *from, ptrdiff_t v,
                            T *to) {
    ptrdiff_t first = piece->j * p->stride_w + v * p->dilation_w, n = piece->columns;
    ptrdiff_t pixels = sc_ceil_div(piece->lane + n, p->inner), step = p->stride_w * p->x_w;
    ptrdiff_t start = first - p->left, end = start + (pixels - 1) * p->stride_w;
    if (!from) {
        memset(to, 0, (size_t)n * sizeof(T));
    } else if (start >= 0 && end < p->w_in && step == p->inner) {
        from += start * p->x_w + piece->lane;
        for (ptrdiff_t i = 0; i < n; i++) to[i] = from[i];
    } else if (start >= 0 && end < p->w_in && p->inner == 1) {
        from += start * p->x_w;
        for (ptrdiff_t i = 0; i < n; i++) to[i] = from[i * step];
    } else {
        ptrdiff_t lane = piece->lane;
        for (ptrdiff_t j = 0; n > 0; j++, lane = 0) {
            ptrdiff_t lanes = sc_min(p->inner - lane, n);
            ptrdiff_t column = FN(source_column)(p, first + j * p->stride_w);
            FN(copy_or_zero)(to, column < 0 ? NULL : from + column * p->x_w + lane, lanes);
            to += lanes;
            n -= lanes;
        }
    }
}

/* NHWC: channels are contiguous in the source and apart in the panel */
static void FN(panel_channels)(const sc_problem *p, const sc_piece *piece, const T *x,
                               ptrdiff_t width, T *panel) {
    ptrdiff_t window = p->h_f * p->w_f;
    for (ptrdiff_t i = 0; i < piece->columns; i++)
        for (ptrdiff_t u = 0; u < p->h_f; u++) {
            ptrdiff_t row = sc_source_row(p, piece->m, u);
            for (ptrdiff_t v = 0; v < p->w_f; v++) {
                const T *from = FN(source)(p, x + piece->image * p->x_image, row,
                                           (piece->j + i) * p->stride_w + v * p->dilation_w);
                T *to = panel + (u * p->w_f + v) * width + piece->start + i;
                for (ptrdiff_t c = 0; c < p->c_in; c++) to[c * window * width] = from ? from[c] : 0;
            }
        }
}

/* x: first channel of the group in image 0; pieces as cut above */
static void FN(pack_panel)(const sc_problem *p, const T *x, const sc_piece *pieces, int count,
                           ptrdiff_t width, T *panel) {
    ptrdiff_t columns = pieces[count - 1].start + pieces[count - 1].columns;
    for (int i = 0; i < count && p->layout == SC_NHWC; i++)
        FN(panel_channels)(p, &pieces[i], x, width, panel);
    for (ptrdiff_t c = 0; c < p->c_in && p->layout != SC_NHWC; c++)
        for (ptrdiff_t u = 0; u < p->h_f; u++) {
            T *rows = panel + (c * p->h_f + u) * p->w_f * width;
            for (int i = 0; i < count; i++) {
                const sc_piece *piece = &pieces[i];
                ptrdiff_t row = sc_source_row(p, piece->m, u);
                const T *from =
                    row < 0 ? NULL : x + piece->image * p->x_image + c * p->x_c + row * p->x_h;
                for (ptrdiff_t v = 0; v < p->w_f; v++)
                    FN(panel_piece)(p, piece, from, v, rows + v * width + piece->start);
            }
        }
    if (columns < width)
        for (ptrdiff_t k = 0; k < p->c_in * p->h_f * p->w_f; k++)
            memset(panel + k * width + columns, 0, (size_t)(width - columns) * sizeof(T));
}
