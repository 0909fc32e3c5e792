/* The lines of a results file: their bytes, and that what is written is read back. */
#include "support/json_memory.h"
#include "support/support.h"

#include "base/checksum.h"
#include "base/file.h"
#include "study/results/line.h"
#include "study/results/line_fields.h"

#include <string.h>

static char *text_of(const json_t *document)
{
    buffer text = {0};
    char *copy = NULL;
    buffer_init(&text, 1 << 20);
    assert_ok(json_append_line(document, &text));
    assert_ok(memory_copy_string(&copy, (const char *)text.bytes));
    buffer_fini(&text);
    return copy;
}

static void assert_written(const result_line *line, const char *expected)
{
    json_t *document = NULL;
    assert_ok(line_to_json(line, &document));
    char *text = text_of(document);
    assert_string_equal(text, expected);
    memory_free(text);
    json_decref(document);
}

static const line_settings settings = {.checkpoint = "a",
                                       .selector = "wanda",
                                       .sparsity = 0.3,
                                       .variant = VARIANT_GRAIL_REPAIR,
                                       .samples = 128,
                                       .seed = 7,
                                       .open_loop = true};
#define SETTINGS                                                                                   \
    "\"cell\":{\"checkpoint\":\"a\",\"selector\":\"wanda\",\"sparsity\":0.3,\"compensate\":"       \
    "\"grail\",\"repair\":true,\"samples\":128,\"seed\":7,\"loop\":\"open\"}"

static void a_cell_has_these_bytes(void **state)
{
    (void)state;
    char name[] = "layer1.conv";
    char kind[] = "conv";
    line_site site = {.name = name,
                      .kind = kind,
                      .units = 64.0,
                      .kept = 45.0,
                      .fit_before = 0.123456789,
                      .fit_after = 1e-9,
                      .held_before = NOT_MEASURED,
                      .held_after = NOT_MEASURED};
    const result_line line = {.kind = LINE_CELL,
                              .settings = settings,
                              .measures = {.top1 = 0.123456789012345,
                                           .top5 = NOT_MEASURED,
                                           .interval = 0.123456789012345,
                                           .images = 2000.0,
                                           .perplexity = NOT_MEASURED,
                                           .perplexity_error = NOT_MEASURED,
                                           .latency = 0.000123456789,
                                           .parameters = 5.6e6,
                                           .macs = 1e15,
                                           .seconds = {[SECONDS_CALIBRATE] = 1.23456789,
                                                       [SECONDS_EVALUATE] = 25.0,
                                                       [SECONDS_TOTAL] = 1e-7},
                                           .peak_bytes = 9007199254740991.0},
                              .sites = &site,
                              .site_count = 1};
    assert_written(
        &line,
        "{" SETTINGS ",\"top1\":0.123456789012345,\"top5\":null,\"interval\":0.123457,"
        "\"images\":2000,\"latency\":0.000123457,\"parameters\":5600000,\"macs\":1000000000000000,"
        "\"seconds\":{\"calibrate\":1.23457,\"compensate\":0.0,\"evaluate\":25.0,"
        "\"total\":1e-7},\"peak_bytes\":9007199254740991,\"sites\":[{\"name\":"
        "\"layer1.conv\",\"kind\":\"conv\",\"units\":64,\"kept\":45,\"fit_before\":"
        "0.123457,\"fit_after\":1e-9,\"held_before\":null,\"held_after\":null}]}\n");
}

#define HEALED                                                                                     \
    "{\"cell\":{\"checkpoint\":\"a\",\"selector\":\"wanda\",\"sparsity\":0.3,\"compensate\":"      \
    "\"full\",\"repair\":false,\"heal\":\"block,model\",\"samples\":128,\"seed\":7,\"loop\":"      \
    "\"closed\"},\"top1\":0.5,\"top5\":null,\"interval\":null,\"images\":null,\"parameters\":"     \
    "null,"                                                                                        \
    "\"macs\":null,\"seconds\":{\"calibrate\":null,\"compensate\":null,\"evaluate\":null,"         \
    "\"total\":9.0,\"heal\":4.5},\"peak_bytes\":null,\"healed\":[{\"block\":0,\"steps\":160,"      \
    "\"held_loss_before\":0.25,\"held_loss_after\":0.123457,\"seconds\":1.5},{\"block\":null,"     \
    "\"steps\":40,\"held_loss_before\":2.0,\"held_loss_after\":1e-9,\"seconds\":3.0}],\"sites\":[" \
    "]}"

