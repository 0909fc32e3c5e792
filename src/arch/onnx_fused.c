/* Operators that ONNX Runtime puts in place of several, in its own domain com.microsoft: each is
 * read as the operators of ONNX that it stands for, one step after the other, whose results are
 * scratch values of the reading. Source: ContribOperators.md of ONNX Runtime. */
#include "arch/onnx_arguments.h"
#include "arch/onnx_bounds.h"
#include "arch/onnx_layouts.h"
#include "arch/onnx_products.h"

#include <math.h>
#include <string.h>

enum { STEP_INPUTS = 3, STEP_OUTPUTS = 3, NONE = -1, SCRATCH = 1 << 10 };

/* Inputs and outputs are those of the node at hand, or SCRATCH and on. */
typedef struct step {
    const char *operator_name;
    int inputs[STEP_INPUTS], input_count;
    int outputs[STEP_OUTPUTS], output_count;
    const onnx_attribute *attributes;
    int attribute_count;
} step;

static int64_t scratch_value(const onnx_reading *r, int i)
{
    return r->file->value_count - ONNX_SCRATCH_VALUES + i - SCRATCH;
}

static void forget_scratch(onnx_reading *r, int64_t value, int64_t like)
{
    const int64_t depth = like < 0 ? 0 : r->values[like].depth;
    r->values[value] = (onnx_known){
        .value = GRAPH_NONE, .tensor = -1, .readers = 1, .depth = depth, .count.element = -1};
    memory_free(r->numbers[value].items);
    r->numbers[value] = (onnx_numbers){0};
}

/* The step in place of the node at hand. */
static grail_status take_step(onnx_reading *r, const step *s)
{
    const onnx_file_node *whole = r->node;
    int64_t inputs[STEP_INPUTS];
    int64_t outputs[STEP_OUTPUTS];
    const char *names[STEP_INPUTS];
    int places[STEP_INPUTS];
    const char *made[STEP_OUTPUTS];
    for (int i = 0; i < s->input_count; i++) {
        const bool is_own = s->inputs[i] >= 0 && s->inputs[i] < SCRATCH;
        const bool is_there = is_own && s->inputs[i] < whole->node.input_count;
        inputs[i] = is_there                  ? whole->inputs[s->inputs[i]]
                    : s->inputs[i] >= SCRATCH ? scratch_value(r, s->inputs[i])
                                              : -1;
        names[i] = is_there ? whole->node.inputs[s->inputs[i]] : "";
        places[i] = is_there ? s->inputs[i] : -1;
    }
    for (int i = 0; i < s->output_count; i++) {
        const bool is_own = s->outputs[i] < SCRATCH;
        outputs[i] = is_own ? whole->outputs[s->outputs[i]] : scratch_value(r, s->outputs[i]);
        made[i] = is_own ? whole->node.outputs[s->outputs[i]] : "";
        if (!is_own) {
            forget_scratch(r, outputs[i], whole->outputs[0]);
        }
    }
    const onnx_file_node part = {.node = {.operator_name = s->operator_name,
                                          .name = whole->node.name,
                                          .domain = "",
                                          .input_count = s->input_count,
                                          .inputs = names,
                                          .output_count = s->output_count,
                                          .outputs = made,
                                          .attribute_count = s->attribute_count,
                                          .attributes = s->attributes},
                                 .inputs = inputs,
                                 .outputs = outputs};
    r->fused = whole;
    r->places = places;
    r->node = &part;
    const grail_status status = onnx_read_by_operator(r);
    r->node = whole;
    r->fused = NULL;
    r->places = NULL;
    return status;
}

static step one(const char *operator_name, int input, int output)
{
    return (step){.operator_name = operator_name,
                  .inputs = {input},
                  .input_count = 1,
                  .outputs = {output},
                  .output_count = 1};
}

static step two(const char *operator_name, int left, int right, int output)
{
    step s = one(operator_name, left, output);
    s.inputs[1] = right;
    s.input_count = 2;
    return s;
}

/* Adds input `bias` of the node, where it has one, to *from, which is then the sum. */
static grail_status add_bias(onnx_reading *r, int bias, int *from, int to)
{
    if (!onnx_has_input(r, bias)) {
        return GRAIL_OK;
    }
    const step sum = two("Add", *from, bias, to);
    *from = to;
    return take_step(r, &sum);
}

static bool has_output(const onnx_reading *r, int i)
{
    return i < r->node->node.output_count && r->node->outputs[i] >= 0;
}

/* -- activations ------------------------------------------------------------------------------- */

