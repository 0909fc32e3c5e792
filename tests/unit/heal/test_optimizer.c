/* The optimiser: its steps by a plain loop, the sizes that its rates are relative to, and that what
 * it keeps was rounded before it was judged. */
#include "hand_training.h"

#include "backend/operations.h"
#include "support/ranks.h"

#include <math.h>
#include <string.h>

enum { WEIGHT, BIAS, NORM_WEIGHT, NORM_BIAS };

static double root_mean_square(int64_t count, const double *values)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i] * values[i];
    }
    return sqrt(sum / (double)count);
}

static double gradient_at(int step, int parameter, int64_t i)
{
    return sin(0.4 + 1.3 * step + 2.1 * parameter + 0.7 * (double)i) / (1 + parameter);
}

static void add_gradients(const hand_training *h, int step)
{
    for (int p = 0; p < HAND_PARAMETERS; p++) {
        double gradient[HAND_MOST];
        for (int64_t i = 0; i < hand_count(h, p); i++) {
            gradient[i] = gradient_at(step, p, i);
        }
        hand_add_gradient(h, p, gradient);
    }
}

/* Adam, element by element; decays of 0.9 and 0.95. */
static double adam(double weight, double size, int steps, int parameter, int64_t i,
                   const double *rates)
{
    double first = 0.0;
    double second = 0.0;
    for (int s = 0; s < steps; s++) {
        const double g = gradient_at(s, parameter, i);
        first = 0.9 * first + 0.1 * g;
        second = 0.95 * second + 0.05 * g * g;
        const double mean = first / (1.0 - pow(0.9, s + 1));
        const double deviation = sqrt(second / (1.0 - pow(0.95, s + 1)));
        weight -= rates[s] * size * mean / deviation;
    }
    return weight;
}

TEST(steps_are_those_of_adam)
{
    static const double rates[] = {0.01, 0.02, 0.015, 0.005};
    OWNED(hand_training) h;
    double before[HAND_PARAMETERS][HAND_MOST];
    double now[HAND_MOST];
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_F32);
    for (int p = 0; p < HAND_PARAMETERS; p++) {
        hand_values(&h, p, before[p]);
    }
    for (int s = 0; s < 4; s++) {
        add_gradients(&h, s); /* the step before has cleared its own */
        assert_ok(optimizer_step(h.o, rates[s]));
    }
    for (int p = 0; p < HAND_PARAMETERS; p++) {
        hand_values(&h, p, now);
        for (int64_t i = 0; i < hand_count(&h, p); i++) {
            assert_near(now[i], adam(before[p][i], h.o->of[p].size, 4, p, i, rates), 1e-9);
        }
    }
}

/* But that of a norm's gains is what nine tenths of them exceed: of a few the least. */
TEST(sizes_are_root_mean_squares)
{
    OWNED(hand_training) h;
    double values[HAND_MOST];
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_F32);
    for (int p = 0; p < HAND_PARAMETERS; p++) {
        hand_values(&h, p, values);
        double size = root_mean_square(hand_count(&h, p), values);
        for (int64_t i = 0; p == NORM_WEIGHT && i < hand_count(&h, p); i++) {
            size = fmin(size, fabs(values[i]));
        }
        assert_near(h.o->of[p].size, size, 1e-12);
    }
}

/* A tenth is below it, whatever their order and signs, and outliers change nothing. */
HAND_TEST(outliers_of_a_norm_do_not_size_its_steps)
{
    enum { WIDTH = 40, STEP = 7, EVEN = 36 };
    float gains[WIDTH];
    optimizer *o = NULL;
    bool trained[8] = {false};
    const int y = hand_linear(n, "linear", 3, WIDTH, n->g->input);
    hand_end(n, backend_reference(), hand_norm(n, NODE_LAYER_NORM, "norm", WIDTH, y));
    for (int i = 0; i < WIDTH; i++) {
        const float gain = i < EVEN ? (float)(i + 1) : 1e4F;
        gains[i * STEP % WIDTH] = i % 2 == 0 ? gain : -gain;
    }
    hand_set(n, "norm.weight", gains);
    trained[n->g->nodes[1].weight] = true;
    assert_ok(optimizer_create(n->g, n->store, trained, &o));
    assert_int_equal(o->count, 1);
    assert_near(o->of[0].size, WIDTH / 10 + 1.0, 1e-12);
    optimizer_free(o);
}

