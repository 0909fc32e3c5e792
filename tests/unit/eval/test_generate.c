/* Decoding token by token gives the logits of the whole text, and tokens are drawn as asked for. */
#include "unit/pipeline/lab.h"

#include "arch/model_text.h"
#include "backend/operations.h"
#include "eval/forward.h"
#include "exec/decoding.h"
#include "exec/next_token.h"
#include "support/support.h"

#include <grail/generate.h>

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { SEQUENCES = 3, LENGTH = 14 };

/* to[SEQUENCES, count] <- columns of ids[SEQUENCES, LENGTH] */
static void take_columns(const int32_t *ids, int64_t first, int64_t count, int32_t *to)
{
    for (int64_t s = 0; s < SEQUENCES; s++) {
        memcpy(to + s * count, ids + s * LENGTH + first, (size_t)count * sizeof *to);
    }
}

/* The largest difference of `found` to the logits of the last of `count` tokens, run as a whole. */
static double error_of_last(const grail_model *model, parameter_store *store, const int32_t *ids,
                            int64_t count, const float *found)
{
    int32_t own[LENGTH];
    matrix logits = {0};
    OWNED(forward_pass) f = {0};
    OWNED(float) *expected = NULL;
    double worst = 0.0;
    memcpy(own, ids, sizeof own);
    const token_windows windows = {.ids = own, .count = 1, .length = count};
    assert_ok(forward_begin(&f, model, store, &windows, 0, 1));
    assert_ok(forward_logits(&f, 0, count - 1, 1, &logits));
    assert_ok(memory_new(&expected, (size_t)logits.columns, sizeof expected[0]));
    assert_ok(matrix_download_f32(logits, expected));
    for (int64_t i = 0; i < logits.columns; i++) {
        worst = fmax(worst, fabs((double)found[i] - (double)expected[i]));
    }
    return worst;
}

/* The largest difference to the logits of whole texts, ids[SEQUENCES, LENGTH], whose tokens are
 * appended one by one behind the first ones. */
static double difference(const grail_model *model, const int32_t *ids, int64_t first)
{
    decoding d = {0};
    const int64_t vocabulary = model->graph->vocabulary;
    OWNED(float) *found = NULL;
    double worst = 0.0;
    assert_ok(memory_new(&found, (size_t)(SEQUENCES * vocabulary), sizeof found[0]));
    OPENED(parameter_store, store, parameter_store_create(model, backend_host(), NULL, &store));
    assert_ok(decoding_begin(&d, store, SEQUENCES, LENGTH));
    for (int64_t count = 0; count < LENGTH;) {
        const int64_t more = count == 0 ? first : 1;
        int32_t own[SEQUENCES * LENGTH];
        matrix logits = {0};
        take_columns(ids, count, more, own);
        assert_ok(decoding_append(&d, own, more, &logits));
        assert_ok(matrix_download_f32(logits, found));
        count += more;
        for (int64_t s = 0; s < SEQUENCES; s++) {
            worst = fmax(worst, error_of_last(model, store, ids + s * LENGTH, count,
                                              found + s * vocabulary));
        }
    }
    decoding_end(&d);
    return worst;
}

/* Grouped heads, learned positions, windows, caps, heads side by side, partial and long rotations.
 */
TEST(tokens_one_by_one_have_the_logits_of_the_whole)
{
    static const char *const models[] = {
        "llama3", "gpt2",    "opt",    "gemma2", "gemma3", "phi3",       "phi",        "glm4",
        "falcon", "mistral", "cohere", "olmo2",  "qwen3",  "llama-yarn", "phi3-short", "mixtral"};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        OWNED(token_windows) ids = {0};
        OPENED(grail_model, model, grail_model_open(lab_golden(models[m]), &model));
        assert_ok(random_windows(model, SEQUENCES, LENGTH, &ids));
        for (int64_t first = 1; first <= 6; first += 5) {
            const double worst = difference(model, ids.ids, first);
            if (!(worst < 1e-4)) {
                fail_msg("%s: logits differ by %g", models[m], worst);
            }
        }
    }
}

