/* Attention and its gradient. Scores are made for blocks of query rows. */
#include "backend/torch/kernels.h"

#include <math.h>

enum { MOST_SCORES = 1 << 24 }; /* of a block */

/* Rows of each of some sequences, which take `room`, seen as heads, of which key heads have one or
 * more each. */
typedef struct part {
    int64_t heads, begin, rows, room;
} part;

typedef struct block {
    torch_frame *f;
    const operation *o;
    const attention_shape *s;
    matrix sinks, biases; /* may be missing */
    int64_t sequence, sequences;
    part queries, keys; /* those that any of the queries sees */
} block;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* A query sees keys that are less than this away; all where there is no window. */
static int64_t reach_of(const attention_shape *s)
{
    return s->window == 0 ? attention_keys(s) : smaller(s->window, attention_keys(s));
}

static void set_rows(block *b, int64_t begin, int64_t end)
{
    const attention_shape *s = b->s;
    const int64_t first = larger(0, s->earlier + begin - reach_of(s) + 1);
    const int64_t last = s->earlier + end - 1;
    const int64_t seen =
        s->bidirectional ? smaller(attention_keys(s), last + reach_of(s)) : last + 1;
    b->queries = (part){s->query_heads, begin, end - begin, s->length};
    b->keys = (part){s->kv_heads, first, seen - first, attention_room(s)};
}

/* Runs a function on all blocks: rows of one sequence, or whole sequences. */
static void over_blocks(block b, void (*run)(const block *b))
{
    const attention_shape *s = b.s;
    const int before = b.f->count;
    if (s->length == 0 || s->query_heads == 0) {
        return;
    }
    const int64_t windows =
        matrix_exists(b.biases) ? attention_bias_places(s, b.biases).windows : 1;
    const int64_t rows = larger(1, MOST_SCORES / attention_keys(s) / s->query_heads);
    const int64_t sequences =
        rows / s->length >= windows ? larger(1, rows / s->length / windows * windows) : 1;
    for (b.sequence = 0; b.sequence < s->sequences; b.sequence += sequences) {
        b.sequences = smaller(sequences, s->sequences - b.sequence);
        for (int64_t begin = 0; begin < s->length && b.f->status == GRAIL_OK; begin += rows) {
            set_rows(&b, begin, smaller(begin + rows, s->length));
            run(&b);
            torch_forget(b.f, before);
        }
    }
}

/* -- heads --------------------------------------------------------------------------------------*/

/* A part of a matrix as [sequences, key heads, heads of each, rows, width]. */
static torch_tensor heads_of(const block *b, part p, matrix m)
{
    const int64_t width = m.columns / p.heads;
    const int64_t group = p.heads / b->s->kv_heads;
    return torch_view(b->f, matrix_rows(m, b->sequence * p.room + p.begin, p.rows), 5,
                      (int64_t[]){b->sequences, b->s->kv_heads, group, p.rows, width},
                      (int64_t[]){p.room * m.columns, group * width, width, m.columns, 1});
}

/* The same with a matrix for each key head, which products take. */
static torch_tensor stack_of(const block *b, part p, matrix m)
{
    return torch_call(b->f, "aten::reshape", "",
                      A_TENSOR(torch_widened(b->f, m, heads_of(b, p, m))),
                      INTEGERS(b->sequences * b->s->kv_heads, p.heads / b->s->kv_heads * p.rows,
                               m.columns / p.heads));
}

/* A stack that was computed, as heads_of has it. */
static torch_tensor parted(const block *b, part p, torch_tensor stack, int64_t width)
{
    return torch_call(
        b->f, "aten::view", "", A_TENSOR(stack),
        INTEGERS(b->sequences, b->s->kv_heads, p.heads / b->s->kv_heads, p.rows, width));
}

static torch_tensor turned(const block *b, torch_tensor stack)
{
    return torch_call(b->f, "aten::transpose", "int", A_TENSOR(stack), AN_INTEGER(1),
                      AN_INTEGER(2));
}

static torch_tensor product(const block *b, torch_tensor left, torch_tensor right)
{
    return torch_call(b->f, "aten::bmm", "", A_TENSOR(left), A_TENSOR(right));
}

