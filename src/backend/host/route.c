/* Routers: which outputs each row takes, and their shares. */
#include "backend/host/host.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* What a router makes of a row, with room for one. */
typedef struct choice {
    const route_attributes *how;
    matrix added; /* [1, outputs] to what is chosen by; or no matrix */
    int64_t outputs;
    double *rank;   /* [outputs]: what is chosen by, -infinity outside of the chosen groups */
    double *part;   /* [outputs] */
    double *scores; /* [outputs] */
    double *dy;     /* [outputs] */
    double *sum;    /* [groups] */
    int64_t *order; /* [outputs]: of the largest so far */
    bool *taken;    /* [outputs]: the chosen ones */
    bool *group;    /* [groups]: the chosen ones */
} choice;

static void choice_fini(choice *c)
{
    memory_free(c->rank);
    memory_free(c->order);
    memory_free(c->taken);
}

static grail_status choice_init(const operation *o, choice *c)
{
    const route_attributes *how = o->with.route;
    *c = (choice){.how = how, .added = o->m[1], .outputs = o->m[0].columns};
    CHECK(memory_new(&c->rank, (size_t)(4 * c->outputs + how->groups), sizeof c->rank[0]));
    c->part = c->rank + c->outputs;
    c->scores = c->part + c->outputs;
    c->dy = c->scores + c->outputs;
    c->sum = c->dy + c->outputs;
    CHECK(memory_new(&c->order, (size_t)c->outputs, sizeof c->order[0]));
    CHECK(memory_new(&c->taken, (size_t)(c->outputs + how->groups), sizeof c->taken[0]));
    c->group = c->taken + c->outputs;
    return GRAIL_OK;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* taken[n] <- whether each value is among the `most` largest, of equal ones the first. order[n] is
 * room for the indices of the largest so far, in their order. */
static void take_largest(int64_t n, const double *values, int64_t most, int64_t *order, bool *taken)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = count;
        taken[i] = false;
        if (count == most && !(values[i] > values[order[most - 1]])) {
            continue;
        }
        while (at > 0 && values[i] > values[order[at - 1]]) {
            at--;
        }
        if (count == most) {
            taken[order[--count]] = false;
        }
        memmove(order + at + 1, order + at, (size_t)(count - at) * sizeof order[0]);
        order[at] = i;
        taken[i] = true;
        count++;
    }
}

static void leave_groups(const choice *c)
{
    const int64_t size = c->outputs / c->how->groups;
    for (int64_t g = 0; g < c->how->groups; g++) {
        const double *own = c->rank + g * size;
        take_largest(size, own, c->how->best, c->order, c->taken);
        c->sum[g] = 0.0;
        for (int64_t i = 0; i < size; i++) {
            c->sum[g] += c->taken[i] ? own[i] : 0.0;
        }
    }
    take_largest(c->how->groups, c->sum, c->how->chosen_groups, c->order, c->group);
    for (int64_t o = 0; o < c->outputs; o++) {
        if (!c->group[o / size]) {
            c->rank[o] = -HUGE_VAL;
        }
    }
}

/* taken[outputs] <- the chosen ones; part[outputs] <- each output's part of what the row's shares
 * are parts of, 0 elsewhere */
static void find_parts(choice *c)
{
    double sum = 0.0;
    const double *scores = c->scores;
    double largest = scores[0];
    for (int64_t o = 0; o < c->outputs; o++) {
        largest = fmax(largest, scores[o]);
        c->rank[o] = c->how->sigmoid ? sigmoid(scores[o]) : scores[o];
        c->rank[o] += c->added.memory == NULL ? 0.0 : host_number(c->added, 0, o);
    }
    if (c->how->groups > 0) {
        leave_groups(c);
    }
    take_largest(c->outputs, c->rank, c->how->chosen, c->order, c->taken);
    for (int64_t o = 0; o < c->outputs; o++) {
        const bool counts = c->how->over_all || c->taken[o];
        const double size = c->how->sigmoid ? sigmoid(scores[o]) : exp(scores[o] - largest);
        c->part[o] = counts ? size : 0.0;
        sum += c->part[o];
    }
    const double divisor = c->how->sigmoid && c->how->over_all ? 1.0 : sum;
    for (int64_t o = 0; o < c->outputs; o++) {
        c->part[o] /= divisor;
    }
}

static double scale_of(const choice *c)
{
    return c->how->scale == 0.0 ? 1.0 : c->how->scale;
}

static void read_row(matrix m, int64_t row, double *out)
{
    for (int64_t o = 0; o < m.columns; o++) {
        out[o] = host_number(m, row, o);
    }
}

static void write_number(matrix m, int64_t row, int64_t column, double value)
{
    void *element = host_element(m, row, column);
    if (m.type == GRAIL_DTYPE_F64) {
        *(double *)element = value;
    } else {
        *(float *)element = (float)value;
    }
}

grail_status host_route(const operation *o)
{
    const int64_t *order = o->with.columns;
    choice c;
    grail_status status = choice_init(o, &c);
    for (int64_t r = 0; status == GRAIL_OK && r < o->m[0].rows; r++) {
        read_row(o->m[0], r, c.scores);
        find_parts(&c);
        for (int64_t i = 0; i < c.outputs; i++) {
            const int64_t of = order == NULL ? i : order[i];
            write_number(o->m[2], r, i, c.taken[of] ? scale_of(&c) * c.part[of] : 0.0);
        }
    }
    choice_fini(&c);
    return status;
}

/* With the parts p, which are s exp(score) or s sigmoid(score) and sum to 1 over what counts:
 * gradient_o = p_o (dy_o - sum p dy), for a sigmoid times 1 - sigmoid(score_o); where its share is
 * the sigmoid itself, nothing is subtracted. The gradient takes the place of dy[outputs], which is
 * 0 where nothing is chosen. */
static void turn_gradient(choice *c)
{
    double sum = 0.0;
    double *dy = c->dy;
    find_parts(c);
    for (int64_t o = 0; o < c->outputs && !(c->how->sigmoid && c->how->over_all); o++) {
        sum += c->part[o] * dy[o];
    }
    for (int64_t o = 0; o < c->outputs; o++) {
        const double inner = c->how->sigmoid ? 1.0 - sigmoid(c->scores[o]) : 1.0;
        dy[o] = scale_of(c) * c->part[o] * (dy[o] - sum) * inner;
    }
}

grail_status host_route_gradient(const operation *o)
{
    choice c;
    grail_status status = choice_init(o, &c);
    for (int64_t r = 0; status == GRAIL_OK && r < o->m[0].rows; r++) {
        read_row(o->m[0], r, c.scores);
        read_row(o->m[2], r, c.dy);
        turn_gradient(&c);
        for (int64_t i = 0; i < c.outputs; i++) {
            write_number(o->m[3], r, i, c.dy[i]);
        }
    }
    choice_fini(&c);
    return status;
}
