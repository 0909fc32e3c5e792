/* Eliminations against plain loops on explicit inverses and weights: every value after every step,
 * and the sum of the values against the cost of the best refit (docs/numerics.md, Elimination). */
#include "reduce/elimination.h"

#include "plain_algebra.h"
#include "support/matrices.h"

#include <math.h>
#include <string.h>

enum { OUTPUTS = 6 };

/* H > 0, and the dense weights; then what is left of them, unit after unit. */
typedef struct plain_site {
    int64_t units, features, width;
    double jitter;
    double *h;     /* [H, H] */
    double *dense; /* W[OUTPUTS, H] */
    double *hi;    /* [H, H] inverse of the remaining features */
    double *w;     /* [OUTPUTS, H] repaired */
    bool *kept;    /* [H] */
} plain_site;

static plain_site site_of(int64_t units, int64_t features, double jitter)
{
    const int64_t width = units * features;
    plain_site s = {.units = units, .features = features, .width = width, .jitter = jitter};
    double *x = plain_normal(2 * width * width, 3);
    for (int64_t i = 0; i < 2 * width * width; i++) { /* correlated features of different sizes */
        x[i] = (x[i] + 0.7 * x[i / width * width]) * (1.0 + (double)(i % width % 5));
    }
    s.h = plain_gram(2 * width, width, 0.1 * (double)width, x);
    memory_free(x);
    s.dense = plain_normal(OUTPUTS * width, 4);
    s.hi = plain_copy(width * width, s.h);
    plain_invert(width, s.hi);
    s.w = plain_copy(OUTPUTS * width, s.dense);
    assert_ok(memory_new(&s.kept, (size_t)width, sizeof *s.kept));
    for (int64_t j = 0; j < width; j++) {
        s.kept[j] = true;
    }
    return s;
}

static void free_site(plain_site *s)
{
    memory_free(s->h);
    memory_free(s->dense);
    memory_free(s->hi);
    memory_free(s->w);
    memory_free(s->kept);
}

OWNS(plain_site, free_site)

/* block[u, u] = Hi_gg, and with `inverted` (Hi_gg + jitter I)^-1 */
static void inverse_block(const plain_site *s, int64_t unit, bool inverted, double *block)
{
    const int64_t u = s->features;
    for (int64_t i = 0; i < u * u; i++) {
        block[i] = s->hi[(unit * u + i / u) * s->width + unit * u + i % u];
        block[i] += i / u == i % u ? s->jitter : 0.0;
    }
    if (inverted) {
        plain_invert(u, block);
    }
}

/* L_ii^2 of A[u, u] = L L^T */
static void squared_pivots(int64_t u, double *a, double *squares)
{
    for (int64_t p = 0; p < u; p++) {
        squares[p] = a[p * u + p];
        for (int64_t i = p + 1; i < u; i++) {
            const double factor = a[i * u + p] / squares[p];
            for (int64_t j = p; j < u; j++) {
                a[i * u + j] -= factor * a[p * u + j];
            }
        }
    }
}

/* sum_j |w_j|^2 / divisor_j over the features of a unit */
static double quotients(const plain_site *s, int64_t unit, const double *divisors)
{
    double value = 0.0;
    for (int64_t o = 0; o < OUTPUTS; o++) {
        for (int64_t f = 0; f < s->features; f++) {
            const double w = s->w[o * s->width + unit * s->features + f];
            value += w * w / divisors[f];
        }
    }
    return value;
}

/* sum_o w_og (Hi_gg + jitter I)^-1 w_og^T */
static double exact_value(const plain_site *s, int64_t unit, const double *inverse)
{
    const int64_t u = s->features;
    double value = 0.0;
    for (int64_t o = 0; o < OUTPUTS; o++) {
        const double *w = s->w + o * s->width + unit * u;
        for (int64_t i = 0; i < u * u; i++) {
            value += w[i / u] * inverse[i] * w[i % u];
        }
    }
    return value;
}

static double plain_value(const plain_site *s, unit_value kind, int64_t unit)
{
    const int64_t u = s->features;
    OWNED(double) *block = NULL;
    OWNED(double) *divisors = NULL;
    assert_ok(memory_new(&block, (size_t)(u * u), sizeof *block));
    assert_ok(memory_new(&divisors, (size_t)u, sizeof *divisors));
    inverse_block(s, unit, kind == VALUE_EXACT, block);
    if (kind == VALUE_CHOLESKY) {
        squared_pivots(u, block, divisors);
    }
    const double value =
        kind == VALUE_EXACT ? exact_value(s, unit, block) : quotients(s, unit, divisors);
    return value;
}

