/* The operations of a backend, on matrices of one instance: matrix_NAME for each row of
 * operation_list.h, which says what it computes. Each returns a status: a kernel may lack memory,
 * and an instance on a device may fail at any time. What an instance leaves out is done on the
 * host.
 *
 * `values` have the instance's precision and are packed; statistics and dense algebra are f64, with
 * any row stride. A matrix that may be missing is given as no_matrix. */
#ifndef GRAIL_BACKEND_OPERATIONS_H
#define GRAIL_BACKEND_OPERATIONS_H

#include "backend/backend.h"
#include "graph/attributes.h"

static const matrix no_matrix = {0};

enum { WATCH_TEXT = 320 };

/** matrix_cholesky_solve gives the same bits for a run of rows as for all, where it begins at a
 * multiple of these rows, and ends at one or with the last row. */
enum { SOLVED_ROWS = 128 };

/** Attention over sequences of equal length laid one after the other. */
typedef struct attention_shape {
    int64_t sequences;
    int64_t length;      /* rows = sequences * length */
    int64_t query_heads; /* query head h reads key/value head h / (query_heads / kv_heads) */
    int64_t kv_heads;
    int64_t head_dim;
    int64_t window;     /* row i sees rows j with i - window < j <= i; 0 = no window */
    bool bidirectional; /* row i also sees the rows after it, with a window those j < i + window */
    double scale;       /* of the scores, head_dim^-0.5 for most */
    double cap;         /* of scaled scores s, cap tanh(s / cap); 0: none */
    int64_t value_dim;  /* of each head of V and OUT; 0: head_dim */
    int64_t earlier;    /* rows that each sequence has in K and V before those of Q */
    int64_t room;       /* rows from one sequence to the next in K and V, of which the first
                           earlier + length count; 0: so many */
} attention_shape;

static inline int64_t attention_value_dim(const attention_shape *s)
{
    return s->value_dim == 0 ? s->head_dim : s->value_dim;
}

/** Rows of K and V that each sequence has, and from one to the next. */
static inline int64_t attention_keys(const attention_shape *s)
{
    return s->earlier + s->length;
}

static inline int64_t attention_room(const attention_shape *s)
{
    return s->room == 0 ? attention_keys(s) : s->room;
}

/** Where biases of scores lie: of P positions either [query_heads, 2 P - 1], for each distance of
 * the key from the query from -(P - 1) on, or [windows * query_heads * P, P] for each query and
 * key, of sequence s those of window s % windows. The bias of window w, head h, query i and key j
 * is at w * window + h * head + first + i * step + j. */
typedef struct bias_places {
    int64_t windows, window, head, first, step;
} bias_places;

static inline bool attention_goes_by_distance(const attention_shape *s, matrix biases)
{
    return biases.rows == s->query_heads;
}

static inline bias_places attention_bias_places(const attention_shape *s, matrix biases)
{
    const int64_t columns = biases.columns;
    if (attention_goes_by_distance(s, biases)) {
        return (bias_places){1, 0, columns, (columns - 1) / 2 - s->earlier, -1};
    }
    const int64_t window = s->query_heads * columns * columns;
    return (bias_places){.windows = window > 0 ? biases.rows * columns / window : 1,
                         .window = window,
                         .head = columns * columns,
                         .first = s->earlier * columns,
                         .step = columns};
}

/** Images X[samples * height * width, in], channel last, and the output of a window that moves over
 * them. */
typedef struct conv_shape {
    int64_t samples;
    extent in, out; /* positions; out as window_positions says */
    int64_t channels_in, channels_out;
    window2d window;
    int64_t groups; /* of a convolution: equal runs of outputs, each made of the same run of the
                       channels of X alone; 0: one */
} conv_shape;

static inline int64_t conv_groups(const conv_shape *s)
{
    return s->groups > 1 ? s->groups : 1;
}

/** Rotary embedding of rows at positions first, first + 1, ... by their number times
 * frequency[turned / 2], or by angles[first + length, turned / 2] where there are some. */