/* A bias that begins at zero has the size of a tenth of the weight that it stands by. */
TEST(a_bias_of_zero_can_move)
{
    static const float zeros[HAND_MOST];
    const bool trained[HAND_PARAMETERS] = {false, true, false, true};
    OWNED(hand_training) h;
    double values[HAND_MOST];
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_F32);
    optimizer_free(h.o);
    h.o = NULL;
    const int64_t shape[] = {4};
    assert_ok(parameter_store_set(h.store, BIAS, shape, zeros));
    assert_ok(parameter_store_set(h.store, NORM_BIAS, shape, zeros));
    assert_ok(optimizer_create(h.n.g, h.store, trained, &h.o));
    assert_int_equal(h.o->count, 2);
    hand_values(&h, WEIGHT, values);
    assert_near(h.o->of[0].size, 0.1 * root_mean_square(12, values), 1e-12);
    hand_values(&h, NORM_WEIGHT, values);
    assert_near(h.o->of[1].size, 0.1 * root_mean_square(4, values), 1e-12);
}

/* The dense store stays as it is; what is not trained has no entry of its own. */
TEST(the_dense_parameters_stay)
{
    hand_training h;
    double before[HAND_MOST];
    double now[HAND_MOST];
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_F32);
    hand_values(&h, WEIGHT, before);
    add_gradients(&h, 0);
    assert_ok(optimizer_step(h.o, 0.1));
    hand_values(&h, WEIGHT, now);
    assert_true(now[0] != before[0]);
    assert_ok(matrix_download(h.n.store->entries[WEIGHT].values, now));
    assert_memory_equal(before, now, 12 * sizeof now[0]);
    hand_training_fini(&h);

    const bool none[HAND_PARAMETERS] = {false, false, true, false};
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_F32);
    optimizer_free(h.o);
    parameter_store_free(h.store);
    h.store = NULL;
    h.o = NULL;
    assert_ok(parameter_store_create(&h.n.model, backend_reference(), h.n.store, &h.store));
    assert_ok(optimizer_create(h.n.g, h.store, none, &h.o));
    for (int p = 0; p < HAND_PARAMETERS; p++) {
        assert_int_equal(matrix_exists(h.store->entries[p].values), p == NORM_WEIGHT);
        assert_int_equal(matrix_exists(gradient_of(h.o->gradients, p)), p == NORM_WEIGHT);
    }
    hand_training_fini(&h);
}

/* A store without a parent trains its own entries. */
TEST(a_store_of_its_own_can_be_trained)
{
    const bool all[HAND_PARAMETERS] = {true, true, true, true};
    OWNED(hand_training) h;
    optimizer *o = NULL;
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_F32);
    const matrix before = h.n.store->entries[WEIGHT].values;
    assert_ok(optimizer_create(h.n.g, h.n.store, all, &o));
    assert_ptr_equal(before.memory, h.n.store->entries[WEIGHT].values.memory);
    optimizer_free(o);
}

static float rounded(double value)
{
    const float wide = (float)value;
    uint16_t stored = 0;
    float out = 0.0F;
    assert_ok(convert_from_f32(GRAIL_DTYPE_BF16, &wide, 1, &stored));
    assert_ok(convert_to_f32(GRAIL_DTYPE_BF16, &stored, 1, &out));
    return out;
}

/* Between judgements the weights are finer than bf16; what is judged and kept is not. */
TEST(what_is_kept_was_rounded_as_it_was_judged)
{
    OWNED(hand_training) h;
    double start[HAND_MOST];
    double weights[HAND_MOST];
    double judged[HAND_MOST];
    double now[HAND_MOST];
    const size_t bytes = 12 * sizeof now[0];
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_BF16);
    hand_values(&h, WEIGHT, start);
    add_gradients(&h, 0);
    assert_ok(optimizer_step(h.o, 0.01));
    hand_values(&h, WEIGHT, weights);

    assert_ok(optimizer_begin_judgement(h.o));
    hand_values(&h, WEIGHT, judged);
    bool differs = false;
    for (int i = 0; i < 12; i++) {
        assert_true(judged[i] == (double)rounded(weights[i]));
        differs = differs || judged[i] != weights[i];
    }
    assert_true(differs);
    assert_ok(optimizer_end_judgement(h.o, true));
    hand_values(&h, WEIGHT, now);
    assert_memory_equal(now, weights, bytes); /* goes on from where it was */

    add_gradients(&h, 1);
    assert_ok(optimizer_step(h.o, 0.01));
    assert_ok(optimizer_begin_judgement(h.o));
    assert_ok(optimizer_end_judgement(h.o, false));
    hand_values(&h, WEIGHT, now);
    assert_int_not_equal(memcmp(now, weights, bytes), 0);
    assert_ok(optimizer_finish(h.o));
    hand_values(&h, WEIGHT, now);
    assert_memory_equal(now, judged, bytes);
    assert_int_not_equal(memcmp(now, start, bytes), 0);
}

