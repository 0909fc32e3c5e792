/* The gradient of attention against its formula with complete matrices of weights, and against
 * finite differences. */
#include "conformance/slopes.h"

#include <string.h>

/* Everything of one case in f64; gradients are sums over the query heads that share a key. */
typedef struct expectation {
    float *q, *k, *v, *dout, *sinks;
    float *biases; /* [query_heads, 2 length - 1], by distance; NULL: none */
    double *out, *dq, *dk, *dv, *dsinks;
    double *q_terms, *k_terms, *v_terms; /* the sums of the sizes of what gradients add up */
} expectation;

static int64_t query_count(const attention_shape *s)
{
    return s->sequences * s->length * s->query_heads * s->head_dim;
}

static int64_t key_count(const attention_shape *s)
{
    return s->sequences * s->length * s->kv_heads * s->head_dim;
}

/* Counts those of outputs and values, which may be wider or narrower. */
static int64_t output_count(const attention_shape *s)
{
    return s->sequences * s->length * s->query_heads * attention_value_dim(s);
}

static int64_t value_count(const attention_shape *s)
{
    return s->sequences * s->length * s->kv_heads * attention_value_dim(s);
}

static bool sees(const attention_shape *s, int64_t i, int64_t j)
{
    const bool near = s->window == 0 || (j > i - s->window && j < i + s->window);
    return near && (s->bidirectional || j <= i);
}

/* weights[j] = softmax of the scores of row i, 0 where it does not see row j; returns the weight of
 * the sink, a score of -infinity where there is none. Biases of the head may be NULL. */
static double weigh_naively(const attention_shape *s, int64_t i, const float *q, const float *k,
                            int64_t stride, double sink, const float *biases, double *weights)
{
    double largest = sink;
    for (int64_t j = 0; j < s->length; j++) {
        weights[j] = sees(s, i, j) ? 0.0 : -INFINITY;
        for (int64_t d = 0; d < s->head_dim; d++) {
            weights[j] += s->scale * (double)q[d] * (double)k[j * stride + d];
        }
        if (s->cap > 0.0 && sees(s, i, j)) {
            weights[j] = s->cap * tanh(weights[j] / s->cap);
        }
        weights[j] += biases == NULL ? 0.0 : (double)biases[s->length - 1 + j - i];
        largest = fmax(largest, weights[j]);
    }
    double total = exp(sink - largest);
    const double own = total;
    for (int64_t j = 0; j < s->length; j++) {
        weights[j] = exp(weights[j] - largest);
        total += weights[j];
    }
    for (int64_t j = 0; j < s->length; j++) {
        weights[j] /= total;
    }
    return own / total;
}

/* The slope of the cap at the score of query q and key k. */
static double slope_of_cap(const attention_shape *s, const float *q, const float *k)
{
    double score = 0.0;
    for (int64_t d = 0; d < s->head_dim; d++) {
        score += s->scale * (double)q[d] * (double)k[d];
    }
    return s->cap > 0.0 ? 1.0 - pow(tanh(score / s->cap), 2.0) : 1.0;
}

/* Row `row` of a query head: through the Jacobian of the softmax, dS_j = P_j (dP_j - sum P dP), in
 * which the sink's dP is 0. */
