#include "pipeline/request/options.h"

#include "arch/model_text.h"
#include "base/option_values.h"
#include "base/options.h"
#include "graph/site.h"
#include "heal/heal_options.h"
#include "pipeline/request/calibration_text.h"
#include "reduce/selector.h"

#include <string.h>

const char *const rounded_type_names[] = {"none", "w4a16", "w8a16", "q8_0", "q6_k",
                                          "q5_0", "q4_0",  "q4_k",  NULL};

/* clang-format off */
#define FIELD(member) OPTION_FIELD(grail_compress_options, member)
/* One option of the command line, --sparsity, sets them all. */
#define SPARSITY(member, text)                                                                     \
    {FIELD(amount.member), .type = GRAIL_OPTION_SPARSITY, .subject = GRAIL_SUBJECT_AMOUNT,         \
     .what = "sparsity", .below = 1.0, .decides = 1, .argument = "R", .help = (text)}
#define NO_HEALING .only_with = "heal effort=best time", .never_with = "heal=none"

/* In the order of --help within a subject; what chooses values of others stands before them. */
static const grail_option fields[] = {
    /* what is read */
    {FIELD(read.samples), .type = GRAIL_OPTION_INTEGER, .what = "the number of samples",
     .zero_is_usual = 1, .decides = 1, .name = "samples", .argument = "N", .only_with = "calib",
     .help = "number of calibration windows or images (128; windows of 64 tokens for each neuron "
             "of a layer if that is more; or all if there are fewer)"},
    {FIELD(read.seed), .type = GRAIL_OPTION_SEED, .decides = 1, .name = "seed", .argument = "N",
     .help = "seed for drawing samples and for random choices (0)"},

    /* what is cut */
    {FIELD(cut.selector), .type = GRAIL_OPTION_SELECTOR, .subject = GRAIL_SUBJECT_CUT,
     .what = "selector", .usual = "obs", .decides = 1, .name = "selector", .argument = "NAME",
     .help = "rule that chooses the units that stay, or merges units (obs):"},
    {FIELD(cut.select), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_CUT, .what = "selection",
     .words = loop_words, .decides = 1, .key = "select", .name = "select", .argument = "NAME",
     .help = "network whose statistics choose the units: closed (the network as narrowed so far) "
             "or open (the dense network) (closed)"},
    {FIELD(cut.statistics), .type = GRAIL_OPTION_TEXT, .subject = GRAIL_SUBJECT_CUT,
     .name = "stats", .argument = "FILE",
     .only_with = "loop=open select=open plan target-ratio target-params target-macs "
                  "target-kv-bytes target-size",
     .help = "take statistics of the dense network from this file of grail gram, or from an "
             "importance matrix (imatrix), instead of a pass over the samples"},
    {FIELD(cut.stream_score), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_CUT,
     .what = "stream score", .words = stream_score_words, .decides = 1, .key = "stream_score",
     .name = "stream-score", .argument = "NAME",
     .help = "producers that score the channels of a residual stream: first, all, or branch, the "
             "last convolution of a stage's first block (first)"},
    {FIELD(cut.metric), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_CUT, .what = "metric",
     .words = metric_words, .decides = 1, .key = "metric", .name = "metric", .argument = "NAME",
     .help = "what obs, ziplm and slimgpt measure errors by at the output that reads a site: plain "
             "(all outputs alike), fisher (by gradients of the loss at labels that the network draws "
             "itself) or auto, fisher for FFNs of language models (auto)"},
    {FIELD(cut.align), .type = GRAIL_OPTION_INTEGER, .subject = GRAIL_SUBJECT_CUT,
     .what = "the alignment", .zero_is_usual = 1, .words = OPTION_WORDS("auto", "1", "8", "32", "64", "128", "256"), .decides = 1,
     .key = "align", .name = "align", .argument = "N", .never_with = "plan",
     .help = "round widths to a multiple of N; 1 does not round; auto rounds FFN widths to a "
             "multiple of 128, 64, 32 or 16, and channels to 32 or 16, where that changes little, "
             "else to 8; it rounds FFNs to whole blocks of a quantised type (auto)"},
    {FIELD(cut.gqa), .type = GRAIL_OPTION_CHOICE, .subject = GRAIL_SUBJECT_CUT,
     .words = gqa_words, .decides = 1,
     .key = "gqa", .name = "gqa", .argument = "MODE",
     .help = "unit that is cut in grouped-query attention: kv-groups or query-per-group "
             "(kv-groups)"},

    /* how much is cut */
    SPARSITY(sparsity_ffn, "fraction to remove from every ffn site (0)"),
    SPARSITY(sparsity_heads, "fraction to remove from every heads site (0)"),
    SPARSITY(sparsity_conv, "fraction to remove from every conv site (0)"),
    SPARSITY(sparsity_stream, "fraction to remove from every stream site (0)"),
    SPARSITY(sparsity_experts, "fraction to remove from every experts site (0)"),
    SPARSITY(sparsity_latent, "fraction to remove from every latent site (0)"),
    SPARSITY(sparsity_values, "fraction to remove from every values site (0)"),
    SPARSITY(sparsity_groups, "fraction to remove from every groups site (0)"),

    /* how it is repaired */
    {FIELD(fit.compensate), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_FIT,
     .what = "compensation", .words = compensation_words, .usual = "full", .decides = 1,
     .name = "compensate", .argument = "NAME",
     .help = "repair of the cuts: none, own (the one that the selector's authors make), grail (as "
             "in the paper), or full; sets the defaults of the next eight options (full)"},
    {FIELD(fit.target), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_FIT, .what = "target",
     .words = target_words, .decides = 1, .key = "target", .name = "target", .argument = "NAME",
     .never_with = NO_FIT,
     .help = "output that the fit of a consumer aims at: local (the dense weights on the narrowed "
             "network's activations), dense (the dense network's output), or mixed (between both, "
             "by how far they agree)"},
    {FIELD(fit.bias), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_FIT, .what = "bias mode",
     .words = bias_words, .decides = 1, .key = "bias", .name = "bias", .argument = "MODE",
     .never_with = NO_FIT,
     .help = "fit a bias: off, on, or auto (where the checkpoint can store one)"},
    {FIELD(fit.conv_fit), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_FIT,
     .what = "convolution fit", .words = conv_fit_words, .decides = 1, .key = "conv_fit",
     .name = "conv-fit", .argument = "NAME",
     .help = "for convolutions: channel fits one map shared by all kernel positions, kernel fits "
             "each position separately"},
    {FIELD(fit.ridge), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_FIT, .what = "ridge",
     .words = ridge_words, .decides = 1, .key = "ridge", .name = "ridge", .argument = "NAME",
     .never_with = NO_FIT,
     .help = "weights that the fit is shrunk towards: zero, or prior (those of the plain cut)"},
    {FIELD(fit.refit), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_FIT, .what = "refit",
     .words = refit_words, .decides = 1, .key = "refit", .name = "refit", .argument = "NAME",
     .never_with = NO_FIT,
     .help = "maps that are fitted besides the cut ones: none, all that read what a cut has "
             "changed, or auto (all, where the target is the dense network in a closed loop)"},
    {FIELD(fit.ridge_scale), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_FIT,
     .what = "ridge scale", .words = ridge_scale_words, .decides = 1, .key = "ridge_scale",
     .name = "ridge-scale", .argument = "NAME", .never_with = NO_FIT,
     .help = "penalty of a feature: mean (the same for all) or diagonal (relative to its own "
             "variance)"},
    {FIELD(fit.token_weights), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_FIT,
     .what = "token weights", .words = token_weights_words, .decides = 1, .key = "token_weights",
     .name = "token-weights", .argument = "NAME", .never_with = NO_FIT,
     .help = "weights of tokens in a fit with the dense target: none, or stream (the inverse "
             "square of the residual stream's norm)"},
    {FIELD(fit.alpha), .type = GRAIL_OPTION_NUMBER, .subject = GRAIL_SUBJECT_FIT, .what = "alpha",
     .words = OPTION_WORDS("cv"), .decides = 1, .key = "alpha", .name = "alpha", .argument = "A",
     .never_with = NO_FIT,
     .help = "ridge relative to the diagonal of the normal matrix, at least 0; cv chooses it by "
             "cross-validation"},
    {FIELD(fit.open_loop), .type = GRAIL_OPTION_CHOICE, .subject = GRAIL_SUBJECT_FIT,
     .words = loop_words, .decides = 1, .key = "loop",
     .name = "loop", .argument = "NAME",
     .help = "network that the statistics are taken from: closed (the network as narrowed so far) "
             "or open (the dense network) (closed)"},
    {FIELD(fit.repair), .type = GRAIL_OPTION_FLAG, .subject = GRAIL_SUBJECT_FIT,
     .decides = 1, .key = "repair", .name = "repair",
     .help = "REPAIR: recompute BatchNorm statistics on the narrowed network"},

    /* what is trained afterwards */
    {FIELD(heal.what), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_HEAL, .what = "healing",
     .words = heal_words, .decides = 1, .key = "heal", .name = "heal", .argument = "WHAT",
     .help = "train after the closed form, without labels: block (each block towards the dense "
             "network's stream), model (the whole network towards its outputs), block,model or "
             "none (none)"},
    {FIELD(heal.steps), .type = GRAIL_OPTION_INTEGER, .subject = GRAIL_SUBJECT_HEAL,
     .what = "the number of steps of healing", .zero_is_usual = 1, .decides = 1,
     .key = "heal_steps", .name = "heal-steps", .argument = "N", NO_HEALING,
     .help = "steps of every training (160)"},
    {FIELD(heal.batch), .type = GRAIL_OPTION_INTEGER, .subject = GRAIL_SUBJECT_HEAL,
     .what = "the number of samples of a step of healing", .zero_is_usual = 1, .decides = 1,
     .key = "heal_batch", .name = "heal-batch", .argument = "N", NO_HEALING,
     .help = "windows or images of each step (64 images, or windows of 2048 tokens together)"},
    {FIELD(heal.own_samples), .type = GRAIL_OPTION_INTEGER, .subject = GRAIL_SUBJECT_HEAL,
     .what = "the number of samples of healing", .zero_is_usual = 1, .decides = 1,
     .key = "heal_samples", .name = "heal-samples", .argument = "N",
     .only_with = "heal=model heal=block,model teacher effort=best time", .never_with = "heal=none heal=block",
     .help = "windows or images that the network is healed on, where that are not the calibration "
             "samples (those)"},
    {FIELD(heal.group), .type = GRAIL_OPTION_INTEGER, .subject = GRAIL_SUBJECT_HEAL,
     .what = "the number of blocks that are healed together", .zero_is_usual = 1, .decides = 1,
     .key = "heal_group", .name = "heal-group", .argument = "N",
     .only_with = "heal=block heal=block,model",
     .help = "neighbouring blocks that are trained together (1)"},
    {FIELD(heal.rate), .type = GRAIL_OPTION_REAL, .subject = GRAIL_SUBJECT_HEAL,
     .what = "the rate of healing", .below = 1.0, .zero_is_usual = 1, .decides = 1,
     .key = "heal_rate", .name = "heal-rate", .argument = "R", NO_HEALING,
     .help = "largest step, as a share of each matrix's root mean square (0.06 for blocks; for "
             "the network 0.005 with images, and with text 0.02 for 327,680 tokens, more or less by "
             "the root of their number; with text less where tokens have more than 160 or 64 "
             "features)"},
    {FIELD(heal.time), .type = GRAIL_OPTION_SECONDS, .subject = GRAIL_SUBJECT_HEAL,
     .what = "the time for healing in seconds", .zero_is_usual = 1, .decides = 1,
     .name = "heal-time", .argument = "TIME", NO_HEALING,
     .help = "time for all trainings together, such as 90s, 10m or 2h; the result then depends on "
             "the speed of the machine (no limit)"},

    /* with which means */
    {FIELD(run.memory), .type = GRAIL_OPTION_SIZE, .subject = GRAIL_SUBJECT_RUN,
     .what = "the memory for activations", .zero_is_usual = 1, .name = "memory",
     .argument = "BYTES", .unrecorded = 1,
     .help = "memory for kept activations, such as 500M; if they do not fit, blocks are "
             "recomputed (half of the available memory)"},
    {FIELD(run.backend), .type = GRAIL_OPTION_BACKEND, .subject = GRAIL_SUBJECT_RUN, .usual = "cpu",
     .decides = 1, .name = "backend", .argument = "NAME", .help = "what computes (cpu):"},
    {FIELD(run.precision), .type = GRAIL_OPTION_TEXT, .subject = GRAIL_SUBJECT_RUN,
     .words = OPTION_WORDS("auto", "f32", "bf16", "bf16-gram", "bf16x3", "f64"), .decides = 1,
     .key = "precision", .name = "precision", .argument = "NAME",
     .help = "precision of products: f32, bf16 (with f32 sums), bf16-gram (Gram matrices, too), "
             "bf16x3 (f32 made of three products of bf16, for AMX), f64 (ref alone), or auto: bf16, "
             "with AMX bf16-gram, for large networks stored in 16 bits where that is faster here, "
             "and with AMX bf16x3 for those of f32 (auto)"},
    {FIELD(run.time), .type = GRAIL_OPTION_SECONDS, .subject = GRAIL_SUBJECT_RUN,
     .what = "the time of the run in seconds", .zero_is_usual = 1},
    {FIELD(run.scratch), .type = GRAIL_OPTION_TEXT, .subject = GRAIL_SUBJECT_RUN, .name = "scratch",
     .argument = "DIR", .unrecorded = 1,
     .help = "keep large matrices in files there instead of in memory"},

    /* what is written */
    {FIELD(output.quantize), .type = GRAIL_OPTION_WORD, .subject = GRAIL_SUBJECT_OUTPUT,
     .what = "type of quantised weights", .words = rounded_type_names, .decides = 1,
     .name = "quantize", .argument = "TYPE", .only_with = "calib", .never_with = "loop=open heal=block heal=model heal=block,model comm",
     .help = "round the matrices of a language model as soon as they are fitted, with error "
             "feedback on the samples: w4a16 or w8a16 (those of the layers, of 4 or 8 bits, as "
             "compressed-tensors), q8_0, q6_k, q5_0, q4_0 or q4_k (a GGUF file in DIR), or none "
             "(none)"},
    {FIELD(output.resume), .type = GRAIL_OPTION_FLAG, .subject = GRAIL_SUBJECT_OUTPUT,
     .name = "resume", .unrecorded = 1,
     .help = "continue an interrupted run from DIR.partial"},
    {FIELD(output.keep_non_finite), .type = GRAIL_OPTION_FLAG, .subject = GRAIL_SUBJECT_OUTPUT,
     .name = "keep-non-finite",
     .help = "copy tensors that hold NaN or infinity where nothing computes with them; without "
             "this they are an error"},
    {FIELD(output.dry_run), .type = GRAIL_OPTION_FLAG, .subject = GRAIL_SUBJECT_OUTPUT,
     .name = "dry-run", .unrecorded = 1,
     .help = "check the options and the files that they name, and print the widths, the totals, who "
             "loads the result and what the run would take; write nothing"},
    {FIELD(run.profile), .type = GRAIL_OPTION_FLAG, .subject = GRAIL_SUBJECT_OUTPUT,
     .name = "profile", .unrecorded = 1,
     .help = "tell at the end, and in report.json, what the time of the run went to"},

    OPTION_ROOM(grail_compress_options, read.room, grail_read_options),
    OPTION_ROOM(grail_compress_options, cut.room, grail_cut_options),
    OPTION_ROOM(grail_compress_options, amount.room, grail_amount_options),
    OPTION_ROOM(grail_compress_options, fit.room, grail_fit_options),
    OPTION_ROOM(grail_compress_options, heal.room, grail_heal_options),
    OPTION_ROOM(grail_compress_options, run.room, grail_run_options),
    OPTION_ROOM(grail_compress_options, output.room, grail_output_options),
    OPTION_ROOM(grail_compress_options, room, grail_compress_options),
    {0},
};
/* clang-format on */