/* A[rows, H] -= A[:, g] drop[u, H] */
static void subtract_columns(const plain_site *s, int64_t unit, int64_t rows, const double *drop,
                             double *a)
{
    OWNED(double) *own = NULL; /* A[r, g] */
    const int64_t u = s->features;
    assert_ok(memory_new(&own, (size_t)u, sizeof *own));
    for (int64_t r = 0; r < rows; r++) {
        double *row = a + r * s->width;
        memcpy(own, row + unit * u, (size_t)u * sizeof *own);
        for (int64_t i = 0; i < u * s->width; i++) {
            row[i % s->width] -= own[i / s->width] * drop[i];
        }
    }
}

/* W <- W - W_g D, Hi <- Hi - Hi_:g D with D = (Hi_gg + jitter I)^-1 Hi_g: */
static void plain_take(plain_site *s, int64_t unit)
{
    const int64_t u = s->features;
    OWNED(double) *block = NULL;
    OWNED(double) *drop = NULL;
    assert_ok(memory_new(&block, (size_t)(u * u), sizeof *block));
    assert_ok(memory_new(&drop, (size_t)(u * s->width), sizeof *drop));
    inverse_block(s, unit, true, block);
    plain_add_product(u, s->width, u, block, s->hi + unit * u * s->width, drop);
    subtract_columns(s, unit, OUTPUTS, drop, s->w);
    subtract_columns(s, unit, s->width, drop, s->hi);
    for (int64_t f = 0; f < u; f++) {
        s->kept[unit * u + f] = false;
    }
}

/* A symmetric matrix with NaN above its diagonal. */
static matrix lower_matrix(backend *b, int64_t n, const double *values)
{
    OWNED(double) *lower = plain_copy(n * n, values);
    for (int64_t i = 0; i < n * n; i++) {
        lower[i] = i % n > i / n ? (double)NAN : lower[i];
    }
    const matrix made = support_matrix(b, n, n, lower);
    return made;
}

static elimination *start(backend *b, const plain_site *s, unit_value kind)
{
    elimination *e = NULL;
    OWNED(double) *weights = plain_gram(OUTPUTS, s->width, 0.0, s->w);
    matrix a = lower_matrix(b, s->width, s->hi);
    matrix m = lower_matrix(b, s->width, weights);
    assert_ok(elimination_create(s->units, 1, &e));
    assert_ok(elimination_add(e, kind, s->jitter, false, &a, &m));
    assert_false(matrix_exists(a));
    assert_false(matrix_exists(m));
    return e;
}

/* Takes this unit, the only one that is allowed. */
static grail_status take(elimination *e, int64_t units, int64_t unit, double *value)
{
    grail_status status = GRAIL_OK;
    bool *allowed = NULL;
    int64_t taken = -1;
    TRY(memory_new(&allowed, (size_t)units, sizeof *allowed));
    allowed[unit] = true;
    TRY(elimination_value(e));
    TRY(elimination_allow(e, allowed));
    TRY(elimination_take(e, unit % 2 == 0));
    TRY(elimination_settle(e, &taken, value));
    assert_int_equal(taken, unit);
    TRY(elimination_allow(e, NULL));
out:
    memory_free(allowed);
    return status;
}

static double *values_of(elimination *e, int64_t units)
{
    double *values = NULL;
    assert_ok(memory_new(&values, (size_t)units, sizeof *values));
    assert_ok(elimination_values(e, values));
    return values;
}

/* Compares all values; returns the unit with the least one. */
static int64_t check_values(const plain_site *s, unit_value kind, elimination *e, double *least)
{
    OWNED(double) *values = values_of(e, s->units);
    int64_t best = -1;
    for (int64_t j = 0; j < s->units; j++) {
        const bool kept = s->kept[j * s->features];
        const double expected = kept ? plain_value(s, kind, j) : 0.0;
        assert_near(values[j], expected, kept ? 1e-9 * (1.0 + expected) : 0.0);
        best = kept && (best < 0 || values[j] < values[best]) ? j : best;
    }
    *least = values[best];
    return best;
}

