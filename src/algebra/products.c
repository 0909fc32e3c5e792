#include "algebra/products.h"

grail_status import_row(backend *b, int64_t n, const double *values, matrix *out)
{
    return matrix_import(b, GRAIL_DTYPE_F64, 1, n, n, values, out);
}

grail_status subtract_outer(bool lower, double factor, const double *x, const double *y, matrix a)
{
    grail_status status = GRAIL_OK;
    matrix left = no_matrix;
    matrix right = no_matrix;
    TRY(import_row(a.owner, a.rows, x, &left));
    TRY(import_row(a.owner, a.columns, y, &right));
    TRY(matrix_add_outer(lower, -factor, left, right, a));
out:
    matrix_free(&left);
    matrix_free(&right);
    return status;
}

grail_status row_products(matrix a, matrix b, double *out)
{
    grail_status status = GRAIL_OK;
    matrix products = no_matrix;
    TRY(matrix_new(a.owner, GRAIL_DTYPE_F64, 1, a.rows, &products));
    TRY(matrix_row_dots(a, b, products));
    TRY(matrix_download(products, out));
out:
    matrix_free(&products);
    return status;
}

grail_status vector_products(matrix a, const double *x, double *out)
{
    grail_status status = GRAIL_OK;
    matrix row = no_matrix;
    TRY(import_row(a.owner, a.columns, x, &row));
    TRY(row_products(a, matrix_repeat_row(row, a.rows), out));
out:
    matrix_free(&row);
    return status;
}

grail_status add_row_products(matrix a, matrix b, matrix scratch, matrix sums)
{
    const grail_status status = matrix_row_dots(a, b, scratch);
    return status == GRAIL_OK ? matrix_add_scaled(1.0, scratch, sums) : status;
}

double mean_of(int64_t n, const double *values)
{
    double mean = 0.0;
    for (int64_t i = 0; i < n; i++) {
        mean += values[i] / (double)n;
    }
    return mean;
}

grail_status keep_elements(const int64_t *rows, int64_t row_count, const int64_t *columns,
                           int64_t column_count, matrix *m)
{
    if (row_count == m->rows && column_count == m->columns) {
        return GRAIL_OK;
    }
    CHECK(matrix_gather(rows, columns, *m, matrix_reshape(*m, row_count, column_count)));
    return matrix_shrink(m, row_count, column_count);
}

/* image = D (the columns `at` of A as far as they lie in its lower triangle, those below the
 * diagonal block twice): since A is symmetric, image D[:, at]^T sums up to the same form. */
static grail_status lower_images(matrix a, matrix d, int64_t begin, matrix image)
{
    const int64_t end = begin + image.columns;
    const matrix columns = matrix_columns(a, begin, image.columns);
    CHECK(matrix_gemm(false, false, 1.0, matrix_columns(d, begin, image.columns),
                      matrix_rows(columns, begin, image.columns), 0.0, image));
    if (end < a.rows) {
        CHECK(matrix_gemm(false, false, 2.0, matrix_columns(d, end, a.rows - end),
                          matrix_rows(columns, end, a.rows - end), 1.0, image));
    }
    return GRAIL_OK;
}

int64_t feature_panel(const backend *b, int64_t features)
{
    const int64_t most = backend_panel(b, FEATURE_PANEL);
    return features < most ? features : most;
}

grail_status quadratic_forms_make(matrix a, matrix d, matrix sums)
{
    grail_status status = GRAIL_OK;
    matrix images = no_matrix; /* [m, panel] */
    matrix scratch = no_matrix;
    const int64_t n = a.rows;
    const int64_t panel = feature_panel(a.owner, n);
    TRY(matrix_new(a.owner, GRAIL_DTYPE_F64, d.rows, panel, &images));
    TRY(matrix_new(a.owner, GRAIL_DTYPE_F64, 1, d.rows, &scratch));
    TRY(matrix_zero(sums));
    for (int64_t begin = 0; begin < n; begin += panel) {
        const int64_t count = begin + panel < n ? panel : n - begin;
        const matrix image = matrix_columns(images, 0, count);
        TRY(lower_images(a, d, begin, image));
        TRY(add_row_products(image, matrix_columns(d, begin, count), scratch, sums));
    }
out:
    matrix_free(&images);
    matrix_free(&scratch);
    return status;
}

grail_status quadratic_forms(matrix a, matrix d, double *forms)
{
    grail_status status = GRAIL_OK;
    matrix sums = no_matrix;
    TRY(matrix_new(a.owner, GRAIL_DTYPE_F64, 1, d.rows, &sums));
    TRY(quadratic_forms_make(a, d, sums));
    TRY(matrix_download(sums, forms));
out:
    matrix_free(&sums);
    return status;
}