const grail_option *grail_compress_option_at(int i)
{
    return option_at(fields, i);
}

void grail_compress_options_init(grail_compress_options *options)
{
    *options = (grail_compress_options){0};
    options_init(fields, options);
}

const char *grail_selector_at(int i)
{
    const selector *s = selector_at(i);
    return s == NULL ? NULL : s->name;
}

const char *grail_site_kind_at(int i)
{
    return i >= 0 && i < SITE_KINDS ? site_kind_name((site_kind)i) : NULL;
}

double *grail_compress_sparsity(grail_compress_options *options, const char *kind)
{
    double *const sparsities[SITE_KINDS] = {
        [SITE_FFN] = &options->amount.sparsity_ffn,
        [SITE_HEADS] = &options->amount.sparsity_heads,
        [SITE_CONV] = &options->amount.sparsity_conv,
        [SITE_STREAM] = &options->amount.sparsity_stream,
        [SITE_EXPERTS] = &options->amount.sparsity_experts,
        [SITE_LATENT] = &options->amount.sparsity_latent,
        [SITE_VALUES] = &options->amount.sparsity_values,
        [SITE_GROUPS] = &options->amount.sparsity_groups,
    };
    for (int k = 0; k < SITE_KINDS; k++) {
        if (strcmp(site_kind_name((site_kind)k), kind) == 0) {
            return sparsities[k];
        }
    }
    return NULL;
}