static void multiply(const block *b, torch_tensor t, torch_tensor by)
{
    (void)torch_call(b->f, "aten::mul_", "Tensor", A_TENSOR(t), A_TENSOR(by));
}

static void store(const block *b, part p, torch_tensor stack, matrix m)
{
    torch_copy(b->f, parted(b, p, stack, m.columns / p.heads), heads_of(b, p, m));
}

/* Keys are seen by the queries of several blocks. */
static void add_to_keys(const block *b, torch_tensor stack, matrix m)
{
    const torch_tensor own = heads_of(b, b->keys, m);
    const torch_tensor more = parted(b, b->keys, stack, m.columns / b->keys.heads);
    torch_copy(b->f, torch_sum(b->f, own, more, 1.0), own);
}

/* -- weights ------------------------------------------------------------------------------------*/

typedef struct weights {
    torch_tensor queries, keys; /* stacks */
    torch_tensor share;         /* scores / cap; NULL where they are not capped */
    torch_tensor p;             /* a stack: [., queries, keys] */
    torch_tensor of_sinks;      /* like heads_of with a width of 1; NULL where there are none */
} weights;

static torch_tensor triangle(const block *b, const char *name, torch_tensor t, int64_t diagonal)
{
    return torch_call(b->f, name, "", A_TENSOR(t), AN_INTEGER(diagonal));
}

/* Sets scores of keys that are too far behind a query or before it. Key t lies in front of query r,
 * both counted within the block, by r - t + shift rows. */
static void hide_unseen(const block *b, torch_tensor scores)
{
    torch_frame *f = b->f;
    const int64_t reach = reach_of(b->s);
    const int64_t shift = b->s->earlier + b->queries.begin - b->keys.begin;
    if (b->s->bidirectional && reach == attention_keys(b->s)) {
        return;
    }
    const torch_tensor ones =
        torch_fill(f, torch_empty(f, GRAIL_DTYPE_F32, b->queries.rows, b->keys.rows), 1.0);
    const torch_tensor near = triangle(b, "aten::triu", ones, shift - reach + 1);
    const torch_tensor seen =
        triangle(b, "aten::tril", near, shift + (b->s->bidirectional ? reach - 1 : 0));
    torch_put(f, torch_unary(f, "aten::logical_not", seen), -HUGE_VAL,
              parted(b, b->queries, scores, b->keys.rows));
}

static torch_tensor sigmoid_of_difference(const block *b, torch_tensor x, torch_tensor y)
{
    return torch_unary(b->f, "aten::sigmoid", torch_sum(b->f, x, y, -1.0));
}

/* Sinks or their gradient as heads_of has them, with a row for all. */
static torch_tensor sinks_of(const block *b, matrix m)
{
    const int64_t group = b->s->query_heads / b->s->kv_heads;
    return torch_view(b->f, m, 5, (int64_t[]){1, b->s->kv_heads, group, 1, 1},
                      (int64_t[]){m.columns, group, 1, 1, 1});
}

/* A sink stands beside all keys together, whose score is the logarithm of their sum. */
static void share_with_sinks(const block *b, torch_tensor scores, weights *w)
{
    const torch_tensor sinks = sinks_of(b, b->sinks);
    if (sinks != NULL) {
        const torch_tensor sum =
            torch_call(b->f, "aten::logsumexp", "", A_TENSOR(scores), INTEGERS(2), A_TRUTH(true));
        const torch_tensor keys = parted(b, b->queries, sum, 1);
        w->of_sinks = sigmoid_of_difference(b, sinks, keys);
        multiply(b, parted(b, b->queries, w->p, b->keys.rows),
                 sigmoid_of_difference(b, keys, sinks));
    }
}

/* Those that go by distance begin one later for each query before the last, so that the rows are
 * made the other way round. A block has all windows of some samples, or a single one. */
