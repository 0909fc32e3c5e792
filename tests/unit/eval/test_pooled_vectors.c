/* Vectors of documents: hidden states that do not depend on what is run beside them, angles and
 * nearest documents by hand. */
#include "unit/pipeline/lab_model.h"

#include "arch/model.h"
#include "eval/forward.h"
#include "eval/pooled_vectors.h"

#include <math.h>
#include <string.h>

static grail_model *open_golden(const char *name)
{
    grail_model *m = NULL;
    assert_ok(grail_model_open(lab_golden(name), &m));
    return m;
}

/* -- documents of several lengths -------------------------------------------------------------- */

enum { DOCUMENTS = 7 };
static const int64_t sizes[DOCUMENTS] = {1, 1, 3, 3, 3, 7, 40};

static token_windows documents(void)
{
    token_windows w = {.count = DOCUMENTS, .length = 40};
    assert_ok(memory_new(&w.starts, DOCUMENTS + 1, sizeof w.starts[0]));
    for (int i = 0; i < DOCUMENTS; i++) {
        w.starts[i + 1] = w.starts[i] + sizes[i];
    }
    assert_ok(memory_new(&w.ids, (size_t)w.starts[DOCUMENTS], sizeof w.ids[0]));
    for (int64_t i = 0; i < w.starts[DOCUMENTS]; i++) {
        w.ids[i] = (int32_t)(5 + i * i % 89);
    }
    return w;
}

/* The last hidden states of a window, which is one of those from `first` on. */
static void states_of(parameter_store *store, const token_windows *w, int64_t first, int64_t count,
                      int64_t window, double *out)
{
    OWNED(forward_pass) f = {0};
    matrix m = {0};
    assert_ok(forward_begin(&f, store->model, store, w, first, count));
    assert_ok(forward_logits(&f, window, 0, window_size(w, window), &m));
    OWNED(host_view) v = {0};
    assert_ok(host_view_open(m, GRAIL_DTYPE_F64, HOST_READS, &v));
    memcpy(out, v.values, (size_t)matrix_count(m) * sizeof out[0]);
}

TEST(a_document_gives_what_it_gives_alone)
{
    static const char *const families[] = {"bert", "roberta", "modernbert"};
    for (int k = 0; k < 3; k++) {
        OWNED(grail_model) *m = open_golden(families[k]);
        OWNED(token_windows) w = documents();
        OWNED(parameter_store) *store = NULL;
        int64_t width = 0;
        assert_ok(graph_output_width(m->graph, &width));
        assert_ok(parameter_store_create(m, backend_reference(), NULL, &store));
        OWNED(double) *together = NULL;
        OWNED(double) *alone = NULL;
        assert_ok(memory_new(&together, (size_t)(40 * width), sizeof together[0]));
        assert_ok(memory_new(&alone, (size_t)(40 * width), sizeof alone[0]));
        for (int64_t i = 0; i < DOCUMENTS; i++) {
            states_of(store, &w, 0, DOCUMENTS, i, together);
            states_of(store, &w, i, 1, i, alone);
            assert_memory_equal(together, alone, (size_t)(sizes[i] * width) * sizeof alone[0]);
        }
    }
}

/* -- vectors by hand --------------------------------------------------------------------------- */

typedef struct fixture {
    grail_model *model;
    pooled_vectors p;
    token_windows w; /* of one token each: 0, 1, 2 ... */
} fixture;

static void setup(fixture *f, int64_t count)
{
    *f = (fixture){.model = open_golden("bert"), .w = {.count = count, .length = 1}};
    assert_ok(pooled_vectors_init(f->model, f->model, count, &f->p));
    assert_ok(memory_new(&f->w.ids, (size_t)count, sizeof f->w.ids[0]));
    for (int64_t i = 0; i < count; i++) {
        f->w.ids[i] = (int32_t)i;
    }
}

static void teardown(fixture *f)
{
    pooled_vectors_fini(&f->p);
    token_windows_fini(&f->w);
    grail_model_close(f->model);
}

OWNS(fixture, teardown)

