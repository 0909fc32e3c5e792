#include "heal_progress.h"

#include "print.h"
#include "process.h"
#include "shared_options.h"

#include <math.h>
#include <stdbool.h>

static bool was_begun(const grail_healing *h)
{
    return !isnan(h->held_before);
}

/* "block 3/16", "blocks 1-3/16" or "the network"; in a sentence "block 3 of 16", "blocks 1 to 3 of
 * 16". */
static const char *what_of(const grail_healing *h, bool sentence, char text[2 * HUMAN_SIZE])
{
    char last[HUMAN_SIZE] = "";
    const bool several = h->last_block > h->block;
    if (h->block < 0) {
        return "the network";
    }
    if (several) {
        snprintf(last, sizeof last, "%s%d", sentence ? " to " : "-", h->last_block + 1);
    }
    snprintf(text, 2 * HUMAN_SIZE, "block%s %d%s%s%d", several ? "s" : "", h->block + 1, last,
             sentence ? " of " : "/", h->blocks);
    return text;
}

/* Five digits behind the point, or the power of ten where they would say little. */
static const char *loss_of(double loss, char text[HUMAN_SIZE])
{
    snprintf(text, HUMAN_SIZE, fabs(loss) < 1e-3 && loss != 0.0 ? "%.2e" : "%.5f", loss);
    return text;
}

/* What is left, ", about 2 min left", or "". */
static const char *time_left(const grail_healing *h, char text[2 * HUMAN_SIZE])
{
    char time[HUMAN_SIZE];
    text[0] = 0;
    if (h->seconds_left > 0.0) {
        snprintf(text, 2 * HUMAN_SIZE, ", about %s left", human_seconds(h->seconds_left, time));
    }
    return text;
}

/* The node that begins what ONNX Runtime computes. */
static const char *region_of(const grail_healing *h)
{
    const grail_model *model = grail_session_model(asked.compress.read.session);
    return grail_model_region_at(model, h->region - 1).node;
}

static void print_ended(const grail_healing *h)
{
    char what[2 * HUMAN_SIZE];
    char left[2 * HUMAN_SIZE];
    char before[HUMAN_SIZE];
    char after[HUMAN_SIZE];
    if (h->region > 0 && h->block >= 0) {
        print_error("  %s: not healed, no gradient goes through %s", what_of(h, false, what),
                    region_of(h));
    } else if (!was_begun(h)) {
        print_error("  %s: not healed, the time does not suffice", what_of(h, false, what));
    } else if (h->best_step == 0) {
        print_error("  healed %s: kept as it was, loss %s", what_of(h, false, what),
                    loss_of(h->held_before, before));
    } else {
        print_error("  healed %s: loss %s -> %s, that of step %lld kept", what_of(h, false, what),
                    loss_of(h->held_before, before), loss_of(h->held_after, after),
                    (long long)h->best_step);
    }
    print_error("%s\n", time_left(h, left));
}

int heal_progress_watch(void *user, const grail_healing *now)
{
    char what[2 * HUMAN_SIZE];
    char left[2 * HUMAN_SIZE];
    char before[HUMAN_SIZE];
    char after[HUMAN_SIZE];
    (void)user;
    if (now->ended == 0) {
        print_progress((double)NAN, "  healing %s: step %lld of %lld, loss %s -> %s%s",
                       what_of(now, false, what), (long long)now->steps, (long long)now->most_steps,
                       loss_of(now->held_before, before), loss_of(now->held_after, after),
                       time_left(now, left));
    } else if (!asked.quiet) {
        print_ended(now);
    }
    return interrupt_came();
}

static void print_losses(const grail_healing *h)
{
    char before[HUMAN_SIZE];
    char after[HUMAN_SIZE];
    if (h->best_step == 0) {
        print_out("kept as it was, no gain beyond chance; its loss on held-out samples is %s",
                  loss_of(h->held_before, before));
        return;
    }
    print_out("loss on held-out samples %s -> %s", loss_of(h->held_before, before),
              loss_of(h->held_after, after));
    if (!isnan(h->seen_before)) {
        print_out(", on those seen %s -> %s", loss_of(h->seen_before, before),
                  loss_of(h->seen_after, after));
    }
}

static void print_summary(const grail_healing *h)
{
    char time[HUMAN_SIZE];
    char text[2 * HUMAN_SIZE];
    const char *what = what_of(h, true, text);
    if (h->region > 0 && h->block >= 0) {
        print_out("%s %s not healed: no gradient goes through %s, which ONNX Runtime computes\n",
                  what, h->last_block > h->block ? "were" : "was", region_of(h));
        return;
    }
    if (h->region > 0) {
        print_out("the network was trained by the outputs that are not behind %s, which ONNX "
                  "Runtime computes, and judged by all\n",
                  region_of(h));
    }
    if (!was_begun(h)) {
        print_out("%s %s not healed: the time did not suffice\n", what,
                  h->last_block > h->block ? "were" : "was");
        return;
    }
    if (h->streamed != 0) {
        print_out("the device had no room for the training: weights and moments lay in the host's "
                  "memory, and blocks came up one by one, which takes longer\n");
    }
    print_out("healed %s in %lld steps and %s: ", what, (long long)h->steps,
              human_seconds(h->seconds, time));
    print_losses(h);
    print_out("\n");
}

static json_t *summary_json(const grail_healing *h)
{
    return json_of("block", h->block < 0 ? json_null() : json_integer(h->block), "last_block",
                   h->block < 0 ? json_null() : json_integer(h->last_block), "steps", J(h->steps),
                   "best_step", J(h->best_step), "held_loss_before", J(h->held_before),
                   "held_loss_after", J(h->held_after), "seen_loss_before", J(h->seen_before),
                   "seen_loss_after", J(h->seen_after), "seconds", J(h->seconds), "streamed",
                   json_boolean(h->streamed != 0), NULL);
}

/* What the loss of a network is, where it is not the divergence of logits alone. */
static void print_meaning(void)
{
    grail_model_facts facts = {0};
    const grail_model *model = grail_session_model(asked.compress.read.session);
    if (grail_model_describe(model, &facts) != GRAIL_OK) {
        return;
    }
    if (facts.outputs > 1) {
        print_out("the loss of the network is the mean over its %lld outputs: of logits KL, of "
                  "others the relative squared error\n",
                  (long long)facts.outputs);
    } else if (facts.gives_features != 0) {
        print_out("the loss of the network is the relative squared error of its output\n");
    }
}

void heal_summaries_print(const grail_compression *c)
{
    grail_healing h;
    for (int i = 0; grail_compression_healing(c, i, &h) != 0; i++) {
        print_summary(&h);
        if (h.block < 0 && was_begun(&h)) {
            print_meaning();
        }
    }
}

json_t *heal_summaries_json(const grail_compression *c)
{
    grail_healing h;
    json_t *list = json_array();
    for (int i = 0; grail_compression_healing(c, i, &h) != 0; i++) {
        json_array_append_new(list, summary_json(&h));
    }
    return list;
}
