/* A value in the room of a public struct that the library reads and that no table describes (those
 * are tried by test_fields.c): a field that only a newer library has, so that no call takes it in
 * silence. */
#include "../pipeline/vision_lab.h"

#include <grail/grail.h>

#include <string.h>

/* What the last word of each room holds. */
static uint64_t value;
#define FILL(s) ((s)->room[sizeof(s)->room / sizeof(s)->room[0] - 1] = value)

static lab texts;
static vision_lab images;
static grail_model *text_model, *image_model;

static grail_status use_settings(void)
{
    OWNED(grail_model) *m = NULL;
    grail_model_options settings = {0};
    FILL(&settings);
    return grail_model_open_with(lab_golden("llama3"), &settings, &m);
}

/* -- in memory --------------------------------------------------------------------------------- */

typedef enum memory_part { MEMORY_MODEL, MEMORY_TENSOR, MEMORY_DOCUMENT } memory_part;

static grail_status use_memory(memory_part part)
{
    grail_model *m = NULL;
    const int64_t shape[] = {2};
    const float data[2] = {0};
    grail_tensor tensor = {
        .name = "a", .dtype = GRAIL_DTYPE_F32, .rank = 1, .shape = shape, .data = data};
    grail_document document = {.name = "config.json", .bytes = "{}", .size = 2};
    grail_memory_model memory = {
        .tensors = &tensor, .tensor_count = 1, .documents = &document, .document_count = 1};
    if (part == MEMORY_MODEL) {
        FILL(&memory);
    } else if (part == MEMORY_TENSOR) {
        FILL(&tensor);
    } else {
        FILL(&document);
    }
    const grail_status status = grail_model_open_memory(&memory, NULL, &m);
    grail_model_close(m);
    return status;
}

static grail_status use_memory_model(void)
{
    return use_memory(MEMORY_MODEL);
}

static grail_status use_tensor(void)
{
    return use_memory(MEMORY_TENSOR);
}

static grail_status use_document(void)
{
    return use_memory(MEMORY_DOCUMENT);
}

static const int32_t ids[] = {1, 2, 3, 4};

static grail_tokens tokens_of(void)
{
    grail_tokens tokens = {.ids = ids, .windows = 1, .length = 4};
    FILL(&tokens);
    return tokens;
}

static grail_status use_source_tokens(void)
{
    const grail_tokens tokens = tokens_of();
    const grail_text_source source = {.tokens = &tokens};
    grail_perplexity p;
    return grail_perplexity_describe(text_model, &source, 0, &p);
}

static grail_status use_runner_tokens(void)
{
    const grail_tokens tokens = tokens_of();
    double losses[3];
    OPENED(grail_runner, r, grail_runner_open(text_model, NULL, &r));
    return grail_runner_losses(r, &tokens, losses, NULL);
}

static grail_pixels pixels_of(void)
{
    grail_pixels pixels = {.values = images.pixels, .count = 1, .side = VISION_SIDE};
    FILL(&pixels);
    return pixels;
}

static grail_status use_source_pixels(void)
{
    const grail_pixels pixels = pixels_of();
    const grail_image_source source = {.pixels = &pixels};
    grail_images *opened = NULL;
    const grail_status status = grail_images_open(image_model, &source, &opened);
    grail_images_close(opened);
    return status;
}

static grail_status use_runner_pixels(void)
{
    const grail_pixels pixels = pixels_of();
    float outputs[VISION_CLASSES];
    OPENED(grail_runner, r, grail_runner_open(image_model, NULL, &r));
    return grail_runner_pixels(r, &pixels, outputs);
}

/* -- runs -------------------------------------------------------------------------------------- */

static grail_status measure(const grail_compute *compute)
{
    const grail_text_source source = {.path = texts.calibration, .context = LAB_LENGTH};
    grail_perplexity p;
    return grail_perplexity_measure(text_model, &source, 1, compute, NULL, NULL, &p);
}

static grail_status use_compute(void)
{
    grail_compute compute = {0};
    FILL(&compute);
    return measure(&compute);
}

static grail_status use_comm(void)
{
    grail_comm comm = {.size = 1};
    FILL(&comm);
    const grail_compute compute = {.comm = &comm};
    return measure(&compute);
}

static grail_status use_comm_of_a_run(void)
{
    grail_comm comm = {.size = 1};
    grail_compress_options options = lab_options(&texts, lab_golden("llama3"), NULL);
    FILL(&comm);
    options.run.comm = &comm;
    return lab_opens(&options);
}

static grail_status use_text_part(void)
{
    grail_text_part part = {.path = texts.calibration};
    grail_compress_options options = lab_options(&texts, lab_golden("llama3"), NULL);
    FILL(&part);
    options.read.text.path = NULL;
    options.read.parts = &part;
    options.read.part_count = 1;
    return lab_opens(&options);
}

static grail_status use_site_sparsity(void)
{
    grail_site_sparsity one = {.site = "model.layers.0.mlp.down_proj", .sparsity = 0.5};
    grail_compress_options options = lab_options(&texts, lab_golden("llama3"), NULL);
    FILL(&one);
    options.amount.site_sparsities = &one;
    options.amount.site_sparsity_count = 1;
    return lab_opens(&options);
}

/* -- files ------------------------------------------------------------------------------------- */

static grail_status use_gguf(void)
{
    grail_gguf_options options = {.type = "f16"};
    FILL(&options);
    return grail_gguf_write(text_model, lab_path(&texts, "network.gguf"), &options, NULL);
}