/* Vectors in the plane of the first two axes. */
static void put(fixture *f, int64_t i, double angle, double other_angle)
{
    const double size = 1.0 + (double)i;
    f->p.left[i * f->p.width] = size * cos(angle);
    f->p.left[i * f->p.width + 1] = size * sin(angle);
    f->p.right[i * f->p.width] = 3.0 * size * cos(other_angle);
    f->p.right[i * f->p.width + 1] = 3.0 * size * sin(other_angle);
}

TEST(angles_and_nearest_ones_are_counted)
{
    OWNED(fixture) f;
    grail_comparison c = {0};
    setup(&f, 4);
    put(&f, 0, 0.0, 0.0);
    put(&f, 1, 0.1, 0.1);
    put(&f, 2, 0.3, 0.3);
    put(&f, 3, 1.0, -0.2); /* nearest to 2, then to 0 */
    assert_ok(pooled_vectors_compare(&f.p, &f.w, true, &c));
    const double last = cos(1.2);
    const double mean = (3.0 + last) / 4.0;
    const double variance =
        (3.0 * (1.0 - mean) * (1.0 - mean) + (last - mean) * (last - mean)) / 4.0;
    assert_near(c.mean_cosine, mean, 1e-12);
    assert_near(c.least_cosine, last, 1e-12);
    assert_near(c.cosine_interval, 1.959964 * sqrt(variance / 3.0), 1e-6);
    assert_near(c.same_nearest, 0.75, 0.0);
    assert_int_equal(c.pooled, 4);
    assert_string_equal(c.pooling, "mean");
    assert_true(strstr(c.pooling_notice, "no 1_Pooling/config.json says") != NULL);
}

/* Two texts that are the same are as near to a third. */
TEST(equal_texts_are_one_neighbour)
{
    OWNED(fixture) f;
    grail_comparison c = {0};
    setup(&f, 3);
    put(&f, 0, 0.0, 0.0);
    put(&f, 1, 0.5, 0.5001);
    put(&f, 2, 0.5001, 0.5);
    assert_ok(pooled_vectors_compare(&f.p, &f.w, true, &c));
    assert_near(c.same_nearest, 2.0 / 3.0, 1e-12);
    f.w.ids[2] = f.w.ids[1];
    assert_ok(pooled_vectors_compare(&f.p, &f.w, true, &c));
    assert_near(c.same_nearest, 1.0, 0.0);
}

TEST(zeros_have_an_angle_of_their_own)
{
    fixture f;
    grail_comparison c = {.cosine_interval = -1.0, .same_nearest = (double)NAN};
    setup(&f, 2);
    put(&f, 1, 0.3, 0.3);
    memset(f.p.right + f.p.width, 0, (size_t)f.p.width * sizeof f.p.right[0]);
    assert_ok(pooled_vectors_compare(&f.p, &f.w, true, &c));
    assert_near(c.mean_cosine, 0.5, 0.0); /* 1 of zeros in both, 0 of zeros in one */
    assert_near(c.least_cosine, 0.0, 0.0);
    assert_true(isnan(c.same_nearest)); /* of two windows each is the other's */
    teardown(&f);
    setup(&f, 1);
    put(&f, 0, 0.0, 0.0);
    assert_ok(pooled_vectors_compare(&f.p, &f.w, true, &c));
    assert_true(isnan(c.cosine_interval));
    teardown(&f);
}

TEST(what_is_not_finite_is_refused)
{
    OWNED(fixture) f;
    grail_comparison c = {.pooled = -7};
    setup(&f, 3);
    for (int64_t i = 0; i < 3; i++) {
        put(&f, i, 0.1 * (double)i, 0.2);
    }
    f.p.right[f.p.width + 5] = (double)NAN;
    assert_fails(pooled_vectors_compare(&f.p, &f.w, true, &c), GRAIL_ERROR_NUMERIC,
                 "a vector that is not finite; look for NaN or infinity in its weights");
    assert_int_equal(c.pooled, -7);
}

static grail_status compare_once(void *context)
{
    grail_status status = GRAIL_OK;
    const fixture *f = context;
    pooled_vectors p = {0};
    grail_comparison c = {0};
    TRY(pooled_vectors_init(f->model, f->model, 3, &p));
    TRY(pooled_vectors_compare(&p, &f->w, true, &c));
out:
    pooled_vectors_fini(&p);
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    OWNED(fixture) f;
    setup(&f, 3);
    support_fail_each_allocation(compare_once, &f);
}