static void add_biases(const block *b, torch_tensor scores)
{
    torch_frame *f = b->f;
    const attention_shape *s = b->s;
    const bias_places at = attention_bias_places(s, b->biases);
    const bool turns = attention_goes_by_distance(s, b->biases);
    const int64_t windows = b->sequences < at.windows ? 1 : at.windows;
    const int64_t window = windows < at.windows ? b->sequence % at.windows : 0;
    const int64_t query = b->queries.begin + (turns ? b->queries.rows - 1 : 0);
    const int64_t begin = window * at.window + at.first + query * at.step + b->keys.begin;
    const int64_t columns = b->biases.columns;
    const int64_t group = s->query_heads / s->kv_heads;
    if (!matrix_exists(b->biases)) {
        return;
    }
    const matrix from =
        matrix_columns(matrix_rows(b->biases, begin / columns, 1), begin % columns, 1);
    torch_tensor own = torch_view(
        f, from, 6, (int64_t[]){1, windows, s->kv_heads, group, b->queries.rows, b->keys.rows},
        (int64_t[]){0, at.window, group * at.head, at.head, turns ? 1 : at.step, 1});
    if (turns) {
        own = torch_call(f, "aten::flip", "", A_TENSOR(own), INTEGERS(4));
    }
    const torch_tensor all = torch_call(f, "aten::view", "", A_TENSOR(scores),
                                        INTEGERS(b->sequences / windows, windows, s->kv_heads,
                                                 group, b->queries.rows, b->keys.rows));
    torch_copy(f, torch_sum(f, all, own, 1.0), all);
}

static weights weigh(const block *b)
{
    const attention_shape *s = b->s;
    const bool caps = s->cap > 0.0;
    weights w = {.queries = stack_of(b, b->queries, b->o->m[0]),
                 .keys = stack_of(b, b->keys, b->o->m[1])};
    const torch_tensor scaled = torch_scaled(b->f, w.queries, caps ? s->scale / s->cap : s->scale);
    torch_tensor scores = product(b, scaled, turned(b, w.keys));
    if (caps) {
        w.share = torch_unary(b->f, "aten::tanh", scores);
        scores = torch_scaled(b->f, w.share, s->cap);
    }
    add_biases(b, scores);
    hide_unseen(b, scores);
    w.p = torch_call(b->f, "aten::_softmax", "", A_TENSOR(scores), AN_INTEGER(2), A_TRUTH(false));
    share_with_sinks(b, scores, &w);
    return w;
}

/* -- forward ------------------------------------------------------------------------------------*/

static void attend(const block *b)
{
    const weights w = weigh(b);
    store(b, b->queries, product(b, w.p, stack_of(b, b->keys, b->o->m[2])), b->o->m[3]);
}

/* Whether one of torch's kernels does it without scores in memory. That of a GPU reads 16 bytes at
 * a time and counts heads and sequences in 16 bits. */
static bool is_fused(const operation *o)
{
    enum { MOST = 65535, BYTES = 16 };
    const attention_shape *s = o->with.attention;
    const int64_t step = BYTES / (int64_t)element_size(o->m[0].type);
    const int64_t width = attention_value_dim(s);
    const bool has_earlier = attention_room(s) != s->length;
    const bool fits = torch_is_cuda(o->m[0].owner) ? s->head_dim % step == 0 && width % step == 0 &&
                                                         s->sequences <= MOST && s->kv_heads <= MOST
                                                   : s->head_dim == width;
    return fits && !has_earlier && reach_of(s) == s->length && !(s->cap > 0.0) &&
           !matrix_exists(o->m[4]) && !matrix_exists(o->m[5]) && matrix_count(o->m[0]) > 0;
}

/* Head g of each key head's, in place. */
static torch_tensor head_of_each(const block *b, part p, matrix m, int64_t g)
{
    return torch_call(b->f, "aten::select", "int", A_TENSOR(heads_of(b, p, m)), AN_INTEGER(2),
                      AN_INTEGER(g));
}

/* The same to be read: a processor's products of 16 bits are slow. */
static torch_tensor read_head(const block *b, part p, matrix m, int64_t g)
{
    const torch_tensor head = head_of_each(b, p, m, g);
    return torch_is_cuda(b->f->owner) ? head : torch_widened(b->f, m, head);
}