TEST(a_judgement_leaves_no_gradient_behind)
{
    OWNED(hand_training) h;
    double gradient[HAND_MOST];
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_F32);
    assert_ok(optimizer_begin_judgement(h.o));
    assert_ok(optimizer_end_judgement(h.o, false));
    for (int p = 0; p < HAND_PARAMETERS; p++) {
        assert_ok(matrix_download(gradient_of(h.o->gradients, p), gradient));
        for (int64_t i = 0; i < hand_count(&h, p); i++) {
            assert_true(gradient[i] == 0.0);
        }
    }
}

TEST(without_a_better_state_the_start_comes_back)
{
    OWNED(hand_training) h;
    double start[HAND_PARAMETERS][HAND_MOST];
    double now[HAND_MOST];
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_BF16);
    for (int p = 0; p < HAND_PARAMETERS; p++) {
        hand_values(&h, p, start[p]);
    }
    add_gradients(&h, 0);
    assert_ok(optimizer_step(h.o, 0.5));
    assert_ok(optimizer_finish(h.o));
    for (int p = 0; p < HAND_PARAMETERS; p++) {
        hand_values(&h, p, now);
        assert_memory_equal(now, start[p], (size_t)hand_count(&h, p) * sizeof now[0]);
    }
}

/* The moments of a BatchNorm and the table of an embedding are not trained. */
HAND_TEST(what_can_be_trained)
{
    const int y = hand_norm(n, NODE_BATCH_NORM, "bn", 3, n->g->input);
    hand_end(n, backend_reference(), hand_linear(n, "linear", 3, 4, y));
    bool trained[8] = {false};
    assert_true(n->g->parameter_count <= 8);
    optimizer_mark_trainable(n->g, 0, 1, trained);
    for (int p = 0; p < n->g->parameter_count; p++) {
        const char *name = n->g->parameters[p].name;
        assert_int_equal(trained[p],
                         strcmp(name, "bn.weight") == 0 || strcmp(name, "bn.bias") == 0);
    }
    optimizer_mark_trainable(n->g, 0, 2, trained);
    assert_true(trained[n->g->nodes[1].weight] && trained[n->g->nodes[1].bias]);
    assert_false(trained[n->g->nodes[0].mean] || trained[n->g->nodes[0].variance]);
    n->g->nodes[1].kind = NODE_EMBEDDING; /* as where a head is tied to its table */
    optimizer_mark_trainable(n->g, 0, 2, trained);
    assert_false(trained[n->g->nodes[1].weight]);
}

static grail_status create(void *context)
{
    const bool all[HAND_PARAMETERS] = {true, true, true, true};
    hand_training *h = context;
    optimizer *o = NULL;
    OWNED(parameter_store) *store = NULL;
    grail_status status =
        parameter_store_create(&h->n.model, backend_reference(), h->n.store, &store);
    if (status == GRAIL_OK) {
        status = optimizer_create(h->n.g, store, all, &o);
    }
    optimizer_free(o);
    return status;
}

TEST(failing_allocations_are_survived)
{
    OWNED(hand_training) h;
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_BF16);
    support_fail_each_allocation(create, &h);
}

/* -- parts ------------------------------------------------------------------------------------- */

enum { PARTS = 5 };

/* What all ranks leave for the caller. */
typedef struct gathered {
    double of[RANKS_MOST][HAND_PARAMETERS][HAND_MOST];
} gathered;

