/* Driver "direct": the form in which windows are read where they lie, chosen by the geometry alone
 * (never by the number of images or threads, so an image has the same bits in any company):
 *
 *   vertical   groups of so few filters that vectors of them would be mostly empty
 *   rows       NHWC: rows are pixels; CHWN, CHWN8: rows are filters
 *   in NCHW    filter_rows where a row of pixels fills its vectors in place: no transpose;
 *              unpadded, stride 1 (1x1 runs over the plane as one row), or would, but for padding
 *              and stride, from rows that are copied. Else pixel_rows, and the tile is transposed
 *              as it leaves the registers: in place, or padded from staged rows */
#ifndef SC_DIRECT_FORMS
#define SC_DIRECT_FORMS
enum { BY_PIXEL_ROWS, BY_STAGED_ROWS, BY_FILTER_ROWS, BY_CHANNELS, BY_PIXELS, BY_PHASED_ROWS };
#endif

static int FN(direct_variant)(const sc_problem *p) {
    ptrdiff_t reach_h = (p->h_f - 1) * p->dilation_h + 1;
    ptrdiff_t reach_w = (p->w_f - 1) * p->dilation_w + 1;
    int few = p->c_out <= 4 && p->c_in <= 512, padded = p->h_p > p->h_in || p->w_p > p->w_in;
    int sparse = 2 * p->c_out <= VL && p->groups > 1; /* vectors of filters, half full at most */
    /* a tile of few sums asks for its vectors so often that they have to be in L1 */
    int near = VREGS > 16 || FN(is_window_near)(p);
    ptrdiff_t row = p->h_f == 1 && p->w_f == 1 && p->stride_h == 1 ? p->h_out * p->w_out : p->w_out;
    if (p->stride_h > 4 * reach_h || p->stride_w > 4 * reach_w || reach_h > 16 * p->h_f ||
        reach_w > 16 * p->w_f)
        few = sparse = 0; /* what a stage holds would be mostly gaps */
    if (few && p->layout == SC_NHWC && p->groups * p->c_in * p->c_out == 1) return BY_PIXELS;
    if (p->layout == SC_NHWC) return sparse ? BY_CHANNELS : BY_PIXEL_ROWS;
    if (few) return BY_PIXELS;
    if (p->layout != SC_NCHW) return BY_FILTER_ROWS;
    if (sparse) return BY_PIXELS;
    if (near && !padded && p->stride_w == 1 && FN(spares_transpose)(p, row)) return BY_FILTER_ROWS;
    if (near && FN(is_phased)(p)) return BY_PHASED_ROWS;
    return FN(is_staged)(p) ? BY_STAGED_ROWS : BY_PIXEL_ROWS;
}

static ptrdiff_t FN(direct_filter_size)(const sc_kernel *kernel, const sc_problem *p) {
    switch (FN(direct_variant)(p)) {
    case BY_FILTER_ROWS:
    case BY_PHASED_ROWS: return FN(filter_rows_filter_size)(kernel, p);
    case BY_CHANNELS: return FN(vertical_channels_filter_size)(kernel, p);
    case BY_PIXELS: return 0;
    default: return FN(pixel_rows_filter_size)(kernel, p);
    }
}

static int FN(direct_pack)(const sc_kernel *kernel, const sc_problem *p, const void *w,
                           void *packed, sc_team team) {
    switch (FN(direct_variant)(p)) {
    case BY_FILTER_ROWS:
    case BY_PHASED_ROWS: return FN(filter_rows_pack)(kernel, p, w, packed, team);
    case BY_CHANNELS: return FN(vertical_channels_pack)(kernel, p, w, packed, team);
    case BY_PIXELS: return 0;
    default: return FN(pixel_rows_pack)(kernel, p, w, packed, team);
    }
}

static size_t FN(direct_workspace)(const sc_kernel *kernel, const sc_problem *p, int threads,
                                   int packed) {
    switch (FN(direct_variant)(p)) {
    case BY_FILTER_ROWS:
    case BY_PHASED_ROWS: return FN(filter_rows_workspace)(kernel, p, threads, packed);
    case BY_CHANNELS: return FN(vertical_channels_workspace)(kernel, p, threads, packed);
    case BY_PIXELS: return FN(vertical_pixels_workspace)(kernel, p, threads, packed);
    default: return FN(pixel_rows_workspace)(kernel, p, threads, packed);
    }
}

static void FN(direct_run)(const sc_kernel *kernel, const sc_problem *p, const sc_operands *o) {
    switch (FN(direct_variant)(p)) {
    case BY_FILTER_ROWS:
    case BY_PHASED_ROWS: FN(filter_rows_run)(kernel, p, o); return;
    case BY_CHANNELS: FN(vertical_channels_run)(kernel, p, o); return;
    case BY_PIXELS: FN(vertical_pixels_run)(kernel, p, o); return;
    default: FN(pixel_rows_run)(kernel, p, o);
    }
}