static grail_status gelu_of_sum(onnx_reading *r, bool is_tanh)
{
    static const onnx_attribute tanh_form = {
        .name = "approximate", .kind = ONNX_TEXT, .text = {(const unsigned char *)"tanh", 4}};
    int from = 0;
    CHECK(add_bias(r, 1, &from, SCRATCH));
    step s = one("Gelu", from, 0);
    s.attributes = &tanh_form;
    s.attribute_count = is_tanh ? 1 : 0;
    return take_step(r, &s);
}

grail_status onnx_read_bias_gelu(onnx_reading *r)
{
    return gelu_of_sum(r, false);
}

grail_status onnx_read_fast_gelu(onnx_reading *r)
{
    return gelu_of_sum(r, true);
}

/* x sigmoid(alpha x) */
grail_status onnx_read_quick_gelu(onnx_reading *r)
{
    const double alpha = onnx_real_of(r, "alpha", 1.702);
    onnx_known *x = NULL;
    CHECK(onnx_any_input(r, 0, &x));
    node n = onnx_plain(NODE_ACTIVATION, x, NULL);
    if (fabs(alpha - 1.702) < 1e-6 || alpha == 1.0) {
        n.activation = alpha == 1.0 ? ACTIVATION_SILU : ACTIVATION_QUICK_GELU;
        return onnx_give_node(r, &n, *x);
    }
    onnx_known gate = *x;
    n = onnx_plain(NODE_AFFINE, x, NULL);
    n.affine.scale = alpha;
    CHECK(graph_add_node(r->g, &n, &gate.value));
    n = onnx_plain(NODE_ACTIVATION, &gate, NULL);
    n.activation = ACTIVATION_SIGMOID;
    CHECK(graph_add_node(r->g, &n, &gate.value));
    n = onnx_plain(NODE_MULTIPLY, x, &gate);
    return onnx_give_node(r, &n, *x);
}

/* -- maps with an activation ------------------------------------------------------------------- */

/* The activation that the node at hand names, as a step from `from` on; its numbers are
 * activation_params, or attributes activation_alpha and so on. */
static grail_status activate(onnx_reading *r, int from)
{
    static const struct {
        const char *name;
        int count;
        const char *numbers[2], *attributes[2];
    } known[] = {
        {"Relu", 0, {NULL}, {NULL}},
        {"Sigmoid", 0, {NULL}, {NULL}},
        {"Tanh", 0, {NULL}, {NULL}},
        {"LeakyRelu", 1, {"alpha"}, {"activation_alpha"}},
        {"Clip", 2, {"min", "max"}, {"activation_min", "activation_max"}},
        {"HardSigmoid", 2, {"alpha", "beta"}, {"activation_alpha", "activation_beta"}},
    };
    const onnx_attribute *list = onnx_node_attribute(r->node, "activation_params");
    if (onnx_node_attribute(r->node, "activation") == NULL) {
        const step s = one("Identity", from, 0);
        return take_step(r, &s);
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        onnx_attribute given[2] = {{0}};
        step s = one(known[i].name, from, 0);
        for (int k = 0; k < known[i].count; k++) {
            const onnx_attribute *a = onnx_node_attribute(r->node, known[i].attributes[k]);
            const bool is_listed = list != NULL && list->kind == ONNX_REALS && k < list->count;
            given[k] = (onnx_attribute){.name = known[i].numbers[k],
                                        .kind = ONNX_REAL,
                                        .real = is_listed   ? (double)list->reals[k]
                                                : a != NULL ? a->real
                                                            : 0.0};
            s.attribute_count += is_listed || a != NULL ? 1 : 0;
        }
        s.attributes = given;
        if (onnx_text_is(r, "activation", known[i].name)) {
            return s.attribute_count == known[i].count
                       ? take_step(r, &s)
                       : onnx_misfit("its activation lacks numbers");
        }
    }
    return onnx_misfit("has an activation that grail has no row for");
}

static grail_status map_and_activate(onnx_reading *r, const char *operator_name)
{
    step s = two(operator_name, 0, 1, SCRATCH);
    s.inputs[2] = 2;
    s.input_count = STEP_INPUTS;
    s.attributes = r->node->node.attributes;
    s.attribute_count = r->node->node.attribute_count;
    CHECK(take_step(r, &s));
    int from = SCRATCH;
    CHECK(add_bias(r, 3, &from, SCRATCH + 1)); /* what a convolution is added to */
    return activate(r, from);
}

grail_status onnx_read_fused_conv(onnx_reading *r)
{
    return map_and_activate(r, "Conv");
}

grail_status onnx_read_fused_gemm(onnx_reading *r)
{
    return map_and_activate(r, "Gemm");
}

