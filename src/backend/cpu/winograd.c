#include "backend/cpu/winograd.h"

#include "backend/cpu/kernels.h"
#include "backend/cpu/packing.h"
#include "backend/cpu/panels.h"
#include "backend/cpu/tasks.h"
#include "base/clones.h"

#include <string.h>

enum {
    TAP_SIDE = 3,
    TAPS = TAP_SIDE * TAP_SIDE,
    MADE = 4, /* outputs of a square, along each axis */
    SIDE = MADE + TAP_SIDE - 1,
    PLANES = SIDE * SIDE,
    LANES = PANEL_VECTOR,
    SCRATCH = 1 << 18, /* floats of the squares that one thread holds, if there are LEAST_SQUARES */
    LEAST_SQUARES = 28
};

/* The points at which polynomials are evaluated: 0, +-A, +-B and infinity. These keep what is
 * rounded smaller than 0, +-1 and +-2 do, and are sums of few powers of two. */
#define A 0.625F
#define B 1.5F
#define A2 (A * A)
#define B2 (B * B)

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));

/* Weights of `out` outputs and `in` inputs lie `out_step` and `in_step` apart; those of a gradient
 * are turned by half a circle. */
typedef struct filter {
    const float *weight;
    int64_t out, in, out_step, in_step;
    bool turned;
} filter;

typedef struct job {
    const panel_kernels *kernels;
    conv_shape shape;
    filter filter;
    const float *x, *bias;
    float *y;
    bool accumulate;
    float ceiling;
    int64_t down, across;        /* squares of a sample */
    int64_t at_once;             /* squares of one task */
    int64_t in_width, out_width; /* channels, rounded up to whole vectors */
    /* Floats of a plane; not a power of two, whose lines would share few sets of the caches. */
    int64_t filter_plane, read_plane, made_plane;
    float *filters; /* [PLANES][panels of outputs][in][outputs of the panel] */
} job;

static int64_t whole_vectors(int64_t channels)
{
    return (channels + LANES - 1) / LANES * LANES;
}

static void load(const float *from, int64_t count, lanes *out)
{
    if (count >= LANES) {
        memcpy(out, from, sizeof *out);
    } else {
        memset(out, 0, sizeof *out);
        memcpy(out, from, (size_t)count * sizeof *from);
    }
}

static void store(const lanes *value, int64_t count, float *to)
{
    if (count >= LANES) {
        memcpy(to, value, sizeof *value);
    } else {
        memcpy(to, value, (size_t)count * sizeof *to);
    }
}

/* M[squares, outputs] = V[squares, in] U[in, outputs] of each plane */
static void multiply(const job *j, const float *read, float *made)
{
    const panel_kernels *k = j->kernels;
    for (int64_t plane = 0; plane < PLANES; plane++) {
        const float *u = j->filters + plane * j->filter_plane;
        for (int64_t first = 0; first < j->out_width; first += k->width) {
            const int64_t width = smaller(k->width, j->out_width - first);
            for (int64_t row = 0; row < j->at_once; row += k->rows) {
                k->of_vectors[width / LANES - 1](&(panel_operands){
                    .k = j->filter.in,
                    .a = read + plane * j->read_plane + row * j->in_width,
                    .a_row = j->in_width,
                    .a_step = 1,
                    .b = u + first * j->filter.in,
                    .b_step = width,
                    .c = made + plane * j->made_plane + row * j->out_width + first,
                    .c_step = j->out_width});
            }
        }
    }
}

/* -- from taps, inputs and products to squares and back, along one axis -------------------------
 */

static inline void turn_taps(const lanes g[TAP_SIDE], lanes out[SIDE])
{
    const lanes at_a = (g[0] + A2 * g[2]) * (1.0F / (2.0F * A2 * (A2 - B2)));
    const lanes at_b = (g[0] + B2 * g[2]) * (1.0F / (2.0F * B2 * (B2 - A2)));
    const lanes odd_a = g[1] * (A / (2.0F * A2 * (A2 - B2)));
    const lanes odd_b = g[1] * (B / (2.0F * B2 * (B2 - A2)));
    out[0] = g[0] * (1.0F / (A2 * B2));
    out[1] = at_a + odd_a;
    out[2] = at_a - odd_a;
    out[3] = at_b + odd_b;
    out[4] = at_b - odd_b;
    out[5] = g[2];
}