/* Takes all units but one, the cheapest first; every `every` steps the sum of the values is held
 * against the refit of the dense weights on all that is left. */
static void check_site(backend *b, unit_value kind, int64_t units, int64_t features, double jitter,
                       int64_t every)
{
    OWNED(plain_site) s = site_of(units, features, jitter);
    OWNED(elimination) *e = start(b, &s, kind);
    double total = 0.0;
    for (int64_t taken = 0; taken < units - 1; taken++) {
        double least = 0.0;
        const int64_t unit = check_values(&s, kind, e, &least);
        double at = 0.0;
        assert_ok(take(e, units, unit, &at));
        assert_true(at == least);
        plain_take(&s, unit);
        total += least;
        if (every > 0 && (taken % every == every - 1 || taken == units - 2)) {
            const double joint = plain_refit(OUTPUTS, s.width, s.h, s.dense, s.kept, NULL);
            assert_near(total, joint, 1e-9 * (1.0 + joint));
        }
    }
}

/* On every instance; that of torch where torch is there. */
static void on_each(void (*check)(backend *b))
{
    backend *torch = NULL;
    check(on_ref);
    check(on_cpu);
    const grail_status status = backend_open("torch:cpu", NULL, &torch);
    if (status != GRAIL_ERROR_UNSUPPORTED) {
        assert_ok(status);
        check(torch);
        assert_int_equal(backend_bytes(torch), 0);
        backend_close(torch);
    }
}

static void check_costs(backend *b)
{
    check_site(b, VALUE_EXACT, 400, 1, 0.0, 37);
    check_site(b, VALUE_EXACT, 70, 3, 0.0, 1);
    check_site(b, VALUE_EXACT, 5, 40, 0.0, 1);
    check_site(b, VALUE_EXACT, 3, 70, 0.0, 1);
    check_site(b, VALUE_EXACT, 2, 1, 0.0, 1);
}

/* 400 and 70 units fill the panels several times, and are stored anew several times; so do five
 * units of 40 features. A unit of 70 features fills a panel alone. */
TEST(values_are_the_costs_of_the_best_refit)
{
    on_each(check_costs);
}

static void check_factor_values(backend *b)
{
    check_site(b, VALUE_CHOLESKY, 150, 1, 0.0, 0);
    check_site(b, VALUE_CHOLESKY, 60, 3, 0.0, 0);
    check_site(b, VALUE_CHOLESKY, 4, 40, 0.0, 0);
}

TEST(values_on_the_factor_follow_their_formula)
{
    on_each(check_factor_values);
}

/* [1 2; 2 1] has no factor. */
static void check_no_value(backend *b)
{
    const double indefinite[] = {1.0, 0.0, 2.0, 1.0};
    const double ones[] = {1.0, 0.0, 1.0, 1.0};
    for (int kind = VALUE_EXACT; kind <= VALUE_CHOLESKY; kind++) {
        double value = 0.0;
        matrix a = support_matrix(b, 2, 2, indefinite);
        matrix m = support_matrix(b, 2, 2, ones);
        OPENED(elimination, e, elimination_create(1, 1, &e));
        assert_ok(elimination_add(e, (unit_value)kind, 0.0, false, &a, &m));
        assert_fails(elimination_values(e, &value), GRAIL_ERROR_NUMERIC, "unit 0");
    }
}

TEST(an_indefinite_block_has_no_value)
{
    on_each(check_no_value);
}

/* A jitter about the size of the inverse's diagonal. */
static void check_jitter(backend *b)
{
    const double jitter = 1e-3;
    for (int kind = VALUE_EXACT; kind <= VALUE_CHOLESKY; kind++) {
        check_site(b, (unit_value)kind, 150, 1, jitter, 0);
        check_site(b, (unit_value)kind, 50, 3, jitter, 0);
    }
}

TEST(the_jitter_is_added_wherever_a_block_is_inverted)
{
    on_each(check_jitter);
}

static double explained(const plain_site *s)
{
    return -plain_refit(OUTPUTS, s->width, s->h, s->dense, s->kept, NULL);
}

static void set_kept(plain_site *s, int64_t unit, bool kept)
{
    for (int64_t f = 0; f < s->features; f++) {
        s->kept[unit * s->features + f] = kept;
    }
}

