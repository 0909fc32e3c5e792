#include "algebra/projection.h"

#include "algebra/products.h"
#include "base/memory.h"

void projection_fini(projection *p)
{
    memory_free(p->shares);
    memory_free(p->kept);
    *p = (projection){0};
}

static grail_status list_features(projection *p)
{
    const int64_t all = p->units * p->features;
    CHECK(memory_new_unset(&p->kept, (size_t)all, sizeof p->kept[0]));
    p->removed = p->kept + p->width;
    p->removed_count = all - p->width;
    for (int64_t i = 0, kept = 0; i < all; i++) {
        if (p->labels[i / p->features] >= 0) {
            p->kept[kept++] = i;
        } else {
            p->removed[i - kept] = i;
        }
    }
    return GRAIL_OK;
}

grail_status projection_init(int64_t units, int64_t features, int64_t kept, const int64_t *labels,
                             const int64_t *members, projection *out)
{
    *out = (projection){
        .units = units, .features = features, .width = kept * features, .labels = labels};
    if (members == NULL) {
        return list_features(out);
    }
    CHECK(memory_new_unset(&out->shares, (size_t)kept, sizeof out->shares[0]));
    for (int64_t k = 0; k < kept; k++) {
        out->shares[k] = 1.0 / (double)members[k];
    }
    return GRAIL_OK;
}

grail_status project(const projection *p, matrix in, matrix out)
{
    if (p->shares == NULL) {
        return matrix_gather(NULL, p->kept, in, out);
    }
    CHECK(matrix_zero(out));
    return matrix_fold_columns(p->units, p->labels, p->shares, in, out);
}

/* ROWS[., K u] <- ROWS[., n u] M */
static grail_status project_rows(const projection *p, matrix *rows)
{
    grail_status status = GRAIL_OK;
    matrix means = no_matrix;
    if (p->shares == NULL) {
        return keep_elements(NULL, rows->rows, p->kept, p->width, rows);
    }
    TRY(matrix_new(rows->owner, GRAIL_DTYPE_F64, rows->rows, p->width, &means));
    TRY(project(p, *rows, means));
    matrix_free(rows);
    *rows = means;
    means = no_matrix;
out:
    matrix_free(&means);
    return status;
}

static grail_status project_gram(const projection *p, matrix *gram)
{
    grail_status status = GRAIL_OK;
    matrix a = no_matrix;
    if (p->shares == NULL) {
        return keep_elements(p->kept, p->width, p->kept, p->width, gram);
    }
    TRY(project_rows(p, gram));
    TRY(matrix_new_zero(gram->owner, GRAIL_DTYPE_F64, p->width, p->width, &a));
    TRY(matrix_fold_rows(p->units, p->labels, p->shares, *gram, a));
    TRY(matrix_fill_upper(a));
    matrix_free(gram);
    *gram = a;
    a = no_matrix;
out:
    matrix_free(&a);
    return status;
}

grail_status project_statistics(const projection *p, grail_statistics *s)
{
    CHECK(project_gram(p, &s->gram));
    CHECK(project_rows(p, &s->sum));
    if (s->outputs > 0) {
        CHECK(project_rows(p, &s->cross));
    }
    s->width = p->width;
    return GRAIL_OK;
}