static inline void turn_inputs(const lanes d[SIDE], lanes out[SIDE])
{
    const lanes at_a = d[4] - B2 * d[2];
    const lanes odd_a = A * (d[3] - B2 * d[1]);
    const lanes at_b = d[4] - A2 * d[2];
    const lanes odd_b = B * (d[3] - A2 * d[1]);
    out[0] = A2 * B2 * d[0] - (A2 + B2) * d[2] + d[4];
    out[1] = at_a + odd_a;
    out[2] = at_a - odd_a;
    out[3] = at_b + odd_b;
    out[4] = at_b - odd_b;
    out[5] = A2 * B2 * d[1] - (A2 + B2) * d[3] + d[5];
}

static inline void turn_products(const lanes m[SIDE], lanes out[MADE])
{
    const lanes even_a = m[1] + m[2];
    const lanes even_b = m[3] + m[4];
    const lanes odd_a = A * (m[1] - m[2]);
    const lanes odd_b = B * (m[3] - m[4]);
    out[0] = m[0] + even_a + even_b;
    out[1] = odd_a + odd_b;
    out[2] = A2 * even_a + B2 * even_b;
    out[3] = A2 * odd_a + B2 * odd_b + m[5];
}

/* taps[run * TAPS, LANES] of the inputs c .. c + run - 1 and of LANES outputs from `first` on. */
static void gather_taps(const filter *f, int64_t c, int64_t run, int64_t first, float *taps)
{
    const packing p = {.rows = smaller(LANES, f->out - first),
                       .height = LANES,
                       .length = run * TAPS,
                       .full_length = run * TAPS,
                       .row_step = f->out_step,
                       .step = 1};
    const float *from = f->weight + first * f->out_step + c * f->in_step;
    if (pack_f32(&p, from, taps)) {
        return;
    }
    memset(taps, 0, (size_t)(p.length * LANES) * sizeof *taps);
    for (int64_t i = 0; i < p.rows * p.length; i++) {
        taps[i % p.length * LANES + i / p.length] = from[i / p.length * p.row_step + i % p.length];
    }
}

/* The squares of one input's taps for LANES outputs. */
CPU_CLONES static void turn_filter(const float *taps, bool turned, int64_t plane, float *to)
{
    lanes half[TAP_SIDE][SIDE];
    for (int row = 0; row < TAP_SIDE; row++) {
        lanes g[TAP_SIDE];
        for (int column = 0; column < TAP_SIDE; column++) {
            const int k = row * TAP_SIDE + column;
            memcpy(&g[column], taps + (turned ? TAPS - 1 - k : k) * LANES, sizeof g[column]);
        }
        turn_taps(g, half[row]);
    }
    for (int column = 0; column < SIDE; column++) {
        const lanes g[TAP_SIDE] = {half[0][column], half[1][column], half[2][column]};
        lanes out[SIDE];
        turn_taps(g, out);
        for (int row = 0; row < SIDE; row++) {
            memcpy(to + (row * SIDE + column) * plane, &out[row], sizeof out[row]);
        }
    }
}

/* LANES outputs, and all inputs. */
static void turn_filters(int64_t task, int64_t worker, float *taps, void *context)
{
    (void)worker;
    const job *j = context;
    const filter *f = &j->filter;
    const int64_t first = task * LANES;
    const int64_t panel = j->kernels->width;
    const int64_t of_panel = first / panel * panel;
    const int64_t width = smaller(panel, j->out_width - of_panel);
    const int64_t run = f->in_step == TAPS ? f->in : 1; /* inputs whose taps are contiguous */
    float *to = j->filters + of_panel * f->in + first - of_panel;
    for (int64_t c = 0; c < f->in; c++) {
        if (c % run == 0) {
            gather_taps(f, c, run, first, taps);
        }
        turn_filter(taps + c % run * TAPS * LANES, f->turned, j->filter_plane, to + c * width);
    }
}

/* Where a square lies: its sample, and the first of its inputs and outputs. */
typedef struct square {
    int64_t sample, row, column;
} square;

static square square_at(const job *j, int64_t index)
{
    const int64_t within = index % (j->down * j->across);
    return (square){index / (j->down * j->across), within / j->across * MADE,
                    within % j->across * MADE};
}