static void a_healed_cell_has_these_bytes(void **state)
{
    (void)state;
    line_healing healings[] = {{0.0, 160.0, 0.25, 0.123456789, 1.5},
                               {NOT_MEASURED, 40.0, 2.0, 1e-9, 3.0}};
    result_line line = {.kind = LINE_CELL,
                        .settings = settings,
                        .measures = line_not_measured(),
                        .healings = healings,
                        .healing_count = 2};
    line.settings.variant = variant_healed(VARIANT_FULL, HEAL_BLOCK_MODEL);
    line.settings.open_loop = false;
    line.measures.top1 = 0.5;
    line.measures.seconds[SECONDS_HEAL] = 4.5;
    line.measures.seconds[SECONDS_TOTAL] = 9.0;
    assert_written(&line, HEALED "\n");
}

static void a_failure_and_a_dense_checkpoint_have_these_bytes(void **state)
{
    (void)state;
    const result_line failure = {
        .kind = LINE_FAILURE, .settings = settings, .error = "site 'x': \"NaN\""};
    assert_written(&failure, "{" SETTINGS ",\"error\":\"site 'x': \\\"NaN\\\"\"}\n");
    const result_line dense = {.kind = LINE_DENSE,
                               .settings = {.checkpoint = "a"},
                               .path = "dir/a.pth",
                               .architecture = "resnet",
                               .measures = {.top1 = 0.81,
                                            .top5 = 0.99,
                                            .interval = 0.0076,
                                            .images = 10000.0,
                                            .perplexity = NOT_MEASURED,
                                            .latency = NOT_MEASURED,
                                            .seconds = {[SECONDS_EVALUATE] = 1.5},
                                            .parameters = 11173962.0,
                                            .macs = 556651008.0}};
    assert_written(&dense,
                   "{\"dense\":{\"checkpoint\":\"a\",\"path\":\"dir/a.pth\",\"architecture\":"
                   "\"resnet\",\"parameters\":11173962,\"macs\":556651008,\"top1\":0.81,"
                   "\"top5\":0.99,\"interval\":0.0076,\"images\":10000,"
                   "\"seconds\":{\"evaluate\":1.5}}}\n");
}

/* A network on two texts, with what is kept of the windows of one, and on images with what is kept
 * of them. */
static void evaluations_have_these_bytes_and_read_back(void **state)
{
    (void)state;
    double losses[] = {1.5, 0.1234567890123};
    double hits[] = {1.0, 0.0, 0.0, 1.0, 1.0};
    line_evaluation all[] = {{.name = "b", .data_sha256 = "ef", .measures = line_not_measured()},
                             {.name = "c", .measures = line_not_measured()},
                             {.name = "d", .measures = line_not_measured()}};
    all[0].measures.perplexity = 4.5;
    all[0].measures.perplexity_error = 0.25;
    all[0].measures.windows = 2.0;
    all[0].measures.context = 256.0;
    all[0].outcomes = losses;
    all[0].outcome_count = 2;
    all[1].measures.perplexity = 1e30;
    all[2].measures.top1 = 0.6;
    all[2].measures.images = 5.0;
    all[2].outcomes = hits;
    all[2].outcome_count = 5;
    const result_line dense = {.kind = LINE_DENSE,
                               .settings = {.checkpoint = "a"},
                               .path = "p",
                               .architecture = "llama",
                               .evaluations = all,
                               .evaluation_count = 3,
                               .measures = line_not_measured()};
    assert_written(&dense,
                   "{\"dense\":{\"checkpoint\":\"a\",\"path\":\"p\",\"architecture\":\"llama\","
                   "\"parameters\":null,\"macs\":null,\"evaluations\":[{\"name\":\"b\","
                   "\"perplexity\":4.5,\"perplexity_error\":0.25,\"windows\":2,\"context\":256,"
                   "\"data_sha256\":\"ef\",\"losses\":[1.5,0.1234567890123]},{\"name\":\"c\","
                   "\"perplexity\":1e30,\"perplexity_error\":null},{\"name\":\"d\",\"top1\":0.6,"
                   "\"top5\":null,\"interval\":null,\"images\":5,\"hits\":\"98\"}]}}\n");
    json_t *document = NULL;
    result_line read = {0};
    assert_ok(line_to_json(&dense, &document));
    assert_ok(line_read("l", document, &read));
    assert_int_equal(read.evaluation_count, 3);
    assert_string_equal(read.evaluations[0].name, "b");
    assert_int_equal(read.evaluations[0].outcome_count, 2);
    assert_true(read.evaluations[0].outcomes[1] == losses[1]);
    assert_int_equal(read.evaluations[2].outcome_count, 5);
    for (int i = 0; i < 5; i++) {
        assert_true(read.evaluations[2].outcomes[i] == hits[i]);
    }
    line_fini(&read);
    json_decref(document);
}