static void attend_fused(block b)
{
    torch_tensor results[4];
    const int before = b.f->count;
    const matrix *m = b.o->m;
    b.sequences = b.s->sequences;
    set_rows(&b, 0, b.s->length);
    for (int64_t g = 0; g < b.s->query_heads / b.s->kv_heads && b.f->status == GRAIL_OK; g++) {
        const torch_argument q = A_TENSOR(read_head(&b, b.queries, m[0], g));
        const torch_argument k = A_TENSOR(read_head(&b, b.keys, m[1], 0));
        const torch_argument v = A_TENSOR(read_head(&b, b.keys, m[2], 0));
        const torch_argument causal = A_TRUTH(!b.s->bidirectional);
        const torch_argument scale = MAYBE_REAL(b.s->scale);
        const torch_tensor out =
            torch_is_cuda(b.f->owner)
                ? torch_call_many(b.f, "aten::_scaled_dot_product_efficient_attention", "", 4,
                                  results, q, k, v, NOTHING, A_TRUTH(false), A_REAL(0.0), causal,
                                  scale)
                : torch_call_many(b.f, "aten::_scaled_dot_product_flash_attention_for_cpu", "", 2,
                                  results, q, k, v, A_REAL(0.0), causal, NOTHING, scale);
        torch_copy(b.f, out, head_of_each(&b, b.queries, m[3], g));
        torch_forget(b.f, before);
    }
}

/* Rows of all sequences as the kernels for 16 bits take them: [sequences, rows, heads, width]. */
static torch_tensor rows_of(torch_frame *f, const attention_shape *s, int64_t heads, matrix m)
{
    const int64_t width = m.columns / heads;
    return torch_view(f, m, 4, (int64_t[]){s->sequences, s->length, heads, width},
                      (int64_t[]){s->length * m.columns, m.columns, width, 1});
}

/* A GPU's own kernel for values of 16 bits, which knows windows and shared key heads. */
static bool is_flash(const operation *o, matrix sinks, matrix biases)
{
    enum { WIDEST = 256, STEP = 8 };
    const attention_shape *s = o->with.attention;
    return torch_is_cuda(o->m[0].owner) && torch_is_narrow(o->m[0]) &&
           attention_room(s) == s->length && s->head_dim == attention_value_dim(s) &&
           s->head_dim <= WIDEST && s->head_dim % STEP == 0 && !(s->cap > 0.0) &&
           !matrix_exists(sinks) && !matrix_exists(biases) && matrix_count(o->m[0]) > 0;
}

enum { FLASH_RESULTS = 5 };

typedef struct flash {
    torch_tensor q, k, v;
    torch_argument length, causal, scale, behind, before; /* rows that a query sees on both sides */
} flash;

static flash flash_of(torch_frame *f, const operation *o)
{
    const attention_shape *s = o->with.attention;
    const bool windowed = reach_of(s) < s->length;
    const int64_t reach = reach_of(s) - 1;
    return (flash){.q = rows_of(f, s, s->query_heads, o->m[0]),
                   .k = rows_of(f, s, s->kv_heads, o->m[1]),
                   .v = rows_of(f, s, s->kv_heads, o->m[2]),
                   .length = AN_INTEGER(s->length),
                   .causal = A_TRUTH(!s->bidirectional),
                   .scale = MAYBE_REAL(s->scale),
                   .behind = windowed ? MAYBE_INTEGER(reach) : NOTHING,
                   .before = windowed ? MAYBE_INTEGER(s->bidirectional ? reach : 0) : NOTHING};
}

/* The output, the logarithms of the scores' sums, and two that the gradient takes. */
static void run_flash(torch_frame *f, const flash *a, torch_tensor results[FLASH_RESULTS])
{
    (void)torch_call_many(f, "aten::_flash_attention_forward", "", FLASH_RESULTS, results,
                          A_TENSOR(a->q), A_TENSOR(a->k), A_TENSOR(a->v), NOTHING, NOTHING,
                          a->length, a->length, A_REAL(0.0), a->causal, A_TRUTH(false), a->scale,
                          a->behind, a->before);
}

static void attend_by_flash(torch_frame *f, const operation *o)
{
    const attention_shape *s = o->with.attention;
    torch_tensor results[FLASH_RESULTS];
    const flash a = flash_of(f, o);
    run_flash(f, &a, results);
    torch_copy(f, results[0], rows_of(f, s, s->query_heads, o->m[3]));
}