static void naive_row(const attention_shape *s, int64_t row, int64_t head, const expectation *e,
                      double *weights, double *products)
{
    const int64_t stride = s->kv_heads * s->head_dim;
    const int64_t begin = row / s->length * s->length;
    const int64_t kv_head = head / (s->query_heads / s->kv_heads);
    const int64_t query = (row * s->query_heads + head) * s->head_dim;
    const int64_t key = (begin * s->kv_heads + kv_head) * s->head_dim;
    const int64_t value_dim = attention_value_dim(s);
    const int64_t output = (row * s->query_heads + head) * value_dim;
    const int64_t value = (begin * s->kv_heads + kv_head) * value_dim;
    const double sink = e->sinks == NULL ? -INFINITY : (double)e->sinks[head];
    const float *biases = e->biases == NULL ? NULL : e->biases + head * (2 * s->length - 1);
    double mean = 0.0;
    const double own =
        weigh_naively(s, row - begin, e->q + query, e->k + key, stride, sink, biases, weights);
    for (int64_t j = 0; j < s->length; j++) {
        products[j] = 0.0;
        for (int64_t d = 0; d < value_dim; d++) {
            const int64_t at = value + j * s->kv_heads * value_dim + d;
            products[j] += (double)e->dout[output + d] * (double)e->v[at];
            e->out[output + d] += weights[j] * (double)e->v[at];
            e->dv[at] += weights[j] * (double)e->dout[output + d];
            e->v_terms[at] += fabs(weights[j] * (double)e->dout[output + d]);
        }
        mean += weights[j] * products[j];
    }
    e->dsinks[head] -= own * mean;
    for (int64_t j = 0; j < s->length; j++) {
        const double ds = s->scale * weights[j] * (products[j] - mean) *
                          slope_of_cap(s, e->q + query, e->k + key + j * stride);
        for (int64_t d = 0; d < s->head_dim; d++) {
            e->dq[query + d] += ds * (double)e->k[key + j * stride + d];
            e->dk[key + j * stride + d] += ds * (double)e->q[query + d];
            e->q_terms[query + d] += fabs(ds * (double)e->k[key + j * stride + d]);
            e->k_terms[key + j * stride + d] += fabs(ds * (double)e->q[query + d]);
        }
    }
}

/* Normals that bf16 holds: then scores and what the softmax is multiplied by are exact products,
 * and what a backend rounds besides are weights and their slopes. */
static float *exact_normals(int64_t count, uint64_t seed, double deviation)
{
    enum { DROPPED = 16 };
    float *values = normals(count, seed, deviation);
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &values[i], sizeof bits);
        bits = bits >> DROPPED << DROPPED;
        memcpy(&values[i], &bits, sizeof bits);
    }
    return values;
}

static expectation expectation_with(const attention_shape *s, bool sinks, bool biases)
{
    expectation e = {.q = exact_normals(query_count(s), 1, 1.0),
                     .k = exact_normals(key_count(s), 2, 1.0),
                     .v = exact_normals(value_count(s), 3, 1.0),
                     .dout = exact_normals(output_count(s), 4, 1.0),
                     .sinks = sinks ? normals(s->query_heads, 5, 2.0) : NULL,
                     .biases = biases ? exact_normals(s->query_heads * (2 * s->length - 1), 6, 1.0)
                                      : NULL,
                     .out = doubles(output_count(s), 0.0),
                     .dq = doubles(query_count(s), 0.0),
                     .dk = doubles(key_count(s), 0.0),
                     .dv = doubles(value_count(s), 0.0),
                     .dsinks = doubles(s->query_heads, 0.0),
                     .q_terms = doubles(query_count(s), 0.0),
                     .k_terms = doubles(key_count(s), 0.0),
                     .v_terms = doubles(value_count(s), 0.0)};
    double *weights = doubles(s->length, 0.0);
    double *products = doubles(s->length, 0.0);
    for (int64_t row = 0; row < s->sequences * s->length; row++) {
        for (int64_t head = 0; head < s->query_heads; head++) {
            naive_row(s, row, head, &e, weights, products);
        }
    }
    free_blocks(weights, products);
    return e;
}

static expectation expectation_new(const attention_shape *s)
{
    return expectation_with(s, false, false);
}

static void expectation_free(expectation *e)
{
    free_blocks(e->q, e->k, e->v, e->dout, e->sinks, e->biases, e->out, e->dq, e->dk, e->dv,
                e->dsinks, e->q_terms, e->k_terms, e->v_terms);
}

OWNS(expectation, expectation_free)

static double largest_of(int64_t count, const double *values)
{
    double largest = 0.0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(values[i]));
    }
    return largest;
}

/* Without terms, all but the operands of products. Terms have a factor that may be rounded as
 * operands are. */
static void assert_gradient(const char *what, matrix m, const double *expected, const double *terms,
                            double tolerance)
{
    const int64_t count = matrix_count(m);
    const double usual = tolerance * fmax(1.0, largest_of(count, expected)) * rounding(m.owner);
    OWNED(double) *actual = results_of(m);
    OWNED(double) *allowed = doubles(count, usual);
    for (int64_t i = 0; terms != NULL && i < count; i++) {
        allowed[i] += unit_of_operands(m.owner) * terms[i];
    }
    assert_all_near(m.owner, what, count, actual, expected, allowed, 1.0);
}

