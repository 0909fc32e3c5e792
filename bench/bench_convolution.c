/* A convolution of 3 x 3 windows by squares beside oneDNN's sums over taps: --samples 32 --channels
 * 64
 * --outputs 64 --side 32 --gradient 0 (1: that of the input) --runs 5 --threads N. Both count the
 * products of sums over taps; `faster` is oneDNN's time over that of squares, and `apart` the root
 * mean square of what they differ by, in shares of the outputs'. */
#include "bench.h"

#include "backend/cpu/onednn.h"
#include "backend/cpu/winograd.h"
#include "backend/host/host.h"

#include <math.h>

typedef struct convolution_case {
    conv_shape shape;
    matrix x, weight, squares, taps;
    bool gradient; /* x is dY, and as many channels go in as out */
} convolution_case;

static void by_squares(void *context)
{
    const convolution_case *c = context;
    const float *x = c->x.memory;
    const float *w = c->weight.memory;
    bench_check(c->gradient
                    ? winograd_input_gradient(&c->shape, w, x, c->squares.memory)
                    : winograd_convolve(&c->shape, x, w, NULL, false, 0.0, c->squares.memory));
}

static void by_taps(void *context)
{
    const convolution_case *c = context;
    const float *x = c->x.memory;
    const float *w = c->weight.memory;
    bench_check(c->gradient ? onednn_input_gradient(&c->shape, w, x, c->taps.memory)
                            : onednn_convolve(&c->shape, x, w, NULL, false, 0.0, c->taps.memory));
}

static double apart(const convolution_case *c)
{
    const float *a = c->squares.memory;
    const float *b = c->taps.memory;
    double difference = 0.0;
    double energy = 0.0;
    for (int64_t i = 0; i < matrix_count(c->taps); i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        energy += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / energy);
}

int main(int count, char **arguments)
{
    bench_set_threads(count, arguments);
    const int64_t side = bench_option(count, arguments, "side", 32);
    const int64_t channels = bench_option(count, arguments, "channels", 64);
    const bool gradient = bench_option(count, arguments, "gradient", 0) != 0;
    convolution_case c = {
        .gradient = gradient,
        .shape = {.samples = bench_option(count, arguments, "samples", 32),
                  .in = {side, side},
                  .out = {side, side},
                  .channels_in = channels,
                  .channels_out =
                      gradient ? channels : bench_option(count, arguments, "outputs", 64),
                  .window = WINDOW2D(3, 3, 1, 1, 1)}};
    const conv_shape *s = &c.shape;
    const int64_t positions = s->samples * side * side;
    const int64_t row = s->channels_in * window_taps(&s->window);
    const double flops = 2.0 * (double)positions * (double)row * (double)s->channels_out;
    const int64_t runs = bench_option(count, arguments, "runs", 5);
    json_t *squares = json_object();
    json_t *taps = json_object();
    c.x = bench_normal_matrix(positions, s->channels_in, 1);
    c.weight = bench_normal_matrix(s->channels_out, row, 2);
    c.squares = bench_matrix(GRAIL_DTYPE_F32, positions, s->channels_out);
    c.taps = bench_matrix(GRAIL_DTYPE_F32, positions, s->channels_out);
    bench_run(squares, runs, flops, BENCH_SGEMM, NULL, by_squares, &c);
    bench_run(taps, runs, flops, BENCH_SGEMM, NULL, by_taps, &c);
    const double faster = json_number_value(json_object_get(taps, "seconds")) /
                          json_number_value(json_object_get(squares, "seconds"));
    bench_print(json_pack("{s:s, s:I, s:I, s:I, s:I, s:b, s:o, s:o, s:f, s:f}", "bench",
                          "convolution", "samples", (json_int_t)s->samples, "channels",
                          (json_int_t)s->channels_in, "outputs", (json_int_t)s->channels_out,
                          "side", (json_int_t)side, "suits", winograd_suits(s), "squares", squares,
                          "taps", taps, "faster", faster, "apart", apart(&c)));
    matrix_free(&c.x);
    matrix_free(&c.weight);
    matrix_free(&c.squares);
    matrix_free(&c.taps);
    return 0;
}