/* Factor i with its last two dimensions turned. */
static grail_status turn_factor(onnx_reading *r, int i, int to)
{
    int64_t order[ONNX_MAX_RANK];
    const onnx_known *k = onnx_known_input(r, i);
    const int rank = k->tensor >= 0 ? r->file->tensors[k->tensor].view.rank : k->rank;
    for (int d = 0; d < rank && d < ONNX_MAX_RANK; d++) {
        order[d] = d < rank - 2 ? d : 2 * rank - 3 - d;
    }
    const onnx_attribute turned = {
        .name = "perm", .kind = ONNX_INTEGERS, .integers = order, .count = rank};
    step s = one("Transpose", i, to);
    s.attributes = &turned;
    s.attribute_count = 1;
    return rank >= 2 && rank <= ONNX_MAX_RANK ? take_step(r, &s)
                                              : onnx_misfit("turns a value that is no matrix");
}

/* alpha op(A) op(B) */
grail_status onnx_read_fused_mat_mul(onnx_reading *r)
{
    static const char *const turns[] = {"transA", "transB"};
    const double alpha = onnx_real_of(r, "alpha", 1.0);
    step product = two("MatMul", 0, 1, 0);
    if (onnx_integer_of(r, "transBatchA", 0) != 0 || onnx_integer_of(r, "transBatchB", 0) != 0 ||
        !onnx_has_input(r, 0) || !onnx_has_input(r, 1)) {
        return onnx_misfit("turns samples of a factor");
    }
    for (int i = 0; i < 2; i++) {
        if (onnx_integer_of(r, turns[i], 0) != 0) {
            product.inputs[i] = SCRATCH + i;
            CHECK(turn_factor(r, i, SCRATCH + i));
        }
    }
    CHECK(take_step(r, &product));
    onnx_known y = r->values[r->node->outputs[0]];
    if (y.form == ONNX_SCORES) {
        y.factor *= alpha;
        return alpha != 0.0 ? onnx_give(r, 0, y) : onnx_misfit("multiplies scores by 0");
    }
    if (alpha == 1.0) {
        return GRAIL_OK;
    }
    CHECK(onnx_settle(r, &y));
    node n = onnx_plain(NODE_AFFINE, &y, NULL);
    n.affine.scale = alpha;
    return onnx_give_node(r, &n, y);
}

/* -- norms of sums ----------------------------------------------------------------------------- */

static grail_status add_norm(onnx_reading *r, const char *operator_name, int from, int weight,
                             int bias)
{
    const onnx_attribute attributes[] = {
        {.name = "epsilon", .kind = ONNX_REAL, .real = onnx_real_of(r, "epsilon", 1e-12)},
        {.name = "axis", .kind = ONNX_INTEGER, .integer = -1}};
    step s = two(operator_name, from, weight, 0);
    s.inputs[2] = bias;
    s.input_count = bias != NONE && onnx_has_input(r, bias) ? 3 : 2;
    s.attributes = attributes;
    s.attribute_count = 2;
    return take_step(r, &s);
}

/* The norm of input + skip + bias; the sum is output 3, too. */
static grail_status norm_sum(onnx_reading *r, const char *operator_name, int bias_of_norm, int bias)
{
    enum { SUM = 3, WEIGHT = 2 };
    int from = 0;
    if (has_output(r, 1) || has_output(r, 2)) {
        return onnx_misfit("gives its means, too");
    }
    CHECK(add_bias(r, bias, &from, SCRATCH));
    const step sum = two("Add", from, 1, SCRATCH + 1);
    CHECK(take_step(r, &sum));
    const onnx_known made = r->values[scratch_value(r, SCRATCH + 1)];
    CHECK(add_norm(r, operator_name, SCRATCH + 1, WEIGHT, bias_of_norm));
    return has_output(r, SUM) ? onnx_give(r, SUM, made) : GRAIL_OK;
}

grail_status onnx_read_skip_norm(onnx_reading *r)
{
    return norm_sum(r, "LayerNormalization", 3, 4);
}

grail_status onnx_read_skip_rms_norm(onnx_reading *r)
{
    return norm_sum(r, "RMSNormalization", NONE, 3);
}

/* The norm of rows of tables: by ids, by positions, by kinds. Output 1 is how many positions the
 * mask leaves of each sample. */