/* What a backend makes of a case. */
typedef struct gradients {
    matrix q, k, v, out, dout, dq, dk, dv, sinks, dsinks, biases; /* the last three may be missing
                                                                   */
} gradients;

static gradients gradients_new(backend *b, const attention_shape *s, const expectation *e)
{
    const int64_t rows = s->sequences * s->length;
    const int64_t queries = s->query_heads * s->head_dim;
    const int64_t keys = s->kv_heads * s->head_dim;
    const int64_t values = s->kv_heads * attention_value_dim(s);
    const int64_t outputs = s->query_heads * attention_value_dim(s);
    const bool sinks = e->sinks != NULL;
    static const float zeros[8] = {0.0F};
    return (gradients){.sinks = sinks ? values_of(b, 1, s->query_heads, e->sinks) : no_matrix,
                       .dsinks = sinks ? values_of(b, 1, s->query_heads, zeros) : no_matrix,
                       .biases = e->biases == NULL
                                     ? no_matrix
                                     : values_of(b, s->query_heads, 2 * s->length - 1, e->biases),
                       .q = values_of(b, rows, queries, e->q),
                       .k = values_of(b, rows, keys, e->k),
                       .v = values_of(b, rows, values, e->v),
                       .out = matrix_of(b, backend_type(b), rows, outputs, e->out),
                       .dout = values_of(b, rows, outputs, e->dout),
                       .dq = blank_values(b, rows, queries),
                       .dk = blank_values(b, rows, keys),
                       .dv = blank_values(b, rows, values)};
}

static void gradients_free(gradients *g)
{
    free_matrices(&g->q, &g->k, &g->v, &g->out, &g->dout, &g->dq, &g->dk, &g->dv, &g->sinks,
                  &g->dsinks, &g->biases);
}

OWNS(gradients, gradients_free)

static grail_status differentiate(const attention_shape *s, const gradients *g)
{
    return matrix_attention_gradient(s, g->q, g->k, g->v, g->out, g->dout, g->dq, g->dk, g->dv,
                                     g->sinks, g->dsinks, g->biases);
}

/* `spread` is about the standard deviation of the scores, whose scale is a power of two. */
static void check_with(attention_shape s, bool sinks, bool biases, double spread)
{
    s.scale = exp2(round(log2(spread / sqrt((double)s.head_dim))));
    OWNED(expectation) e = expectation_with(&s, sinks, biases);
    const double tolerance = 100.0 * (1.0 + spread);
    FOR_EACH_BACKEND(b)
    {
        OWNED(gradients) g = gradients_new(b, &s, &e);
        assert_ok(differentiate(&s, &g));
        assert_gradient("dQ", g.dq, e.dq, e.q_terms, tolerance);
        assert_gradient("dK", g.dk, e.dk, e.k_terms, tolerance);
        assert_gradient("dV", g.dv, e.dv, e.v_terms, tolerance);
        if (sinks) {
            assert_gradient("dsinks", g.dsinks, e.dsinks, NULL, tolerance * (double)s.length);
        }
    }
}

static void check(attention_shape s, double spread)
{
    check_with(s, false, false, spread);
}

static void check_all(size_t count, const attention_shape shapes[])
{
    for (size_t i = 0; i < count; i++) {
        check(shapes[i], 1.0);
    }
}

/* Slopes are those of f64, and all operands may be rounded. */
static double tolerance_of(const backend *b)
{
    return slope_tolerance(b, 100.0) + 8.0 * unit_of_operands(b);
}

static void attend(const void *context, const matrix *inputs, matrix y)
{
    assert_ok(matrix_attention(context, inputs[0], inputs[1], inputs[2], y, no_matrix, no_matrix));
}