/* It is fastest from its own output, which also has the sums that ours does not keep. */
static void differentiate_by_flash(torch_frame *f, const operation *o)
{
    const attention_shape *s = o->with.attention;
    torch_tensor forward[FLASH_RESULTS];
    torch_tensor slopes[3];
    const flash a = flash_of(f, o);
    run_flash(f, &a, forward);
    const torch_tensor none = torch_nothing(f);
    (void)torch_call_many(f, "aten::_flash_attention_backward", "", 3, slopes,
                          A_TENSOR(rows_of(f, s, s->query_heads, o->m[4])), A_TENSOR(a.q),
                          A_TENSOR(a.k), A_TENSOR(a.v), A_TENSOR(forward[0]), A_TENSOR(forward[1]),
                          A_TENSOR(none), A_TENSOR(none), a.length, a.length, A_REAL(0.0), a.causal,
                          A_TENSOR(forward[2]), A_TENSOR(forward[3]), a.scale, a.behind, a.before);
    torch_copy(f, slopes[0], rows_of(f, s, s->query_heads, o->m[5]));
    torch_copy(f, slopes[1], rows_of(f, s, s->kv_heads, o->m[6]));
    torch_copy(f, slopes[2], rows_of(f, s, s->kv_heads, o->m[7]));
}

KERNEL(attention)
{
    const block all = {f, o, o->with.attention, .sinks = o->m[4], .biases = o->m[5]};
    if (is_flash(o, o->m[4], o->m[5])) {
        attend_by_flash(f, o);
    } else if (is_fused(o)) {
        attend_fused(all);
    } else {
        over_blocks(all, attend);
    }
}

/* -- gradient -----------------------------------------------------------------------------------*/

/* dsinks -= the sinks' weights times D */
static void add_to_sinks(const block *b, torch_tensor of_sinks, torch_tensor d)
{
    const torch_tensor own = sinks_of(b, b->o->m[9]);
    if (own != NULL) {
        const torch_tensor taken = torch_times(b->f, of_sinks, parted(b, b->queries, d, 1));
        const torch_tensor sums = torch_sums(b->f, taken, MAYBE_INTEGERS(0, 3, 4));
        torch_copy(b->f, torch_sum(b->f, own, sums, -1.0), own);
    }
}

static void differentiate(const block *b)
{
    torch_frame *f = b->f;
    const matrix *m = b->o->m;
    const weights w = weigh(b);
    const torch_tensor dout = stack_of(b, b->queries, m[4]);
    const torch_tensor product_of_rows = torch_times(f, dout, stack_of(b, b->queries, m[3]));
    const torch_tensor d =
        torch_as(f, GRAIL_DTYPE_F32, torch_sums(f, product_of_rows, MAYBE_INTEGERS(2)));
    const torch_tensor dp = product(b, dout, turned(b, stack_of(b, b->keys, m[2])));
    const torch_tensor ds = torch_sum(f, dp, d, -1.0);
    multiply(b, ds, w.p);
    if (w.share != NULL) {
        const torch_tensor square = torch_times(f, w.share, w.share);
        multiply(b, ds, torch_sum(f, torch_number(f, 1.0), square, -1.0));
    }
    store(b, b->queries, torch_scaled(f, product(b, ds, w.keys), b->s->scale), m[5]);
    add_to_keys(b, torch_scaled(f, product(b, turned(b, ds), w.queries), b->s->scale), m[6]);
    add_to_keys(b, product(b, turned(b, w.p), dout), m[7]);
    add_to_sinks(b, w.of_sinks, d);
}

KERNEL(attention_gradient)
{
    if (is_flash(o, o->m[8], o->m[10])) {
        differentiate_by_flash(f, o);
    } else {
        torch_zero(f, torch_matrix(f, o->m[6]));
        torch_zero(f, torch_matrix(f, o->m[7]));
        over_blocks((block){f, o, o->with.attention, .sinks = o->m[8], .biases = o->m[10]},
                    differentiate);
    }
}