grail_status grail_selector_describe(const char *name, grail_selector_facts *out)
{
    const selector *s = NULL;
    CHECK(selector_from_name(name, &s));
    *out = (grail_selector_facts){
        .index = selector_index(s),
        .summary = s->summary,
        .folds = s->folds ? 1 : 0,
        .draws = s->draws ? 1 : 0,
        .needs_statistics = s->uses_data ? 1 : 0,
    };
    return GRAIL_OK;
}

static grail_status check_site_sparsities(const grail_compress_options *o)
{
    CHECK(option_integer("amount.site_sparsity_count", "the number of single sites",
                         o->amount.site_sparsity_count, 0));
    if (o->amount.site_sparsity_count > 0) {
        CHECK(option_given("amount.site_sparsities", "list of single sites",
                           o->amount.site_sparsities));
    }
    for (int i = 0; i < o->amount.site_sparsity_count; i++) {
        CHECK(OPTION_ROOM_OF(grail_site_sparsity, &o->amount.site_sparsities[i]));
        CHECK(option_given("site", "name of a single site", o->amount.site_sparsities[i].site));
        CHECK(
            option_about("sparsity", option_check_sparsity(o->amount.site_sparsities[i].sparsity)));
    }
    return GRAIL_OK;
}

grail_status compress_options_check(const grail_compress_options *o)
{
    if (o->read.session == NULL) {
        CHECK(option_given("read.model", "model", o->read.model));
    }
    CHECK(options_check(fields, o));
    CHECK(text_source_check(&o->read.text));
    CHECK(text_parts_check(&o->read));
    return check_site_sparsities(o);
}