typedef struct rope_shape {
    int64_t sequences, length;
    int64_t first; /* position of each sequence's first row */
    int64_t head_dim;
    int64_t turned; /* the first features of each head, an even number; the others stay */
    double factor;  /* of what is turned */
    bool backward;  /* rotates by the negative angles, which takes a rotation back and gives the
                       gradient of one */
    const double *frequency;
    const double *angles; /* NULL: none */
    bool neighbours;      /* features 2 k and 2 k + 1 are a pair; else k and turned / 2 + k */
} rope_shape;

/** The angle of pair k in row `row` of a sequence. */
static inline double rope_angle(const rope_shape *s, int64_t row, int64_t k)
{
    const int64_t position = s->first + row;
    return s->angles != NULL ? s->angles[position * (s->turned / 2) + k]
                             : (double)position * s->frequency[k];
}

/** What is taken as the value of a unit with blocks A and M (matrix_unit_values). */
typedef enum unit_value {
    VALUE_EXACT,   /* tr(A^-1 M) */
    VALUE_CHOLESKY /* sum_i M_ii / L_ii^2 with A = L L^T */
} unit_value;

/** Copies of positions: of X[samples * in positions, c] and Y[samples * out positions, .]. */
typedef struct position_shape {
    int64_t samples;
    extent in, out;
    window2d window;
    int64_t pad; /* zeros before and behind a position's channels */
} position_shape;

/** What the logits x of a row add up to, in f64. */
typedef struct entropy_sums {
    double largest; /* max_v x[v] */
    double total;   /* sum_v exp(x[v] - largest) */
    double target;  /* x[target], set by the panel that holds it */
} entropy_sums;

/** One step of gradient descent whose length is adapted to each element: Adam (Kingma and Ba 2015),
 * and without first moments RMSprop. */
typedef struct descent {
    double rate;
    double first_decay, second_decay; /* of the moments; first_decay 0: no first moments */
    double first_share, second_share; /* by which the moments are divided: 1 - decay^step, or 1 */
    int64_t steps; /* with this one, where both shares are 1 - decay^steps; else 0 */
    double epsilon;
} descent;

#define OPERATION(name, matrices, parameters, ...)                                                 \
    grail_status matrix_##name parameters GRAIL_MUST_CHECK;
#include "backend/operation_list.h"

/** Looks for NaN and infinity in a product or in rows, without waiting for a device: a fault is
 * GRAIL_ERROR_NUMERIC, "TEXT at row R, feature F", features counted from `first`. An instance on
 * the host tells it at once; else backend_settle does. */
grail_status matrix_watch(matrix x, int64_t first, const char *text) GRAIL_MUST_CHECK;
/** Ends what the calling thread has watched on the instance since it did that last, by one reading
 * of the device: returns the first fault where `status` is GRAIL_OK or GRAIL_ERROR_NUMERIC, which
 * may come of it, else `status`. Due before any result of what was watched is used, and after a
 * failure. */
grail_status backend_settle(backend *b, grail_status status) GRAIL_MUST_CHECK;
/** The same, which also reads numbers[count], matrices of one f64, to values[count]; both have room
 * for one more. */
grail_status backend_settle_reading(backend *b, grail_status status, int count, matrix *numbers,
                                    double *values) GRAIL_MUST_CHECK;
/** Until the next call, what this thread watches begins with "TEXT: " where it is told later, as
 * error_in puts it before what is told at once; NULL: with nothing. Borrowed. */
void watch_in(const char *text);

/** *out: all of these matrices are finite, or their lower triangles, by one reading of a device.
 * Where one is not, and on the host, where a search waits for nothing, it is false: then each is
 * searched. Those that do not exist are left out; the first one does. */
grail_status matrices_are_finite(int count, const matrix *m, const bool *lower,
                                 bool *out) GRAIL_MUST_CHECK;

/** min(1, max(0, 1 - gap / target)), and 1 where the target is 0. */
double share_of_gap(double gap, double target);
/** log(sum_v exp(x[v])) - x[target] of a row whose classes have all been added. */
double entropy_of(const entropy_sums *sums);
/** diagonal[n] of A[n, n], on the host. */
grail_status matrix_download_diagonal(matrix a, double *diagonal) GRAIL_MUST_CHECK;

#endif
