#include "heal/heal_options.h"

#include "base/memory.h"
#include "base/options.h"
#include "graph/operators.h"

#include <math.h>

const char *const heal_words[] = {"none", "block", "model", "block,model", NULL};

enum { USUAL_STEPS = 160 };

/* The largest widths at which the rates of text were the best that was measured. */
static const double usual_block_width = 160.0;
static const double usual_network_width = 64.0;

/* Measured (docs/results/healing.md). Through a whole network larger steps carry over less: 128
 * images lead a ResNet-20 at 50 % to 70.5 % with 0.005, and with 0.01 to nothing better on held-out
 * images than the 68.3 % of the closed form. */
static const double usual_block_rate = 0.06;
static const double text_network_rate = 0.02;
static const double image_network_rate = 0.005;
/* Where images become tokens. For the one ViT that was tried it is too large (docs/numerics.md,
 * Rates). */
static const double image_token_rate = 0.003;

/* Features of a token, of text or of what attends to others; 0 where there are none. */
static grail_status find_token_width(const graph *g, int64_t *out)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(graph_widths(g, widths));
    *out = 0;
    for (int i = 0; i < g->node_count && *out == 0; i++) {
        const node *n = &g->nodes[i];
        *out = operator_of(n)->gathers     ? g->parameters[n->weight].shape[1]
               : n->kind == NODE_ATTENTION ? widths[n->inputs[0]]
                                           : 0;
    }
out:
    memory_free(widths);
    return status;
}

/* A step moves all n weights of a sum at once, each by its share and in the direction that helps,
 * so the sum moves by n shares where its size is that of sqrt(n); and of a step the part that helps
 * other tokens than its own falls with the root of the number of weights, which is width^2. The
 * best rates that were measured of networks 64 and 576 wide differ by a little less. */
static double share_at_width(int64_t width, double usual_width, double power)
{
    return (double)width > usual_width ? pow(usual_width / (double)width, power) : 1.0;
}

/* The rate that suits rises with the root of the tokens: on SmolLM2-135M, where text_network_rate
 * is a step of 2e-4, 1e-4 is best for 82 k tokens, 2e-4 for 300 k and 3e-4 to 5e-4 for 1.6 M. */
double heal_rate_of_network(const heal_options *options, double tokens)
{
    static const double usual_tokens = 327680.0;
    static const double least = 0.5;
    static const double most = 2.5;
    const double root = sqrt(tokens / usual_tokens);
    return options->network_rate * (options->rate_grows ? fmin(fmax(root, least), most) : 1.0);
}

bool heal_trains_table(int64_t rows, double tokens)
{
    static const double least_for_row = 64.0;
    return tokens >= least_for_row * (double)rows;
}

grail_status heal_options_read(const grail_heal_options *o, const graph *g, heal_options *out)
{
    int what = 0;
    int64_t width = 0;
    CHECK(find_token_width(g, &width));
    const bool of_images = g->input_kind == INPUT_IMAGES;
    const double of_blocks = share_at_width(width, usual_block_width, 1.5) * usual_block_rate;
    const double share = share_at_width(width, usual_network_width, 4.0 / 3.0);
    const double of_network = !of_images  ? share * text_network_rate
                              : width > 0 ? share * image_token_rate
                                          : image_network_rate;
    CHECK(option_find_word("healing", o->what == NULL ? "none" : o->what, heal_words, &what));
    *out = (heal_options){.chosen = *o,
                          .blocks = (what & 1) != 0,
                          .network = (what & 2) != 0,
                          .block_rate = o->rate == 0.0 ? of_blocks : o->rate,
                          .network_rate = o->rate == 0.0 ? of_network : o->rate,
                          .rate_grows = o->rate == 0.0 && !of_images && width > 0};
    out->chosen.what = heal_words[what];
    out->chosen.teacher = NULL;
    out->chosen.steps = o->steps == 0 ? USUAL_STEPS : o->steps;
    out->chosen.group = o->group == 0 ? 1 : o->group;
    out->chosen.time = o->time == 0.0 ? (double)INFINITY : o->time;
    return GRAIL_OK;
}

bool heals(const heal_options *options)
{
    return options->blocks || options->network;
}

void heal_group_of(const heal_options *options, int block, int block_count, int *first, int *last)
{
    const int64_t wanted = options->blocks ? options->chosen.group : 1;
    const int size = wanted < block_count ? (int)wanted : block_count;
    *first = block - block % size;
    *last = *first + size <= block_count ? *first + size - 1 : block_count - 1;
}

int64_t heal_step_samples(const heal_options *options, input_kind input, int64_t length,
                          int64_t seen)
{
    enum { MOST_WINDOWS = 8, TOKENS = 2048, IMAGES = 64 };
    const int64_t windows = length * MOST_WINDOWS <= TOKENS ? MOST_WINDOWS
                            : length < TOKENS               ? TOKENS / length
                                                            : 1;
    const int64_t usual = input == INPUT_IMAGES ? IMAGES : windows;
    const int64_t wanted = options->chosen.batch > 0 ? options->chosen.batch : usual;
    return seen < wanted ? seen : wanted;
}

int64_t heal_held_samples(input_kind input, int64_t count)
{
    const int64_t share = input == INPUT_IMAGES ? count / 8 : count / 16;
    const int64_t least = input == INPUT_IMAGES ? 16 : 8;
    const int64_t enough = share > least ? share : least;
    return enough < count / 4 ? enough : (count + 3) / 4;
}

grail_status heal_options_to_json(const heal_options *options, json_t *object)
{
    CHECK(json_put(object, "block", json_boolean(options->blocks)));
    CHECK(json_put(object, "model", json_boolean(options->network)));
    if (!heals(options)) {
        return GRAIL_OK;
    }
    CHECK(json_put(object, "steps", json_integer(options->chosen.steps)));
    CHECK(json_put(object, "group", json_integer(options->chosen.group)));
    if (options->chosen.batch > 0) {
        CHECK(json_put(object, "batch", json_integer(options->chosen.batch)));
    }
    if (options->chosen.own_samples > 0) {
        CHECK(json_put(object, "samples", json_integer(options->chosen.own_samples)));
    }
    CHECK(json_put(object, "block_rate", json_real(options->block_rate)));
    CHECK(json_put(object, "model_rate", json_real(options->network_rate)));
    return json_put(object, "seconds", json_real_or_null(options->chosen.time));
}
