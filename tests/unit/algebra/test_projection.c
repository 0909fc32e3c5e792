/* Z = X M: the projected sums are the sums of the projected rows, for selections and foldings. */
#include "algebra/projection.h"

#include "base/memory.h"
#include "support/matrices.h"

enum { T = 50, UNITS = 7, U = 2, H = UNITS * U, KEPT = 3, K = KEPT * U, O = 4 };

static const int64_t selected[UNITS] = {-1, 0, -1, 1, 2, -1, -1};
static const int64_t clusters[UNITS] = {0, 1, 0, 2, 2, 0, 1};
static const int64_t members[KEPT] = {3, 2, 2};

static void open_projection(bool folds, projection *p)
{
    assert_ok(
        projection_init(UNITS, U, KEPT, folds ? clusters : selected, folds ? members : NULL, p));
    assert_int_equal(p->width, K);
}

/* Counts rows of features, with a target or without one. */
static grail_statistics *statistics_of(matrix rows, matrix target)
{
    grail_statistics *s = NULL;
    assert_ok(statistics_create(rows.owner, rows.columns, target.columns, &s));
    assert_ok(statistics_accumulate(s, rows, target));
    assert_ok(matrix_fill_upper(s->gram));
    return s;
}

static void assert_close(matrix a, matrix b, double tolerance)
{
    assert_int_equal(a.rows, b.rows);
    assert_int_equal(a.columns, b.columns);
    for (int64_t i = 0; i < matrix_count(a); i++) {
        assert_near(support_element(a, i / a.columns, i % a.columns),
                    support_element(b, i / b.columns, i % b.columns), tolerance);
    }
}

static void check(backend *b, double tolerance, bool folds, bool has_target)
{
    float x[T * H];
    float y[T * O];
    projection p = {0};
    support_fill_normal(x, T * H, 3);
    support_fill_normal(y, T * O, 4);
    open_projection(folds, &p);
    matrix rows = support_rows(b, T, H, H, x);
    matrix target = has_target ? support_rows(b, T, O, O, y) : no_matrix;
    matrix projected = no_matrix;
    assert_ok(matrix_new(b, rows.type, T, K, &projected));
    assert_ok(project(&p, rows, projected));
    grail_statistics *of_rows = statistics_of(projected, target);
    grail_statistics *sums = statistics_of(rows, target);
    assert_ok(project_statistics(&p, sums));
    assert_int_equal(sums->width, K);
    assert_close(sums->gram, of_rows->gram, tolerance);
    assert_close(sums->sum, of_rows->sum, tolerance);
    if (has_target) {
        assert_close(sums->cross, of_rows->cross, tolerance);
    }
    grail_statistics_free(of_rows);
    grail_statistics_free(sums);
    matrix_free(&rows);
    matrix_free(&target);
    matrix_free(&projected);
    projection_fini(&p);
}

TEST(projected_sums_are_those_of_projected_rows)
{
    for (int i = 0; i < 4; i++) {
        check(on_ref, 1e-12, i % 2 == 1, i / 2 == 1);
        check(on_cpu, 1e-4, i % 2 == 1, i / 2 == 1);
    }
}

/* Every feature is kept once or removed once, unit by unit. */
TEST(features_are_listed_in_order)
{
    projection p = {0};
    open_projection(false, &p);
    assert_int_equal(p.removed_count, H - K);
    for (int64_t i = 0, kept = 0, removed = 0; i < H; i++) {
        if (selected[i / U] >= 0) {
            assert_int_equal(p.kept[kept++], i);
        } else {
            assert_int_equal(p.removed[removed++], i);
        }
    }
    projection_fini(&p);
}

TEST(a_selection_stays_in_the_memory_of_the_sums)
{
    float x[T * H];
    projection p = {0};
    support_fill_normal(x, T * H, 5);
    open_projection(false, &p);
    matrix rows = support_rows(on_ref, T, H, H, x);
    grail_statistics *s = statistics_of(rows, no_matrix);
    const int64_t before = memory_in_use();
    memory_peak_begin();
    assert_ok(project_statistics(&p, s));
    assert_true(memory_peak() < before + (int64_t)sizeof(double) * K * K);
    grail_statistics_free(s);
    matrix_free(&rows);
    projection_fini(&p);
}

static grail_status project_once(void *context)
{
    const bool *folds = context;
    projection p = {0};
    grail_statistics *s = NULL;
    grail_status status = statistics_create(on_ref, H, O, &s);
    if (status == GRAIL_OK) {
        status = projection_init(UNITS, U, KEPT, *folds ? clusters : selected,
                                 *folds ? members : NULL, &p);
    }
    if (status == GRAIL_OK) {
        status = project_statistics(&p, s);
    }
    grail_statistics_free(s);
    projection_fini(&p);
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    for (int i = 0; i < 2; i++) {
        bool folds = i == 1;
        support_fail_each_allocation(project_once, &folds);
    }
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