static grail_status use_quantize(void)
{
    grail_quantize_options options = {.path = lab_path(&texts, "small.gguf"), .type = "q8_0"};
    const grail_compress_options run = lab_options(&texts, lab_golden("llama3"), NULL);
    FILL(&options);
    return grail_quantize(&run, &options, NULL);
}

static grail_status use_gram(void)
{
    grail_gram_options options = {.path = lab_path(&texts, "sums.gguf")};
    const grail_compress_options run = lab_options(&texts, lab_golden("llama3"), NULL);
    FILL(&options);
    return grail_gram_write(&run, &options, NULL);
}

static grail_status use_gram_addition(void)
{
    grail_gram_options options = {.path = lab_path(&texts, "all.gguf")};
    const char *const paths[] = {lab_path(&texts, "sums.gguf")};
    FILL(&options);
    return grail_gram_add(1, paths, &options, NULL);
}

/* -- numerics ---------------------------------------------------------------------------------- */

static const float rows[] = {1.0F, 2.0F, 2.0F, 1.0F, 3.0F, 1.0F};
static const float weights[] = {1.0F, 1.0F};

static grail_statistics *statistics(void)
{
    grail_statistics *s = NULL;
    assert_ok(grail_statistics_create(2, 0, &s));
    assert_ok(grail_statistics_accumulate(s, 3, rows, 2, NULL, 0));
    return s;
}

static grail_status use_sums(bool adds)
{
    double gram[4];
    double sum[2];
    OWNED(grail_statistics) *s = statistics();
    grail_sums sums = {.gram = gram, .sum = sum};
    assert_ok(grail_statistics_get(s, &sums));
    FILL(&sums);
    const grail_status status =
        adds ? grail_statistics_add_sums(s, 3, 3.0, &sums) : grail_statistics_get(s, &sums);
    return status;
}

static grail_status use_sums_that_are_read(void)
{
    return use_sums(false);
}

static grail_status use_sums_that_are_added(void)
{
    return use_sums(true);
}

static grail_status use_fit(void)
{
    float weight[2];
    OWNED(grail_statistics) *s = statistics();
    grail_compensate_options options;
    grail_compensate_result result;
    const int64_t kept[] = {0, 1};
    grail_compensate_options_init(&options);
    FILL(&options);
    OPENED(grail_reducer, both, grail_reducer_from_selection(2, 2, kept, &both));
    const grail_status status =
        grail_compensate(s, NULL, both, 1, 1, weights, &options, weight, NULL, &result);
    return status;
}

typedef enum site_part { SITE_ITSELF, SITE_ROWS, SITE_COLUMNS } site_part;

static grail_status choose(site_part part)
{
    OWNED(grail_reducer) *reducer = NULL;
    OWNED(grail_statistics) *s = statistics();
    grail_unit_rows producer = {.weight = weights, .columns = 1};
    grail_unit_columns consumer = {.weight = weights, .outputs = 1, .fit = s};
    grail_site given;
    grail_site_init(&given);
    given.units = 2;
    given.producers = &producer;
    given.producer_count = 1;
    given.consumers = &consumer;
    given.consumer_count = 1;
    if (part == SITE_ITSELF) {
        FILL(&given);
    } else if (part == SITE_ROWS) {
        FILL(&producer);
    } else {
        FILL(&consumer);
    }
    return grail_select("obs", &given, 1, &reducer);
}

static grail_status use_site(void)
{
    return choose(SITE_ITSELF);
}

static grail_status use_rows(void)
{
    return choose(SITE_ROWS);
}

static grail_status use_columns(void)
{
    return choose(SITE_COLUMNS);
}

static void a_field_of_a_newer_library_is_refused(void **state)
{
    (void)state;
    /* The last ones are refused without a value, too: this model has no tokenizer and narrow rows,
     * and two numbers are no network. */
    static grail_status (*const uses[])(void) = {
        use_settings,
        use_source_tokens,
        use_runner_tokens,
        use_source_pixels,
        use_runner_pixels,
        use_compute,
        use_comm,
        use_comm_of_a_run,
        use_site_sparsity,
        use_text_part,
        use_gram,
        use_gram_addition,
        use_sums_that_are_read,
        use_sums_that_are_added,
        use_fit,
        use_site,
        use_rows,
        use_columns,
        use_gguf,
        use_quantize,
        use_memory_model,
        use_tensor,
        use_document,
    };
    const size_t others = 5;
    const size_t count = sizeof uses / sizeof uses[0];
    lab_open(&texts);
    vision_open(&images);
    image_model = vision_model_open(vision_network(&images, VISION_BASIC, "dense"));
    assert_ok(grail_model_open(lab_golden("llama3"), &text_model));
    for (size_t i = 0; i < count; i++) {
        value = (uint64_t)1 << 63;
        const grail_status status = uses[i]();
        const bool is_refused = status == GRAIL_ERROR_ARGUMENT &&
                                strcmp(grail_error_fields(), "room") == 0 &&
                                strstr(grail_error_message(), "has a value in its room") != NULL;
        value = 0;
        if (!is_refused || (uses[i]() == GRAIL_OK) != (i + others < count)) {
            fail_msg("use %zu: status %d with a value in its room; %s", i, (int)status,
                     grail_error_message());
        }
    }
    grail_model_close(text_model);
    grail_model_close(image_model);
    vision_close(&images);
    lab_close(&texts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_of_a_newer_library_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