static void evaluations_that_lie_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *inner, *message;
    } wrong[] = {
        {"\"evaluations\": []", "\"evaluations\" is not an array of 1 to 100"},
        {"\"evaluations\": 7", "\"evaluations\" is not an array of 1 to 100"},
        {"\"evaluations\": [{}]", "\"name\" is missing"},
        {"\"evaluations\": [{\"name\": \"b\"}, {\"name\": \"b\"}]",
         "two evaluations have the name \"b\""},
        {"\"perplexity\": 0.5", "\"perplexity\" is 0.5, expected 1 to"},
        {"\"windows\": 2, \"losses\": [1]", "as many numbers as \"windows\" says"},
        {"\"losses\": [1]", "as many numbers as \"windows\" says"},
        {"\"windows\": 1, \"losses\": [null]", "losses[0] is not a number"},
        {"\"windows\": 1, \"losses\": [-1]", "losses[0] is not a number"},
        {"\"images\": 5, \"hits\": \"9\"", "a hexadecimal digit for every four images"},
        {"\"images\": 5, \"hits\": \"9g\"", "a hexadecimal digit for every four images"},
        {"\"images\": 1e18, \"hits\": \"98\"", "a hexadecimal digit for every four images"},
        {"\"hits\": \"\"", "a hexadecimal digit for every four images"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[256];
        json_t *document = NULL;
        result_line line = {0};
        snprintf(text, sizeof text, "{\"dense\": {\"checkpoint\": \"a\", %s}}", wrong[i].inner);
        assert_ok(json_parse("l", text, strlen(text), &document));
        assert_fails(line_read("l", document, &line), GRAIL_ERROR_FORMAT, wrong[i].message);
        json_decref(document);
    }
}

static void a_header_has_these_bytes_and_reads_back(void **state)
{
    (void)state;
    json_t *recipe = json_pack("{s:[i,f]}", "sparsities", 0, 0.3);
    json_t *document = NULL;
    line_header read = {0};
    const line_header header = {.recipe = recipe,
                                .started = "2026-01-02T03:04:05Z",
                                .cpu = "a cpu",
                                .version = "0.1.0",
                                .threads = 2};
    assert_ok(line_header_to_json(&header, &document));
    char *text = text_of(document);
    assert_string_equal(text,
                        "{\"grail_results\":2,\"recipe\":{\"sparsities\":[0,0.3]},\"started\":"
                        "\"2026-01-02T03:04:05Z\",\"machine\":{\"cpu\":\"a cpu\",\"threads\":"
                        "2},\"version\":\"0.1.0\"}\n");
    for (size_t size = 0; size <= strlen(text); size++) {
        assert_true(line_header_begins(text, size));
    }
    assert_false(line_header_begins("{\"grail_report\":", 16));
    assert_ok(line_header_read(document, &read));
    assert_true(json_equal(read.recipe, recipe));
    assert_string_equal(read.started, header.started);
    assert_string_equal(read.cpu, header.cpu);
    assert_string_equal(read.version, header.version);
    assert_int_equal(read.threads, 2);
    memory_free(text);
    json_decref(document);
    json_decref(recipe);
}