/* The shapes have every kind of mask, and shared keys. */
TEST(test_attention_gradients_are_the_slopes)
{
    static const attention_shape shapes[] = {{2, 9, 4, 2, 3, 0, false, 0.6, 0.0, 0, 0, 0},
                                             {2, 9, 4, 2, 3, 4, false, 0.6, 0.0, 0, 0, 0},
                                             {2, 9, 4, 2, 3, 0, true, 0.6, 0.0, 0, 0, 0},
                                             {1, 200, 1, 1, 2, 0, false, 0.6, 0.0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const attention_shape *s = &shapes[i];
        const int64_t rows = s->sequences * s->length;
        const int64_t queries = s->query_heads * s->head_dim;
        const int64_t keys = s->kv_heads * s->head_dim;
        expectation e = expectation_new(s);
        const slope_input inputs[SLOPE_INPUTS] = {
            {rows, queries, e.q}, {rows, keys, e.k}, {rows, keys, e.v}};
        FOR_EACH_BACKEND(b)
        {
            slopes f = slopes_new(attend, s, inputs, rows, queries, e.dout);
            gradients g = gradients_new(b, s, &e);
            assert_ok(differentiate(s, &g));
            assert_slopes("dQ", &f, 0, 0.0, g.dq, tolerance_of(b));
            assert_slopes("dK", &f, 1, 0.0, g.dk, tolerance_of(b));
            assert_slopes("dV", &f, 2, 0.0, g.dv, tolerance_of(b));
            gradients_free(&g);
            slopes_free(&f);
        }
        expectation_free(&e);
    }
}

TEST(test_gradients_of_causal_attention)
{
    static const attention_shape shapes[] = {
        {0, 5, 2, 2, 4, 0, false, 0, 0.0, 0, 0, 0},
        {1, 0, 2, 2, 4, 0, false, 0, 0.0, 0, 0, 0},
        {3, 7, 2, 2, 5, 0, false, 0, 0.0, 0, 0, 0},
        {2, 129, 3, 3, 17, 0, false, 0, 0.0, 0, 0, 0},
        {1, 193, 2, 2, 8, 0, false, 0, 0.0, 0, 0, 0},
        {1, 800, 2, 2, 6, 0, false, 0, 0.0, 0, 0, 0},
        {1, 300, 2, 1, 72, 0, false, 0, 0.0, 0, 0, 0},
    };
    check_all(sizeof shapes / sizeof shapes[0], shapes);
}

/* A row that sees itself alone has nothing to weigh. */
TEST(test_a_single_row_has_no_slope_but_of_its_value)
{
    const attention_shape s = {3, 1, 2, 1, 4, 0, false, 0.5, 0.0, 0, 0, 0};
    OWNED(expectation) e = expectation_new(&s);
    FOR_EACH_BACKEND(b)
    {
        OWNED(gradients) g = gradients_new(b, &s, &e);
        double *zeros = doubles(query_count(&s), 0.0);
        double *dv = doubles(key_count(&s), 0.0);
        for (int64_t i = 0; i < query_count(&s); i++) {
            dv[i / 8 * 4 + i % 4] += (double)e.dout[i];
        }
        assert_ok(differentiate(&s, &g));
        assert_matrix_near("dQ", g.dq, zeros, 32.0 * rounding(b));
        assert_matrix_near("dK", g.dk, zeros, 32.0 * rounding(b));
        assert_matrix_near("dV", g.dv, dv, 8.0 * rounding(b));
        free_blocks(zeros, dv);
    }
}

TEST(test_gradients_of_attention_both_ways)
{
    static const attention_shape shapes[] = {{5, 50, 3, 3, 16, 0, true, 0, 0.0, 0, 0, 0},
                                             {2, 197, 2, 1, 12, 0, true, 0, 0.0, 0, 0, 0},
                                             {1, 800, 2, 1, 5, 0, true, 0, 0.0, 0, 0, 0}};
    check_all(sizeof shapes / sizeof shapes[0], shapes);
    check(shapes[1], 30.0);
}

TEST(test_query_heads_add_to_their_groups_keys)
{
    static const attention_shape shapes[] = {{2, 19, 6, 2, 8, 0, false, 0, 0.0, 0, 0, 0},
                                             {1, 210, 9, 3, 4, 0, false, 0, 0.0, 0, 0, 0},
                                             {1, 30, 8, 1, 16, 0, false, 0, 0.0, 0, 0, 0}};
    check_all(sizeof shapes / sizeof shapes[0], shapes);
}

TEST(test_a_window_hides_distant_keys_from_gradients)
{
    static const int64_t windows[] = {1, 2, 63, 192, 193, 384, 699, 700, 5000};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        check((attention_shape){1, 700, 2, 1, 4, windows[i], false, 0, 0.0, 0, 0, 0}, 1.0);
    }
    check((attention_shape){1, 700, 2, 1, 4, 63, true, 0, 0.0, 0, 0, 0}, 1.0);
    check((attention_shape){1, 700, 2, 1, 4, 300, true, 0, 0.0, 0, 0, 0}, 1.0);
}