grail_status plan_from_fields(const grail_compress_options *o, plan *p)
{
    p->seed = o->read.seed;
    return options_transfer(fields, o, plan_fields, p);
}

grail_status plan_to_fields(const plan *p, grail_compress_options *o)
{
    const grail_status status = options_transfer(plan_fields, p, fields, o);
    return status == GRAIL_OK ? options_transfer(compensation_fields, &p->compensation, fields, o)
                              : status;
}

grail_status compress_options_record(const grail_compress_options *o, json_t *object)
{
    return options_record(fields, o, object);
}

/* Whether a field that may be left open has a value. */
static bool is_given(const grail_option *f, const grail_compress_options *o)
{
    const char *word = NULL;
    grail_number number = {0};
    const char *at = (const char *)o + f->offset;
    switch (f->type) {
    case GRAIL_OPTION_WORD:
        memcpy(&word, at, sizeof word);
        return word != NULL;
    case GRAIL_OPTION_NUMBER:
        memcpy(&number, at, sizeof number);
        return number.choice != GRAIL_NUMBER_USUAL;
    default:
        return false;
    }
}

/* An own compensation that trains blocks leaves no fit that fields could describe. */
static grail_status check_no_fit(const grail_compress_options *o, const selector *rule)
{
    for (int i = 0; fields[i].field != NULL; i++) {
        const grail_option *f = &fields[i];
        if (f->never_with != NULL && strcmp(f->never_with, NO_FIT) == 0 && is_given(f, o)) {
            return error_about(
                error_set(
                    GRAIL_ERROR_ARGUMENT,
                    "the compensation 'own' of selector '%s' trains blocks and fits nothing, "
                    "so the choice of %s has no effect; leave it out, or choose grail or full",
                    rule->name, f->what),
                f->field);
        }
    }
    return GRAIL_OK;
}

grail_status compensation_from_options(const grail_compress_options *o, const selector *rule,
                                       compensation *out)
{
    compensation c = {0};
    CHECK(option_about("fit.compensate", compensation_from_name(o->fit.compensate, rule, &c)));
    if (c.regional_training) {
        CHECK(check_no_fit(o, rule));
    }
    CHECK(options_transfer(fields, o, compensation_fields, &c));
    *out = c;
    return GRAIL_OK;
}