/* A = G, M = G W^T W G */
static elimination *start_gains(backend *b, const plain_site *s)
{
    elimination *e = NULL;
    OWNED(double) *product = NULL;
    OWNED(double) *turned = NULL; /* W^T */
    assert_ok(memory_new(&product, (size_t)(OUTPUTS * s->width), sizeof *product));
    assert_ok(memory_new(&turned, (size_t)(OUTPUTS * s->width), sizeof *turned));
    for (int64_t i = 0; i < OUTPUTS * s->width; i++) {
        turned[i % s->width * OUTPUTS + i / s->width] = s->dense[i];
    }
    plain_add_product(OUTPUTS, s->width, s->width, turned, s->h, product);
    OWNED(double) *gains = plain_gram(OUTPUTS, s->width, 0.0, product);
    matrix a = lower_matrix(b, s->width, s->h);
    matrix m = lower_matrix(b, s->width, gains);
    assert_ok(elimination_create(s->units, 1, &e));
    assert_ok(elimination_add(e, VALUE_EXACT, 0.0, false, &a, &m));
    return e;
}

static void check_gains(backend *b, int64_t units, int64_t features)
{
    OWNED(plain_site) s = site_of(units, features, 0.0);
    OWNED(elimination) *e = start_gains(b, &s);
    for (int64_t j = 0; j < units; j++) {
        set_kept(&s, j, false);
    }
    for (int64_t taken = 0; taken < units; taken++) {
        OWNED(double) *values = values_of(e, units);
        const double before = explained(&s);
        for (int64_t j = 0; j < units; j++) {
            if (!s.kept[j * features]) {
                set_kept(&s, j, true);
                assert_near(values[j], explained(&s) - before, -1e-9 * explained(&s) + 1e-6);
                set_kept(&s, j, false);
            }
        }
        const int64_t next = taken * 7 % units;
        double at = 0.0;
        assert_ok(take(e, units, next, &at));
        assert_true(at == values[next]);
        set_kept(&s, next, true);
    }
}

/* A Gram matrix of fewer rows than a few units have features: these explain all others. A negative
 * jitter makes sure that what is left is not positive definite. */
static void check_spent(backend *b)
{
    enum { UNITS = 9, FEATURES = 4, WIDTH = UNITS * FEATURES, ROWS = 10 };
    OWNED(double) *x = plain_normal(ROWS * WIDTH, 8);
    OWNED(double) *weights = plain_normal(OUTPUTS * WIDTH, 9);
    OWNED(double) *g = plain_gram(ROWS, WIDTH, 0.0, x);
    OWNED(double) *product = NULL;
    assert_ok(memory_new(&product, (size_t)(OUTPUTS * WIDTH), sizeof *product));
    plain_add_product(OUTPUTS, WIDTH, WIDTH, weights, g, product);
    OWNED(double) *gains = plain_gram(OUTPUTS, WIDTH, 0.0, product);
    for (int spends = 0; spends < 2; spends++) {
        matrix a = lower_matrix(b, WIDTH, g);
        matrix m = lower_matrix(b, WIDTH, gains);
        OPENED(elimination, e, elimination_create(UNITS, 1, &e));
        assert_ok(elimination_add(e, VALUE_EXACT, -1e-9, spends == 1, &a, &m));
        grail_status status = GRAIL_OK;
        double first = 0.0;
        for (int64_t j = 0; j < UNITS && status == GRAIL_OK; j++) {
            double values[UNITS] = {0};
            double at = 0.0;
            status = elimination_values(e, values);
            first = j == 0 ? values[0] : first;
            assert_true(status != GRAIL_OK || j < 3 || fabs(values[j]) < 1e-5 * first);
            status = status == GRAIL_OK ? take(e, UNITS, j, &at) : status;
        }
        assert_int_equal(status, spends == 1 ? GRAIL_OK : GRAIL_ERROR_NUMERIC);
    }
}

TEST(units_without_anything_left_are_spent)
{
    on_each(check_spent);
}

static void check_all_gains(backend *b)
{
    check_gains(b, 20, 1);
    check_gains(b, 8, 3);
}

TEST(from_a_gram_matrix_values_are_gains_of_keeping)
{
    on_each(check_all_gains);
}