TEST(more_tokens_than_were_asked_for_are_refused)
{
    const int32_t ids[] = {1, 2, 3};
    decoding d = {0};
    matrix logits = {0};
    OPENED(grail_model, model, grail_model_open(lab_golden("llama3"), &model));
    OPENED(parameter_store, store, parameter_store_create(model, backend_host(), NULL, &store));
    assert_ok(decoding_begin(&d, store, 1, 2));
    assert_fails(decoding_append(&d, ids, 3, &logits), GRAIL_ERROR_ARGUMENT, "more than 2 tokens");
    assert_ok(decoding_append(&d, ids, 2, &logits));
    assert_fails(decoding_append(&d, ids, 1, &logits), GRAIL_ERROR_ARGUMENT, "more than 2 tokens");
    decoding_end(&d);
}

/* How often each of four tokens is drawn in 4000 draws. */
static void count_draws(token_choice o, int counts[4])
{
    /* probabilities 0.4, 0.3, 0.2, 0.1 */
    const float logits[] = {logf(2.0F), logf(4.0F), logf(1.0F), logf(3.0F)};
    random_state random;
    random_seed(&random, 0, 0);
    memset(counts, 0, 4 * sizeof counts[0]);
    for (int i = 0; i < 4000; i++) {
        int32_t id = -1;
        assert_ok(next_token(&o, logits, 4, &random, &id));
        assert_in_range(id, 0, 3);
        counts[id]++;
    }
}

TEST(tokens_are_drawn_by_their_probabilities)
{
    int counts[4];
    count_draws((token_choice){.temperature = 0.0}, counts);
    assert_int_equal(counts[1], 4000);
    count_draws((token_choice){.temperature = 1.0}, counts);
    assert_in_range(counts[1], 1600 - 130, 1600 + 130); /* four standard deviations */
    assert_in_range(counts[3], 1200 - 120, 1200 + 120);
    assert_in_range(counts[2], 400 - 80, 400 + 80);
    count_draws((token_choice){.temperature = 1.0, .top_k = 1}, counts);
    assert_int_equal(counts[1], 4000);
    count_draws((token_choice){.temperature = 1.0, .top_k = 2}, counts);
    assert_true(counts[0] == 0 && counts[2] == 0);
    assert_in_range(counts[1], 4000 * 4 / 7 - 130, 4000 * 4 / 7 + 130);
    count_draws((token_choice){.temperature = 1.0, .top_p = 0.65}, counts);
    assert_true(counts[0] == 0 && counts[2] == 0 && counts[3] > 0);
    count_draws((token_choice){.temperature = 1.0, .top_p = 0.3}, counts);
    assert_int_equal(counts[1], 4000);
    count_draws((token_choice){.temperature = 1e-6}, counts);
    assert_int_equal(counts[1], 4000);
}

/* Over several blocks of tokens, of which the last is not whole. */
TEST(the_gradient_of_a_drawn_token_is_its_probability_less_one)
{
    enum { TOKENS = 300, DRAWS = 20000 };
    static float logits[TOKENS];
    double p[TOKENS];
    double sum = 0.0;
    int drawn[TOKENS] = {0};
    random_state random;
    random_seed(&random, 7, 0);
    for (int i = 0; i < TOKENS; i++) {
        p[i] = exp((double)(float)(0.01 * (i % 97)) + (i == 140 || i == 299 ? 4.0 : 0.0));
        sum += p[i];
    }
    for (int draw = 0; draw < DRAWS; draw++) {
        int label = -1;
        for (int i = 0; i < TOKENS; i++) {
            logits[i] = (float)log(p[i]);
        }
        next_token_gradient(logits, TOKENS, &random);
        for (int i = 0; i < TOKENS; i++) {
            const bool is_drawn = logits[i] < 0.0F;
            assert_true(!is_drawn || label < 0);
            label = is_drawn ? i : label;
            assert_near(logits[i], p[i] / sum - (is_drawn ? 1.0 : 0.0), 1e-6);
        }
        assert_true(label >= 0);
        drawn[label]++;
    }
    for (int i = 0; i < TOKENS; i++) {
        const double expected = p[i] / sum * DRAWS;
        assert_near(drawn[i], expected, 5.0 * sqrt(expected) + 1.0);
    }
}

