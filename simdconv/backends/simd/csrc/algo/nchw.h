/* Driver "nchw": direct convolution in NCHW has two forms, chosen by the geometry alone (never by
 * the number of images or threads, so an image has the same bits in any company):
 *
 *   filter_rows  vectors along the pixels of a row, in place: no transpose; unpadded, stride 1,
 *                rows that fill their vectors (1x1 runs over the plane as one row); and, padded
 *                or not, groups of so few filters that vectors of them would be mostly empty
 *   pixel_rows   else: rows are pixels, and the tile is transposed as it leaves the registers */
static int FN(fills_vectors)(const sc_problem *p) {
    enum { FEW = 4 };
    int padded = p->h_p > p->h_in || p->w_p > p->w_in;
    ptrdiff_t row = p->h_f == 1 && p->w_f == 1 && p->stride_h == 1 ? p->h_out * p->w_out : p->w_out;
    if (p->stride_w == 1 && p->c_out <= FEW) return 1;
    return !padded && p->stride_w == 1 && row * 20 >= sc_ceil_div(row, VL) * VL * 19;
}

static ptrdiff_t FN(nchw_filter_size)(const sc_kernel *kernel, const sc_problem *p) {
    return FN(fills_vectors)(p) ? FN(filter_rows_filter_size)(kernel, p)
                                : FN(pixel_rows_filter_size)(kernel, p);
}

static int FN(nchw_variant)(const sc_problem *p) {
    return FN(fills_vectors)(p) ? FN(filter_rows_variant)(p) : FN(pixel_rows_variant)(p);
}

static int FN(nchw_pack)(const sc_kernel *kernel, const sc_problem *p, const void *w, void *packed,
                         sc_team team) {
    return (FN(fills_vectors)(p) ? FN(filter_rows_pack) : FN(pixel_rows_pack))(kernel, p, w, packed,
                                                                               team);
}

static size_t FN(nchw_workspace)(const sc_kernel *kernel, const sc_problem *p, int threads,
                                 int packed) {
    return (FN(fills_vectors)(p) ? FN(filter_rows_workspace)
                                 : FN(pixel_rows_workspace))(kernel, p, threads, packed);
}

static void FN(nchw_run)(const sc_kernel *kernel, const sc_problem *p, const sc_operands *o) {
    (FN(fills_vectors)(p) ? FN(filter_rows_run) : FN(pixel_rows_run))(kernel, p, o);
}
