/* grail eval: perplexity, with everything needed to compare it with another one. */
#include "commands.h"
#include "print.h"

#include <grail/grail.h>

#include <math.h>
#include <unistd.h>

static grail_text_source source;
static const char *backend = "cpu", *protocol = "plain";
static int64_t windows, threads;
static bool as_json, quiet, window_bos;

static const option table[] = {
    {"data", OPTION_TEXT, &source.path, "FILE", NULL,
     "text: .txt, .jsonl, .jsonl.gz, or token ids .npy"},
    {"field", OPTION_TEXT, &source.field, "NAME", NULL, "text field of JSON lines (text)"},
    {"protocol", OPTION_TEXT, &protocol, "NAME", "plain lines wikitext2 ptb c4",
     "how text becomes tokens: plain, lines, wikitext2, ptb, c4"},
    {"context", OPTION_INTEGER, &source.context, "N", NULL,
     "tokens per window (2048, or the model's maximum)"},
    {"window-bos", OPTION_FLAG, &window_bos, NULL, NULL, "begin every window with BOS"},
    {"windows", OPTION_INTEGER, &windows, "N", NULL, "measure the first N windows only"},
    {"threads", OPTION_THREADS, &threads, "N", NULL, "threads (all cores)"},
    {"backend", OPTION_TEXT, &backend, "NAME", "cpu ref", "cpu, or ref (slow, f64) (cpu)"},
    {"quiet", OPTION_FLAG, &quiet, NULL, NULL, "no progress"},
    {"json", OPTION_FLAG, &as_json, NULL, NULL, "print JSON"},
    {0},
};
const option *const eval_options = table;

static int show_progress(void *user, int64_t done, int64_t total, double nll)
{
    (void)user;
    if (!quiet && isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r%lld/%lld windows, perplexity so far %.4f ", (long long)done,
                (long long)total, exp(nll));
        if (done == total) {
            fprintf(stderr, "\r\033[K");
        }
    }
    return 0;
}

static void warn_overlap(const grail_perplexity *p)
{
    if (p->overlap_runs > 0) {
        fprintf(stderr,
                "grail: warning: this text holds %lld runs of 24 tokens that the model was "
                "calibrated on (of %lld recorded); its perplexity says little about other text\n",
                (long long)p->overlap_runs, (long long)p->calibration_runs);
    }
}

static void print_result(const char *model, const grail_perplexity *p)
{
    printf("perplexity %.4f +- %.4f (mean NLL %.6f)\n", p->perplexity, p->error, p->mean_nll);
    printf("  model      %s (%s weights, computed in %s)\n", model, p->dtype,
           backend[0] == 'r' ? "f64" : "f32");
    printf("  text       %s, protocol %s%s\n", source.path, p->protocol,
           window_bos ? ", every window begins with BOS" : "");
    printf("  windows    %lld of context %lld, stride %lld; %lld tokens scored of %lld\n",
           (long long)p->windows, (long long)p->context, (long long)p->stride,
           (long long)p->scored_tokens, (long long)p->stream_tokens);
    printf("  sha256     text %.16s..., tokenizer %.16s%s\n", p->text_sha256,
           p->tokenizer_sha256[0] == 0 ? "none" : p->tokenizer_sha256,
           p->tokenizer_sha256[0] == 0 ? "" : "...");
}

static int print_result_json(const char *model, const grail_perplexity *p)
{
    return print_json(json_pack(
        "{s:s, s:f, s:f, s:f, s:s, s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:I}",
        "model", model, "perplexity", p->perplexity, "error", p->error, "mean_nll", p->mean_nll,
        "dtype", p->dtype, "backend", backend, "protocol", p->protocol, "window_bos",
        window_bos ? 1 : 0, "windows", (json_int_t)p->windows, "context", (json_int_t)p->context,
        "stride", (json_int_t)p->stride, "scored_tokens", (json_int_t)p->scored_tokens,
        "stream_tokens", (json_int_t)p->stream_tokens, "text_sha256", p->text_sha256,
        "tokenizer_sha256", p->tokenizer_sha256, "overlap_runs", (json_int_t)p->overlap_runs,
        "calibration_runs", (json_int_t)p->calibration_runs));
}

static int evaluate(const char *directory)
{
    int code = EXIT_OK;
    grail_model *model = NULL;
    grail_perplexity p = {0};
    grail_status status = grail_model_open(directory, &model);
    if (status == GRAIL_OK) {
        status =
            grail_perplexity_measure(model, &source, windows, backend, show_progress, NULL, &p);
    }
    if (status != GRAIL_OK) {
        code = print_failure(status);
    } else {
        warn_overlap(&p);
        if (as_json) {
            code = print_result_json(directory, &p);
        } else {
            print_result(directory, &p);
        }
    }
    grail_model_close(model);
    return code;
}

static int run(int argc, char **argv)
{
    const char *directory = NULL;
    bool help = false;
    const int code = options_parse(&command_eval, table, argc, argv, &directory, &help);
    if (code != EXIT_OK || help) {
        return code;
    }
    if (source.path == NULL) {
        fprintf(stderr, "grail eval: give the text with --data FILE\n");
        return EXIT_USAGE;
    }
    source.protocol = protocol;
    source.window_bos = window_bos ? 1 : 0;
    if (threads > 0) {
        grail_set_threads((int)threads);
    }
    return evaluate(directory);
}

const command command_eval = {
    .name = "eval",
    .arguments = "MODEL",
    .positional_count = 1,
    .summary = "measure perplexity, stating all that it depends on",
    .run = run,
};