/* v[plane][in] of one square; what lies outside of the image is 0. */
CPU_CLONES static void read_square(const job *j, square at, float *v)
{
    const conv_shape *s = &j->shape;
    const int64_t channels = s->channels_in;
    const int64_t row = at.row - s->window.height.before;
    const int64_t column = at.column - s->window.width.before;
    const float *sample = j->x + at.sample * s->in.height * s->in.width * channels;
    for (int64_t c = 0; c < channels; c += LANES) {
        lanes half[SIDE][SIDE];
        for (int x = 0; x < SIDE; x++) {
            const bool inside = column + x >= 0 && column + x < s->in.width;
            lanes d[SIDE] = {{0}};
            for (int y = 0; y < SIDE; y++) {
                if (inside && row + y >= 0 && row + y < s->in.height) {
                    load(sample + ((row + y) * s->in.width + column + x) * channels + c,
                         channels - c, &d[y]);
                }
            }
            turn_inputs(d, half[x]);
        }
        for (int y = 0; y < SIDE; y++) {
            lanes d[SIDE];
            lanes out[SIDE];
            for (int x = 0; x < SIDE; x++) {
                d[x] = half[x][y];
            }
            turn_inputs(d, out);
            for (int x = 0; x < SIDE; x++) {
                memcpy(v + (y * SIDE + x) * j->read_plane + c, &out[x], sizeof out[x]);
            }
        }
    }
}

/* The outputs of one square from m[plane][out], as far as the image goes. */
CPU_CLONES static void write_square(const job *j, square at, const float *m)
{
    const conv_shape *s = &j->shape;
    const int64_t channels = s->channels_out;
    const int64_t rows = smaller(MADE, s->out.height - at.row);
    const int64_t columns = smaller(MADE, s->out.width - at.column);
    float *sample = j->y + at.sample * s->out.height * s->out.width * channels;
    for (int64_t c = 0; c < channels; c += LANES) {
        lanes bias = {0};
        lanes half[SIDE][MADE];
        if (j->bias != NULL) {
            load(j->bias + c, channels - c, &bias);
        }
        for (int x = 0; x < SIDE; x++) {
            lanes d[SIDE];
            for (int y = 0; y < SIDE; y++) {
                memcpy(&d[y], m + (y * SIDE + x) * j->made_plane + c, sizeof d[y]);
            }
            turn_products(d, half[x]);
        }
        for (int y = 0; y < rows; y++) {
            lanes d[SIDE];
            lanes out[MADE];
            for (int x = 0; x < SIDE; x++) {
                d[x] = half[x][y];
            }
            turn_products(d, out);
            for (int x = 0; x < columns; x++) {
                float *to = sample + ((at.row + y) * s->out.width + at.column + x) * channels + c;
                lanes value = out[x] + bias;
                if (j->accumulate) {
                    lanes before;
                    load(to, channels - c, &before);
                    value += before;
                }
                store(&value, channels - c, to);
            }
        }
    }
    for (int64_t y = 0; j->ceiling != 0.0F && y < rows; y++) {
        cpu_limit(columns * channels, j->ceiling,
                  sample + ((at.row + y) * s->out.width + at.column) * channels);
    }
}

static void make_squares(int64_t task, int64_t worker, float *scratch, void *context)
{
    (void)worker;
    const job *j = context;
    const int64_t all = j->shape.samples * j->down * j->across;
    const int64_t first = task * j->at_once;
    const int64_t count = smaller(j->at_once, all - first);
    float *read = scratch;
    float *made = scratch + PLANES * j->read_plane;
    for (int64_t i = 0; i < count; i++) {
        read_square(j, square_at(j, first + i), read + i * j->in_width);
    }
    for (int64_t plane = 0; count < j->at_once && plane < PLANES; plane++) {
        memset(read + plane * j->read_plane + count * j->in_width, 0,
               (size_t)((j->at_once - count) * j->in_width) * sizeof *read);
    }
    multiply(j, read, made);
    for (int64_t i = 0; i < count; i++) {
        write_square(j, square_at(j, first + i), made + i * j->out_width);
    }
}

