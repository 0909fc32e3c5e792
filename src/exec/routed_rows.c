#include "exec/routed_rows.h"

#include "base/memory.h"

void routed_rows_fini(routed_rows *r)
{
    memory_free(r->rows);
    memory_free(r->shares);
    *r = (routed_rows){0};
}

grail_status routed_rows_find(matrix shares, int64_t output, routed_rows *out)
{
    grail_status status = GRAIL_OK;
    host_view view = {0};
    TRY(memory_new(&out->rows, (size_t)shares.rows, sizeof out->rows[0]));
    TRY(memory_new(&out->shares, (size_t)shares.rows, sizeof out->shares[0]));
    if (output >= shares.columns) {
        return GRAIL_OK;
    }
    TRY(host_view_open(matrix_columns(shares, output, 1), GRAIL_DTYPE_F64, HOST_READS, &view));
    const double *share = view.values;
    for (int64_t r = 0; r < shares.rows; r++) {
        if (share[r] > 0.0) {
            out->rows[out->count] = r;
            out->shares[out->count++] = share[r];
        }
    }
    TRY(host_view_close(&view));
out:
    host_view_drop(&view);
    return status;
}
