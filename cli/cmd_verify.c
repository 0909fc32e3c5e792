/* grail verify: is the narrow model what it should be? */
#include "commands.h"
#include "print.h"

#include <grail/grail.h>

static grail_text_source source;
static const char *backend = "cpu", *protocol = "plain";
static int64_t windows = 4, threads;
static double tolerance = 1e-3;
static bool as_json;

static const option table[] = {
    {"data", OPTION_TEXT, &source.path, "FILE", NULL, "text (4 x 64 random token ids)"},
    {"field", OPTION_TEXT, &source.field, "NAME", NULL, "text field of JSON lines (text)"},
    {"protocol", OPTION_TEXT, &protocol, "NAME", "plain lines wikitext2 ptb c4",
     "how text becomes tokens: plain, lines, wikitext2, ptb, c4"},
    {"context", OPTION_INTEGER, &source.context, "N", NULL, "tokens per window"},
    {"windows", OPTION_INTEGER, &windows, "N", NULL, "how many windows of the text (4)"},
    {"tolerance", OPTION_REAL, &tolerance, "X", NULL,
     "largest difference that the zero-column identity may show (1e-3)"},
    {"threads", OPTION_THREADS, &threads, "N", NULL, "threads (all cores)"},
    {"backend", OPTION_TEXT, &backend, "NAME", "cpu ref", "cpu, or ref (slow, f64) (cpu)"},
    {"json", OPTION_FLAG, &as_json, NULL, NULL, "print JSON"},
    {0},
};
const option *const verify_options = table;

static bool identity_holds(const grail_comparison *c)
{
    return c->identity_checked == 0 || c->identity_max_abs <= tolerance;
}

static void print_result(const grail_comparison *c)
{
    printf("logits on %lld tokens: max abs difference %.3g, KL per token %.4g (max %.3g), same "
           "top token %.1f %%\n",
           (long long)c->tokens, c->max_abs, c->mean_kl, c->max_kl, 100.0 * c->top1_agreement);
    if (c->identity_checked != 0) {
        printf("zero-column identity: max abs difference %.3g, %s (tolerance %g)\n",
               c->identity_max_abs, identity_holds(c) ? "holds" : "DOES NOT HOLD", tolerance);
    } else {
        printf("zero-column identity: does not apply (it needs a pruned model of "
               "--compensate none with its report.json)\n");
    }
}

static int print_result_json(const grail_comparison *c)
{
    json_t *identity =
        c->identity_checked != 0
            ? json_pack("{s:f, s:b}", "max_abs", c->identity_max_abs, "holds", identity_holds(c))
            : json_null();
    return print_json(json_pack("{s:I, s:f, s:f, s:f, s:f, s:o}", "tokens", (json_int_t)c->tokens,
                                "max_abs", c->max_abs, "mean_kl", c->mean_kl, "max_kl", c->max_kl,
                                "top1_agreement", c->top1_agreement, "zero_column_identity",
                                identity));
}

static int verify(const char *const directories[2])
{
    int code = EXIT_OK;
    grail_model *dense = NULL;
    grail_model *narrow = NULL;
    grail_comparison result = {0};
    grail_status status = grail_model_open(directories[0], &dense);
    if (status == GRAIL_OK) {
        status = grail_model_open(directories[1], &narrow);
    }
    if (status == GRAIL_OK) {
        status = grail_verify(dense, narrow, &source, windows, backend, &result);
    }
    if (status != GRAIL_OK) {
        code = print_failure(status);
    } else {
        if (as_json) {
            code = print_result_json(&result);
        } else {
            print_result(&result);
        }
        code = code == EXIT_OK && !identity_holds(&result) ? EXIT_NUMERIC : code;
    }
    grail_model_close(dense);
    grail_model_close(narrow);
    return code;
}

static int run(int argc, char **argv)
{
    const char *directories[2] = {NULL, NULL};
    bool help = false;
    const int code = options_parse(&command_verify, table, argc, argv, directories, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    source.protocol = protocol;
    if (threads > 0) {
        grail_set_threads((int)threads);
    }
    return verify(directories);
}

const command command_verify = {
    .name = "verify",
    .arguments = "DENSE NARROW",
    .positional_count = 2,
    .summary = "compare a narrow model with its dense one",
    .details =
        "Any pair is compared by its logits. A model that was pruned with --compensate none "
        "must also\nequal the dense one whose removed consumer columns are zero; exit code 3 "
        "says that it does not.",
    .run = run,
};