static grail_status run(job *j)
{
    grail_status status = GRAIL_OK;
    const conv_shape *s = &j->shape;
    const int64_t rows = j->kernels->rows;
    int64_t at_once = 0;
    j->down = (s->out.height + MADE - 1) / MADE;
    j->across = (s->out.width + MADE - 1) / MADE;
    j->in_width = whole_vectors(s->channels_in);
    j->out_width = whole_vectors(s->channels_out);
    j->filter_plane = s->channels_in * j->out_width + LANES;
    at_once = SCRATCH / (PLANES * (j->in_width + j->out_width));
    at_once = at_once < LEAST_SQUARES ? LEAST_SQUARES : at_once;
    j->at_once = (at_once + rows - 1) / rows * rows;
    j->read_plane = j->at_once * j->in_width + LANES;
    j->made_plane = j->at_once * j->out_width + LANES;
    const int64_t all = s->samples * j->down * j->across;
    TRY(memory_new_unset(&j->filters, (size_t)(PLANES * j->filter_plane), sizeof *j->filters));
    TRY(tasks_run(j->out_width / LANES, (size_t)(s->channels_in * TAPS * LANES), turn_filters, j));
    TRY(tasks_run((all + j->at_once - 1) / j->at_once,
                  (size_t)(PLANES * (j->read_plane + j->made_plane)), make_squares, j));
out:
    memory_free(j->filters);
    return status;
}

/* -- which convolutions, and their gradients ----------------------------------------------------
 */

/* No output is made of padding alone: it would not be exactly 0. */
static bool moves_by_one(const window_axis *a)
{
    return a->kernel == TAP_SIDE && a->stride == 1 && a->dilation == 1 && a->before >= 0 &&
           a->before < TAP_SIDE && a->behind >= 0 && a->behind < TAP_SIDE;
}

bool winograd_suits(const conv_shape *s)
{
    /* With fewer channels turning to squares and back costs more than it saves; with fewer
     * positions, or a larger weight, squares of weights do. */
    enum { LEAST_CHANNELS = 32, LEAST_POSITIONS = 49, WEIGHTS_OF_POSITION = 1024, MOST = 1 << 18 };
    const int64_t positions = s->out.height * s->out.width;
    const int64_t weights = s->channels_in * s->channels_out;
    return moves_by_one(&s->window.height) && moves_by_one(&s->window.width) &&
           conv_groups(s) == 1 && s->channels_in >= LEAST_CHANNELS &&
           s->channels_out >= LEAST_CHANNELS && positions >= LEAST_POSITIONS &&
           positions * WEIGHTS_OF_POSITION >= weights && weights <= MOST &&
           panel_kernels_suitable() != NULL;
}

grail_status winograd_convolve(const conv_shape *s, const float *x, const float *weight,
                               const float *bias, bool accumulate, double ceiling, float *y)
{
    job j = {.kernels = panel_kernels_suitable(),
             .shape = *s,
             .filter = {.weight = weight,
                        .out = s->channels_out,
                        .in = s->channels_in,
                        .out_step = s->channels_in * TAPS,
                        .in_step = TAPS},
             .x = x,
             .bias = bias,
             .y = y,
             .accumulate = accumulate,
             .ceiling = (float)ceiling};
    return run(&j);
}

/* dX is dY under the turned window, with as much padding as lets it reach each output that read a
 * position. */
static conv_shape backwards(const conv_shape *s)
{
    conv_shape back = *s;
    back.in = s->out;
    back.out = s->in;
    back.channels_in = s->channels_out;
    back.channels_out = s->channels_in;
    back.window.height.before = TAP_SIDE - 1 - s->window.height.before;
    back.window.width.before = TAP_SIDE - 1 - s->window.width.before;
    back.window.height.behind = TAP_SIDE - 1 - s->window.height.behind;
    back.window.width.behind = TAP_SIDE - 1 - s->window.width.behind;
    return back;
}

bool winograd_suits_gradient(const conv_shape *s)
{
    const conv_shape back = backwards(s);
    return winograd_suits(&back);
}

grail_status winograd_input_gradient(const conv_shape *s, const float *weight, const float *dy,
                                     float *dx)
{
    job j = {.kernels = panel_kernels_suitable(),
             .shape = backwards(s),
             .filter = {.weight = weight,
                        .out = s->channels_in,
                        .in = s->channels_out,
                        .out_step = TAPS,
                        .in_step = s->channels_in * TAPS,
                        .turned = true},
             .x = dy,
             .y = dx};
    return run(&j);
}