/* Reads a line and writes it again; what is not read is taken from the document. */
static void assert_reads_back(const char *bytes, size_t size)
{
    json_t *document = NULL;
    result_line line = {0};
    char *expected = NULL;
    assert_ok(json_parse("line", bytes, size, &document));
    assert_ok(line_read("line", document, &line));
    if (line.kind != LINE_DENSE) {
        assert_ok(line_check_settings("line", document));
    }
    const json_t *sites = json_object_get(document, "sites");
    assert_int_equal(line.site_count, json_array_size(sites));
    for (int i = 0; i < line.site_count; i++) {
        const json_t *site = json_array_get(sites, (size_t)i);
        const char *kind = json_string_value(json_object_get(site, "kind"));
        assert_ok(memory_copy_string(&line.sites[i].kind, kind));
    }
    assert_ok(memory_format(&expected, "%.*s\n", (int)size, bytes));
    assert_written(&line, expected);
    memory_free(expected);
    line_fini(&line);
    json_decref(document);
}

/* A line of a file ends in a checksum of its own. */
static void assert_reads_back_without_checksum(const char *bytes, size_t size)
{
    size_t own = 0;
    char *line = NULL;
    assert_int_equal(checksum_check_end(bytes, size, 0, &own), CHECKSUM_RIGHT);
    assert_ok(memory_format(&line, "%.*s}", (int)own, bytes));
    assert_reads_back(line, own + 1);
    memory_free(line);
}

static void a_healed_cell_reads_back(void **state)
{
    (void)state;
    assert_reads_back(HEALED, strlen(HEALED));
}

static void the_results_that_are_kept_are_written_as_they_were(void **state)
{
    (void)state;
    file_map map = {0};
    int lines = 0;
    assert_ok(file_map_open(&map, GRAIL_SOURCE_DIR "/docs/results/resnet18.jsonl"));
    const char *text = (const char *)map.data;
    const char *const end = text + map.size;
    for (const char *next = NULL; text < end; text = next + 1) {
        next = memchr(text, '\n', (size_t)(end - text));
        assert_non_null(next);
        if (lines++ > 0) {
            assert_reads_back_without_checksum(text, (size_t)(next - text));
        }
    }
    assert_in_range(lines, 100, 1000000);
    file_map_close(&map);
}

static void settings_that_are_not_known_are_told(void **state)
{
    (void)state;
    json_t *document = json_pack("{s:{s:s,s:s,s:f,s:s,s:i}}", "cell", "checkpoint", "a", "selector",
                                 "b", "sparsity", 0.5, "compensate", "none", "refit", 1);
    result_line line = {0};
    assert_ok(line_read("line 2", document, &line)); /* a page may be drawn of it */
    line_fini(&line);
    assert_fails(line_check_settings("line 2", document), GRAIL_ERROR_FORMAT,
                 "line 2: unknown key \"refit\"; the known keys are checkpoint, selector,");
    json_decref(document);
}

static grail_status write_and_read(void *context)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    result_line read = {0};
    char name[] = "s";
    char kind[] = "conv";
    line_site sites[2] = {{.name = name, .kind = kind}, {.name = name, .kind = kind}};
    line_healing healing = {.steps = 1.0};
    result_line line = {.kind = LINE_CELL,
                        .settings = settings,
                        .measures = line_not_measured(),
                        .sites = sites,
                        .site_count = 2,
                        .healings = &healing,
                        .healing_count = 1};
    line.settings.variant = variant_healed(VARIANT_FULL, HEAL_MODEL);
    (void)context;
    TRY(line_to_json(&line, &document));
    TRY(line_read("line", document, &read));
out:
    line_fini(&read);
    json_decref(document);
    return status;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    support_fail_each_allocation(write_and_read, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_has_these_bytes),
        cmocka_unit_test(a_healed_cell_has_these_bytes),
        cmocka_unit_test(a_healed_cell_reads_back),
        cmocka_unit_test(evaluations_have_these_bytes_and_read_back),
        cmocka_unit_test(evaluations_that_lie_are_refused),
        cmocka_unit_test(a_failure_and_a_dense_checkpoint_have_these_bytes),
        cmocka_unit_test(a_header_has_these_bytes_and_reads_back),
        cmocka_unit_test(the_results_that_are_kept_are_written_as_they_were),
        cmocka_unit_test(settings_that_are_not_known_are_told),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
