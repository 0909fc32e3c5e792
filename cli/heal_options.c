#include "heal_options.h"

#include "print.h"

#include <math.h>
#include <stdlib.h>

/* A positive number of seconds, minutes or hours. */
static bool read_time(const char *text, double *out)
{
    char *end = NULL;
    const double number = strtod(text, &end);
    const double unit = *end == 'h' ? 3600.0 : *end == 'm' ? 60.0 : 1.0;
    if (end == text || !isfinite(number) || !(number > 0.0)) {
        return false;
    }
    end += *end == 'h' || *end == 'm' || *end == 's' ? 1 : 0;
    *out = number * unit;
    return *end == 0;
}

/* The library takes 0 for what is not given. */
static int check_numbers(const command *c, const heal_options *h)
{
    if (!isnan(h->rate) && !(h->rate > 0.0 && h->rate < 1.0)) {
        print_error("grail %s: --heal-rate takes a number above 0 and below 1, not %g; see grail "
                    "%s --help\n",
                    c->name, h->rate, c->name);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

int heal_options_read(const command *c, const heal_options *h, grail_compress_options *out)
{
    const int code = check_numbers(c, h);
    if (code != EXIT_OK) {
        return code;
    }
    if (h->time != NULL && !read_time(h->time, &out->heal_seconds)) {
        print_error("grail %s: --heal-time takes a time above 0, such as 90s, 10m or 2h, not '%s'; "
                    "see grail %s --help\n",
                    c->name, h->time, c->name);
        return EXIT_USAGE;
    }
    out->heal = h->what == NULL ? out->heal : h->what;
    out->heal_steps = h->steps < 0 ? out->heal_steps : h->steps;
    out->heal_rate = isnan(h->rate) ? out->heal_rate : h->rate;
    out->scratch = h->scratch;
    return EXIT_OK;
}

void heal_progress_print(const grail_healing *now)
{
    if (now->block >= 0) {
        print_error("  healing block %d/%d", now->block + 1, now->blocks);
    } else {
        print_error("  healing the network");
    }
    print_error(": step %lld of %lld, loss %.5f -> %.5f", (long long)now->steps,
                (long long)now->most_steps, now->held_before, now->held_after);
    if (now->ended != 0) {
        print_error(" (seen %.5f -> %.5f), %s step %lld kept", now->seen_before, now->seen_after,
                    now->best_step == 0 ? "nothing better than" : "that of",
                    (long long)now->best_step);
    }
    print_error("\n");
}

static void print_what(const grail_healing *h)
{
    if (h->block >= 0) {
        print_out("healed block %d of %d", h->block + 1, h->blocks);
    } else {
        print_out("healed the network");
    }
}

static void print_summary(const grail_healing *h)
{
    char time[HUMAN_SIZE];
    print_what(h);
    print_out(" in %lld steps and %s: loss on held-out samples %.5f -> %.5f, on those seen %.5f -> "
              "%.5f\n",
              (long long)h->steps, human_seconds(h->seconds, time), h->held_before, h->held_after,
              h->seen_before, h->seen_after);
}

static json_t *summary_json(const grail_healing *h)
{
    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:f}", "block",
                     h->block < 0 ? json_null() : json_integer(h->block), "steps",
                     (json_int_t)h->steps, "best_step", (json_int_t)h->best_step,
                     "held_loss_before", json_number_or_null(h->held_before), "held_loss_after",
                     json_number_or_null(h->held_after), "seen_loss_before",
                     json_number_or_null(h->seen_before), "seen_loss_after",
                     json_number_or_null(h->seen_after), "seconds", h->seconds);
}

void heal_summaries_print(const grail_compression *c)
{
    grail_healing h;
    for (int i = 0; grail_compression_healing(c, i, &h) != 0; i++) {
        print_summary(&h);
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