grail_status onnx_read_embed_norm(onnx_reading *r)
{
    enum {
        IDS,
        KINDS,
        WORDS,
        POSITIONS,
        KIND_ROWS,
        WEIGHT,
        BIAS,
        MASK,
        NUMBERS,
        OWN = SCRATCH + 4
    };
    const int numbers = onnx_has_input(r, NUMBERS) ? NUMBERS : OWN;
    const step words = two("Gather", WORDS, IDS, SCRATCH);
    const step rows = two("Gather", POSITIONS, numbers, SCRATCH + 1);
    const step sum = two("Add", SCRATCH, SCRATCH + 1, SCRATCH + 2);
    int from = SCRATCH + 2;
    CHECK(take_step(r, &words));
    forget_scratch(r, scratch_value(r, OWN), -1);
    onnx_known *own = &r->values[scratch_value(r, OWN)];
    own->form = ONNX_BOUNDED;
    own->bounds = (onnx_bounds){.low = 0.0, .high = HUGE_VAL, .counts_up = true};
    onnx_set_layout(own, "N,T");
    CHECK(take_step(r, &rows));
    CHECK(take_step(r, &sum));
    if (onnx_has_input(r, KIND_ROWS)) {
        const step kinds = two("Gather", KIND_ROWS, KINDS, SCRATCH);
        const step all = two("Add", from, SCRATCH, SCRATCH + 1);
        CHECK(take_step(r, &kinds));
        CHECK(take_step(r, &all));
        from = SCRATCH + 1;
    }
    const onnx_known made = r->values[scratch_value(r, from)];
    CHECK(add_norm(r, "LayerNormalization", from, WEIGHT, BIAS));
    if (has_output(r, 1) && onnx_has_input(r, MASK) && onnx_is_always(r, MASK, 1.0)) {
        const onnx_known length = {.value = GRAPH_NONE,
                                   .tensor = -1,
                                   .rank = 1,
                                   .form = ONNX_BOUNDED,
                                   .bounds = {.low = 1.0, .high = HUGE_VAL, .is_length = true},
                                   .count.element = -1};
        CHECK(onnx_give(r, 1, length));
    }
    return has_output(r, 2) ? onnx_give(r, 2, made) : GRAIL_OK;
}

/* -- attention --------------------------------------------------------------------------------- */

/* Whether input i hides nothing: it is missing, a mask of ones, or the numbers of positions. */
static bool hides_nothing(const onnx_reading *r, int i)
{
    const onnx_known *k = onnx_has_input(r, i) ? onnx_known_input(r, i) : NULL;
    return k == NULL || (k->form == ONNX_BOUNDED && k->bounds.is_length) ||
           onnx_is_always(r, i, 1.0);
}

/* Attention of ONNX with the heads, the scale and the mask that the node at hand states. */
static grail_status attend(onnx_reading *r, int query, int key, int value)
{
    step s = two("Attention", query, key, 0);
    s.inputs[2] = value;
    s.input_count = 3;
    s.attributes = r->node->node.attributes;
    s.attribute_count = r->node->node.attribute_count;
    return has_output(r, 1) ? onnx_misfit("gives its keys and values, too") : take_step(r, &s);
}

/* Queries, keys and values are made by one matrix. */
grail_status onnx_read_fused_attention(onnx_reading *r)
{
    enum { MASK = 3, EARLIER, BIAS_OF_SCORES, EARLIER_COUNT };
    const onnx_attribute parts[] = {{.name = "axis", .kind = ONNX_INTEGER, .integer = -1}};
    int from = SCRATCH;
    step split = one("Split", SCRATCH + 1, SCRATCH + 2);
    if (!hides_nothing(r, MASK) || onnx_has_input(r, EARLIER) ||
        onnx_has_input(r, BIAS_OF_SCORES) || onnx_has_input(r, EARLIER_COUNT) ||
        onnx_integer_of(r, "do_rotary", 0) != 0 ||
        onnx_node_attribute(r->node, "qkv_hidden_sizes") != NULL) {
        return onnx_misfit(
            "is attention with a mask, earlier keys, rotary embedding or sizes of its "
            "own, for which grail has no row");
    }
    const step product = two("MatMul", 0, 1, SCRATCH);
    CHECK(take_step(r, &product));
    CHECK(add_bias(r, 2, &from, SCRATCH + 1));
    split.inputs[0] = from;
    for (int i = 0; i < STEP_OUTPUTS; i++) {
        split.outputs[i] = SCRATCH + 2 + i;
    }
    split.output_count = STEP_OUTPUTS;
    split.attributes = parts;
    split.attribute_count = 1;
    CHECK(take_step(r, &split));
    return attend(r, SCRATCH + 2, SCRATCH + 3, SCRATCH + 4);
}

grail_status onnx_read_multi_head_attention(onnx_reading *r)
{
    enum { BIAS = 3, MASK };
    for (int i = BIAS; i < r->node->node.input_count; i++) {
        if (i == MASK ? !hides_nothing(r, i) : onnx_has_input(r, i)) {
            return onnx_misfit(
                "is attention with biases, a mask or earlier keys, for which grail has "
                "no row");
        }
    }
    return onnx_has_input(r, 1) && onnx_has_input(r, 2)
               ? attend(r, 0, 1, 2)
               : onnx_misfit("reads queries, keys and values in one, for which grail has no row");
}