/* Two steps of five parts each, one part of each rank at a time. */
static int step_in_parts(const grail_comm *comm, void *user)
{
    gathered *out = user;
    OWNED(hand_training) h;
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_F32);
    for (int step = 0; step < 2; step++) {
        for (int first = 0; first < PARTS; first += comm->size) {
            const int ranks = PARTS - first < comm->size ? PARTS - first : comm->size;
            if (comm->rank < ranks) {
                add_gradients(&h, step * PARTS + first + comm->rank);
            }
            assert_ok(optimizer_add_parts(h.o, comm, ranks));
        }
        assert_ok(optimizer_take_sums(h.o, comm));
        assert_ok(optimizer_step(h.o, 0.01));
    }
    for (int p = 0; p < HAND_PARAMETERS; p++) {
        hand_values(&h, p, out->of[comm->rank][p]);
    }
    return 0;
}

TEST(any_number_of_ranks_takes_the_same_steps)
{
    gathered *one = ranks_shared(sizeof *one);
    gathered *many = ranks_shared(sizeof *many);
    int ended[RANKS_MOST];
    ranks_run(1, step_in_parts, one, ended);
    assert_int_equal(ended[0], 0);
    for (int size = 2; size <= PARTS + 1; size++) {
        ranks_run(size, step_in_parts, many, ended);
        for (int rank = 0; rank < size; rank++) {
            assert_int_equal(ended[rank], 0);
            assert_memory_equal(many->of[rank], one->of[0], sizeof one->of[0]);
        }
    }
}

/* The sum of the parts, and no trace of a step that failed half-way. */
TEST(parts_add_up)
{
    OWNED(hand_training) h;
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_F32);
    add_gradients(&h, 7);
    assert_ok(optimizer_add_parts(h.o, NULL, 1));
    assert_ok(optimizer_restart(h.o));
    for (int part = 0; part < 3; part++) {
        add_gradients(&h, part);
        assert_ok(optimizer_add_parts(h.o, NULL, 1));
    }
    assert_ok(optimizer_take_sums(h.o, NULL));
    for (int p = 0; p < HAND_PARAMETERS; p++) {
        double sums[HAND_MOST];
        assert_ok(matrix_download(gradient_of(h.o->gradients, p), sums));
        for (int64_t i = 0; i < hand_count(&h, p); i++) {
            const double expected =
                gradient_at(0, p, i) + gradient_at(1, p, i) + gradient_at(2, p, i);
            assert_true(fabs(sums[i] - expected) < 1e-12);
        }
    }
}

/* What Linears multiply by is `times` the values, in bf16. */
static void assert_ordered(const hand_training *h, double times)
{
    float ordered[HAND_MOST];
    double values[HAND_MOST];
    matrix weight = no_matrix;
    assert_ok(parameter_store_get_weight(h->store, WEIGHT, &weight));
    assert_true(matrix_is_ordered(weight));
    hand_values(h, WEIGHT, values);
    assert_ok(matrix_download_f32(weight, ordered));
    for (int64_t i = 0; i < hand_count(h, WEIGHT); i++) {
        const double expected = times * values[i];
        assert_true(fabs((double)ordered[i] - expected) <= 0x1p-8 * fabs(expected));
    }
}

TEST(ordered_weights_are_those_of_the_last_change)
{
    OWNED(backend) *b = NULL;
    const grail_status status = backend_open("cpu", &(backend_options){.precision = "bf16"}, &b);
    if (status == GRAIL_ERROR_UNSUPPORTED) {
        skip();
    }
    assert_ok(status);
    OWNED(hand_training) h;
    hand_training_init(&h, b, GRAIL_DTYPE_F32);
    assert_ok(optimizer_order_weights(h.o, h.n.g));
    assert_ordered(&h, 1.0);
    assert_false(matrix_exists(h.store->entries[BIAS].ordered));
    const matrix weight = h.store->entries[WEIGHT].values;
    assert_ok(matrix_add(weight, weight, weight));
    assert_ok(optimizer_order_weights(h.o, h.n.g)); /* nobody has told of it */
    assert_ordered(&h, 0.5);
    assert_ok(optimizer_step(h.o, 0.0));
    assert_ok(optimizer_order_weights(h.o, h.n.g));
    assert_ordered(&h, 1.0);
}

/* A backend without an order of its own multiplies by the values, and so does one that was told of
 * none. */
TEST(values_that_change_are_ordered_where_that_is_asked_for)
{
    OWNED(hand_training) h;
    hand_training_init(&h, backend_reference(), GRAIL_DTYPE_F32);
    assert_ok(optimizer_order_weights(h.o, h.n.g));
    assert_false(matrix_exists(h.store->entries[WEIGHT].ordered));
}