TEST(a_logit_that_is_no_number_chooses_nothing)
{
    const double temperatures[] = {0.0, 1.0};
    const float values[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 6; i++) {
        const float logits[] = {2.0F, 3.0F, values[i % 3], 1.0F};
        const token_choice o = {.temperature = temperatures[i / 3]};
        random_state random;
        int32_t id = -1;
        random_seed(&random, 0, 0);
        assert_fails(next_token(&o, logits, 4, &random, &id), GRAIL_ERROR_NUMERIC,
                     "the logit of token 2 is NaN or infinite");
        assert_int_equal(id, -1);
    }
}

/* What a tokenizer makes of a text is put together to that text again. */
TEST(tokens_have_the_bytes_of_their_text)
{
    static const char text[] =
        "Once upon a time, 123 caf\xC3\xA9s\n\tand \xF0\x9F\x98\x80 <end> \x01";
    OWNED(grail_model) *model = NULL;
    OWNED(token_list) ids = {0};
    OWNED(buffer) made = {0};
    buffer_init(&made, 1 << 16);
    assert_ok(grail_model_open(GRAIL_SOURCE_DIR "/demo/model", &model));
    OPENED(tokenizer, t, model_tokenizer_open(model, &t));
    assert_ok(tokenizer_encode(t, text, sizeof text - 1, false, &ids));
    for (int64_t i = 0; i < ids.count; i++) {
        assert_ok(tokenizer_decode(t, ids.ids[i], &made));
    }
    assert_int_equal(made.size, sizeof text - 1);
    assert_memory_equal(made.bytes, text, made.size);
    assert_ok(tokenizer_decode(t, 1 << 20, &made)); /* no such token */
    assert_int_equal(made.size, sizeof text - 1);
}

static grail_status generate_once(void *context)
{
    grail_generated made = {0};
    const grail_generate_options o = {.prompt = "The dog", .tokens = 2, .temperature = 1.0};
    return grail_generate(context, &o, NULL, NULL, NULL, &made);
}

/* The expression is GRAIL_ERROR_ARGUMENT about the field. */
static void assert_about(grail_status status, const char *field)
{
    assert_int_equal(status, GRAIL_ERROR_ARGUMENT);
    assert_non_null(strstr(grail_error_fields(), field));
}

TEST(wrong_requests_are_about_their_field)
{
    OWNED(grail_model) *model = NULL;
    grail_generated made = {.tokens = -1};
    grail_generate_options o = {.prompt = "", .tokens = 2};
    assert_ok(grail_model_open(GRAIL_SOURCE_DIR "/demo/model", &model));
    assert_ok(generate_once(model));
    o.prompt = NULL;
    assert_about(grail_generate(model, &o, NULL, NULL, NULL, &made), "prompt");
    o.prompt = "\xFF";
    assert_true(grail_generate(model, &o, NULL, NULL, NULL, &made) == GRAIL_ERROR_FORMAT);
    o.prompt = "The";
    o.temperature = -1.0;
    assert_about(grail_generate(model, &o, NULL, NULL, NULL, &made), "temperature");
    o.temperature = (double)NAN;
    assert_about(grail_generate(model, &o, NULL, NULL, NULL, &made), "temperature");
    o.temperature = 1.0;
    o.top_p = 1.5;
    assert_about(grail_generate(model, &o, NULL, NULL, NULL, &made), "top_p");
    o.top_p = 0.0;
    o.tokens = -1;
    assert_about(grail_generate(model, &o, NULL, NULL, NULL, &made), "tokens");
    assert_true(made.tokens == -1);
}
