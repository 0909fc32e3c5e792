#include "pipeline/request/heal_options.h"

#include "pipeline/request/options.h"

#include <math.h>

enum { DEFAULT_STEPS = 160 };

/* Measured (docs/results/healing.md). Through a whole network larger steps carry over less: 128
 * images lead a ResNet-20 at 50 % to 70.5 % with 0.005, and with 0.01 to nothing better on held-out
 * images than the 68.3 % of the closed form. */
static const double usual_block_rate = 0.06;
static const double text_network_rate = 0.02;
static const double image_network_rate = 0.005;

grail_status heal_options_read(const grail_compress_options *o, input_kind input, heal_options *out)
{
    int what = 0;
    const double of_network = input == INPUT_IMAGES ? image_network_rate : text_network_rate;
    *out = (heal_options){.steps = o->heal.steps == 0 ? DEFAULT_STEPS : o->heal.steps,
                          .block_rate = o->heal.rate == 0.0 ? usual_block_rate : o->heal.rate,
                          .network_rate = o->heal.rate == 0.0 ? of_network : o->heal.rate,
                          .seconds = o->heal.time == 0.0 ? (double)INFINITY : o->heal.time};
    CHECK(option_find_word("healing", o->heal.what == NULL ? "none" : o->heal.what, heal_words,
                           &what));
    out->blocks = (what & 1) != 0;
    out->network = (what & 2) != 0;
    return GRAIL_OK;
}

bool heals(const heal_options *options)
{
    return options->blocks || options->network;
}

int64_t heal_step_samples(input_kind input, int64_t seen)
{
    enum { WINDOWS = 8, IMAGES = 64 };
    const int64_t wanted = input == INPUT_IMAGES ? IMAGES : WINDOWS;
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
    CHECK(json_put(object, "steps", json_integer(options->steps)));
    CHECK(json_put(object, "block_rate", json_real(options->block_rate)));
    CHECK(json_put(object, "model_rate", json_real(options->network_rate)));
    return json_put(object, "seconds", json_real_or_null(options->seconds));
}