TEST(test_the_slope_of_capped_scores_counts)
{
    check((attention_shape){2, 129, 4, 2, 8, 0, false, 0, 2.0, 0, 0, 0}, 2.0);
    check((attention_shape){1, 700, 2, 1, 4, 63, false, 0, 0.5, 0, 0, 0}, 1.0);
    check((attention_shape){3, 40, 2, 2, 5, 0, true, 0, 50.0, 0, 0, 0}, 1.0);
}

TEST(test_sinks_have_the_gradient_of_what_they_take)
{
    check_with((attention_shape){2, 19, 4, 2, 8, 0, false, 0, 0.0, 0, 0, 0}, true, false, 1.0);
    check_with((attention_shape){1, 700, 2, 1, 4, 63, false, 0, 0.0, 0, 0, 0}, true, false, 2.0);
    check_with((attention_shape){3, 40, 2, 2, 5, 0, true, 0, 2.0, 0, 0, 0}, true, false, 1.0);
}

/* Biases change the weights alone. */
TEST(test_biases_of_scores_count_in_gradients)
{
    check_with((attention_shape){2, 19, 4, 2, 8, 0, true, 0, 0.0, 0, 0, 0}, false, true, 1.0);
    check_with((attention_shape){1, 700, 2, 1, 4, 63, false, 0, 0.0, 0, 0, 0}, false, true, 1.0);
    check_with((attention_shape){2, 200, 2, 2, 5, 0, false, 0, 0.0, 0, 0, 0}, true, true, 1.0);
}

TEST(test_gradients_of_values_of_another_width)
{
    check((attention_shape){2, 129, 4, 2, 8, 0, false, 0, 0.0, 3, 0, 0}, 1.0);
    check((attention_shape){1, 300, 2, 1, 40, 0, false, 0, 0.0, 70, 0, 0}, 1.0);
    check_with((attention_shape){1, 500, 2, 2, 4, 0, false, 0, 0.0, 9, 0, 0}, true, false, 1.0);
}

TEST(test_gradients_of_large_scores_stay_finite)
{
    check((attention_shape){1, 500, 2, 2, 8, 0, false, 0, 0.0, 0, 0, 0}, 60.0);
}

/* A NaN in what no query sees of another sequence stays there. */
TEST(test_sequences_do_not_reach_each_other)
{
    attention_shape s = {2, 40, 2, 1, 4, 0, false, 0.5, 0.0, 0, 0, 0};
    OWNED(expectation) whole = expectation_new(&s);
    whole.v[key_count(&s) - 1] = NAN;
    FOR_EACH_BACKEND(b)
    {
        OWNED(gradients) g = gradients_new(b, &s, &whole);
        assert_ok(differentiate(&s, &g));
        double *dk = results_of(g.dk);
        double *dq = results_of(g.dq);
        for (int64_t i = 0; i < key_count(&s) / 2; i++) {
            assert_true(isfinite(dk[i]));
            assert_true(isfinite(dq[2 * i]) && isfinite(dq[2 * i + 1]));
        }
        free_blocks(dk, dq);
    }
}

typedef struct small_run {
    attention_shape shape;
    gradients g;
} small_run;

static grail_status run_small(void *context)
{
    const small_run *r = context;
    return differentiate(&r->shape, &r->g);
}

TEST(test_attention_gradients_report_lack_of_memory)
{
    const attention_shape s = {1, 2, 1, 1, 1, 0, false, 1.0, 0.0, 0, 0, 0};
    OWNED(expectation) e = expectation_new(&s);
    FOR_EACH_BACKEND(b)
    {
        small_run r = {s, gradients_new(b, &s, &e)};
        support_fail_each_allocation(run_small, &r);
        gradients_free(&r.g);
    }
}