/* The last unit fills a panel and leaves nothing to update. */
static void check_all_taken(backend *b)
{
    OWNED(plain_site) s = site_of(128, 1, 0.0);
    OWNED(elimination) *e = start(b, &s, VALUE_EXACT);
    for (int64_t j = 0; j < s.units; j++) {
        double at = 0.0;
        assert_ok(take(e, s.units, j, &at));
    }
    OWNED(double) *values = values_of(e, s.units);
    for (int64_t j = 0; j < s.units; j++) {
        assert_near(values[j], 0.0, 0.0);
    }
}

TEST(all_units_can_be_taken)
{
    on_each(check_all_taken);
}

/* Unit 2 has an indefinite block. */
static void check_indefinite(backend *b)
{
    static const int64_t features[] = {1, 2};
    for (int i = 0; i < 2; i++) {
        OWNED(plain_site) s = site_of(4, features[i], 0.0);
        double values[4] = {0.0};
        const int64_t last = 3 * features[i] - 1;
        s.hi[last * s.width + last] = -1.0;
        OWNED(elimination) *e = start(b, &s, VALUE_EXACT);
        assert_fails(elimination_values(e, values), GRAIL_ERROR_NUMERIC,
                     "unit 2 is not positive definite");
    }
}

TEST(an_indefinite_block_names_its_unit)
{
    on_each(check_indefinite);
}

/* [1 2; 2 1] as two units: what the first one leaves of the second is negative, and both are taken
 * by their first values. */
static void check_spoilt(backend *b)
{
    const double indefinite[] = {1.0, 0.0, 2.0, 1.0};
    const double weights[] = {1.0, 0.0, 0.0, 2.0};
    int64_t units[2] = {0};
    double values[2] = {0.0};
    matrix a = support_matrix(b, 2, 2, indefinite);
    matrix m = support_matrix(b, 2, 2, weights);
    OPENED(elimination, e, elimination_create(2, 1, &e));
    assert_ok(elimination_add(e, VALUE_EXACT, 0.0, false, &a, &m));
    assert_ok(elimination_value(e));
    assert_ok(elimination_take(e, false));
    assert_ok(elimination_take(e, false));
    assert_fails(elimination_settle(e, units, values), GRAIL_ERROR_NUMERIC,
                 "unit 1 is not positive definite");
}

TEST(a_block_that_others_spoil_names_its_unit)
{
    on_each(check_spoilt);
}

/* Rounding may make a value negative, but what is not a number must be seen. */
static void check_not_a_number(backend *b)
{
    static const int64_t features[] = {1, 2};
    for (int i = 0; i < 2; i++) {
        OWNED(plain_site) s = site_of(3, features[i], 0.0);
        s.w[s.width - 1] = (double)NAN;
        OWNED(elimination) *e = start(b, &s, VALUE_EXACT);
        double values[3] = {0.0};
        assert_fails(elimination_values(e, values), GRAIL_ERROR_NUMERIC,
                     "the value of unit 2 is not finite");
    }
}

TEST(a_value_that_is_not_a_number_is_refused)
{
    on_each(check_not_a_number);
}

typedef struct walk {
    backend *on;
    int64_t units, features;
} walk;

static grail_status identity(backend *b, int64_t n, matrix *out)
{
    CHECK(matrix_new_zero(b, GRAIL_DTYPE_F64, n, n, out));
    return matrix_shift_diagonal(1.0, *out);
}

static grail_status take_all_but_one(void *context)
{
    const walk *w = context;
    OWNED(elimination) *e = NULL;
    OWNED(matrix) a = no_matrix;
    OWNED(matrix) m = no_matrix;
    double value = 0.0;
    CHECK(identity(w->on, w->units * w->features, &a));
    CHECK(identity(w->on, w->units * w->features, &m));
    CHECK(elimination_create(w->units, 1, &e));
    CHECK(elimination_add(e, VALUE_EXACT, 0.0, false, &a, &m));
    for (int64_t j = 0; j + 1 < w->units; j++) {
        CHECK(take(e, w->units, j, &value));
    }
    return GRAIL_OK;
}

TEST(every_failing_allocation_is_survived)
{
    walk wide = {on_cpu, 6, 50};
    walk thin = {on_cpu, 3, 1};
    support_fail_each_allocation(take_all_but_one, &wide);
    support_fail_each_allocation(take_all_but_one, &thin);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
