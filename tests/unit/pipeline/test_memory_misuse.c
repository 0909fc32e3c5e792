/* Models in memory that are no good, functions that stop giving tensors, results that are not
 * there, and what the other commands make of a model in memory. */
#include "memory_lab.h"

#include "base/file.h"

#include <grail/gguf.h>
#include <grail/gram.h>

#include <math.h>
#include <pthread.h>
#include <string.h>

static grail_tensor *tensor_called(memory_lab *m, const char *name)
{
    for (int64_t i = 0; i < m->count; i++) {
        if (strcmp(m->tensors[i].name, name) == 0) {
            return &m->tensors[i];
        }
    }
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static void assert_not_opened(const memory_lab *m, grail_status code, const char *text)
{
    grail_model *model = NULL;
    grail_session *session = NULL;
    assert_fails(grail_model_open_memory(&m->memory, NULL, &model), code, text);
    assert_fails(grail_session_open_memory(&m->memory, NULL, &session), code, text);
    assert_null(model);
    assert_null(session);
}

/* -- opening ----------------------------------------------------------------------------------- */

TEST(configurations_that_do_not_fit_are_refused)
{
    memory_lab m;
    grail_model *model = NULL;
    memory_lab_open(&m, lab_golden("llama3"));
    grail_document d = {.name = "config.json"};
    m.memory.documents = &d;
    m.memory.document_count = 1;
    d.bytes = "{\"model_type\": \"llama\",";
    d.size = (int64_t)strlen(d.bytes);
    assert_not_opened(&m, GRAIL_ERROR_FORMAT, "memory/config.json: not valid JSON");
    d.size = 0;
    assert_not_opened(&m, GRAIL_ERROR_FORMAT, "memory/config.json: not valid JSON");
    d.bytes = "[]";
    d.size = 2;
    assert_not_opened(&m, GRAIL_ERROR_FORMAT, "memory/config.json: not a JSON object");
    m.memory.document_count = 0;
    m.memory.name = "my net";
    assert_not_opened(&m, GRAIL_ERROR_UNSUPPORTED, "my net: its tensors fit no known family");
    memory_lab_close(&m);
    memory_lab other;
    memory_lab_open(&other, lab_golden("qwen2"));
    memory_lab_open(&m, lab_golden("llama3"));
    m.memory.documents = other.memory.documents;
    m.memory.document_count = other.memory.document_count;
    assert_not_opened(&m, GRAIL_ERROR_FORMAT, "memory: tensor '");
    assert_fails(grail_model_open_memory(NULL, NULL, &model), GRAIL_ERROR_ARGUMENT,
                 "no model in memory");
    memory_lab_close(&other);
    memory_lab_close(&m);
}

TEST(tensors_of_other_shapes_are_named)
{
    OWNED(memory_lab) m;
    const int64_t shape[] = {1};
    memory_lab_open(&m, lab_golden("llama3"));
    grail_tensor *t = tensor_called(&m, "model.norm.weight");
    t->rank = 1;
    t->shape = shape;
    assert_not_opened(&m, GRAIL_ERROR_SHAPE,
                      "memory: tensor 'model.norm.weight' has shape [1], but config.json needs");
    *t = m.tensors[m.count - 1];
    m.memory.tensor_count--;
    assert_not_opened(&m, GRAIL_ERROR_FORMAT, "tensor '");
}

/* -- NaN --------------------------------------------------------------------------------------- */

static void assert_run_fails(const lab *l, const memory_lab *m, bool with_path, grail_status code,
                             const char *text)
{
    grail_session *session = NULL;
    grail_compression *c = NULL;
    const char *output = lab_path(l, "failed");
    const grail_compress_options options = lab_options(l, NULL, with_path ? output : NULL);
    assert_fails(memory_lab_run(m, options, &session, &c), code, text);
    grail_compression_close(c);
    grail_session_close(session);
    assert_false(file_exists(output));
}

LAB_TEST(nan_is_found_before_the_run_also_where_nothing_computes_with_it)
{
    static const float head[] = {1, NAN, 2};
    static const int64_t shape[] = {1, 3};
    OWNED(memory_lab) m;
    OWNED(grail_session) *session = NULL;
    OWNED(grail_compression) *c = NULL;
    grail_memory_model result = {0};
    memory_lab_open(&m, lab_golden("llama3"));
    assert_ok(memory_reserve(&m.tensors, (size_t)m.count + 1, sizeof m.tensors[0]));
    m.tensors[m.count++] = (grail_tensor){.name = "v_head.summary.weight",
                                          .dtype = GRAIL_DTYPE_F32,
                                          .rank = 2,
                                          .shape = shape,
                                          .data = head};
    m.memory.tensors = m.tensors;
    m.memory.tensor_count = m.count;
    for (int i = 0; i < 2; i++) {
        assert_run_fails(l, &m, i == 0, GRAIL_ERROR_NUMERIC,
                         "memory: tensor 'v_head.summary.weight' holds a NaN or infinity at "
                         "element 1; the checkpoint is damaged; where nothing computes with the "
                         "tensor, it can be copied as it is");
        assert_string_equal(grail_error_fields(), "output.keep_non_finite");
    }
    grail_compress_options options = lab_options(l, NULL, NULL);
    options.output.keep_non_finite = 1;
    assert_ok(memory_lab_run(&m, options, &session, &c));
    assert_ok(grail_compression_result(c, &result));
    bool told = false;
    for (int i = 0; i < result.document_count; i++) {
        told = told || (strcmp(result.documents[i].name, "report.json") == 0 &&
                        strstr(result.documents[i].bytes, "\"non_finite\"") != NULL);
    }
    assert_true(told);
}

/* -- data of any alignment --------------------------------------------------------------------- */

LAB_TEST(data_may_lie_at_odd_addresses)
{
    OWNED(memory_lab) m;
    grail_session *session = NULL;
    grail_compression *c = NULL;
    grail_memory_model result = {0};
    unsigned char **odd = NULL;
    const char *model = lab_golden("llama3-bf16");
    const char *output = lab_path(l, "out");
    grail_compress_options options = lab_options(l, model, output);
    assert_ok(lab_compress(&options));
    memory_lab_open(&m, model);
    assert_ok(memory_new(&odd, (size_t)m.count, sizeof odd[0]));
    for (int64_t i = 0; i < m.count; i++) {
        const size_t bytes = checkpoint_at(m.files, i)->bytes;
        assert_ok(memory_new(&odd[i], bytes + 1, 1));
        memcpy(odd[i] + 1, m.tensors[i].data, bytes);
        m.tensors[i].data = odd[i] + 1;
    }
    options.output.path = NULL;
    assert_ok(memory_lab_run(&m, options, &session, &c));
    assert_ok(grail_compression_result(c, &result));
    assert_result_is(&result, output);
    grail_compression_close(c);
    grail_session_close(session);
    for (int64_t i = 0; i < m.count; i++) {
        memory_free(odd[i]);
    }
    memory_free(odd);
}

/* -- a function that stops giving tensors ------------------------------------------------------ */

/* At each of its calls in turn; `calls` of a run that succeeds. */
LAB_TEST(every_failing_call_is_an_error_that_names_the_tensor)
{
    OWNED(memory_lab) m;
    memory_lab_open(&m, lab_golden("llama3"));
    memory_lab_load(&m);
    grail_status status = GRAIL_ERROR_IO;
    int64_t failed = 0;
    for (int64_t n = 1; status != GRAIL_OK; n += support_takes(n, 7) ? 1 : 6) {
        OWNED(grail_session) *session = NULL;
        OWNED(grail_compression) *c = NULL;
        m.calls = 0;
        m.fails_at = n;
        m.answer = GRAIL_ERROR_UNSUPPORTED;
        status = memory_lab_run(&m, lab_options(l, NULL, NULL), &session, &c);
        if (status != GRAIL_OK) {
            failed++;
            assert_int_equal(status, GRAIL_ERROR_UNSUPPORTED);
            assert_non_null(
                strstr(grail_error_message(), "memory: the function that gives tensors gave no '"));
        }
    }
    assert_true(failed > 3);
}

static int stop_behind_first_block(void *user, const grail_site_report *site, int block, int blocks,
                                   double left)
{
    return site == NULL && block == 0;
}

static void assert_goes_on(const memory_lab *m, grail_compress_options options, bool other)
{
    OWNED(grail_session) *session = NULL;
    OWNED(grail_compression) *c = NULL;
    options.output.resume = 1;
    if (other) {
        assert_fails(memory_lab_run(m, options, &session, &c), GRAIL_ERROR_ARGUMENT,
                     "was started with other options or files: tensors differs");
    } else {
        assert_ok(memory_lab_run(m, options, &session, &c));
    }
}

LAB_TEST(an_interrupted_run_goes_on_with_the_same_tensors_alone)
{
    OWNED(memory_lab) m;
    grail_session *session = NULL;
    grail_compression *c = NULL;
    const char *model = lab_golden("llama3");
    const char *whole = lab_path(l, "whole");
    const char *output = lab_path(l, "out");
    grail_compress_options options = lab_options(l, model, whole);
    assert_ok(lab_compress(&options));
    memory_lab_open(&m, model);
    options.output.path = output;
    options.run.observer = stop_behind_first_block;
    assert_fails(memory_lab_run(&m, options, &session, &c), GRAIL_ERROR_CANCELLED, "");
    grail_compression_close(c);
    grail_session_close(session);
    options.run.observer = NULL;
    const void *norm = tensor_called(&m, "model.norm.weight")->data;
    tensor_called(&m, "model.norm.weight")->data =
        tensor_called(&m, "model.layers.0.input_layernorm.weight")->data;
    assert_goes_on(&m, options, true);
    tensor_called(&m, "model.norm.weight")->data = norm;
    assert_goes_on(&m, options, false);
    assert_same_checkpoint(whole, output);
}

/* -- results that are not there ---------------------------------------------------------------- */

LAB_TEST(a_result_is_there_after_the_run_alone)
{
    grail_compression *c = NULL;
    grail_memory_model result = {0};
    const char *output = lab_path(l, "out");
    grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
    assert_ok(grail_compression_open(&options, &c));
    assert_fails(grail_compression_result(c, &result), GRAIL_ERROR_ARGUMENT,
                 "cannot take the result of this compression: it has not run yet");
    assert_ok(grail_compression_run(c));
    assert_ok(grail_compression_result(c, &result));
    assert_ok(grail_compression_result(c, &result));
    unsigned char bytes[8] = {0};
    assert_fails(result.load(result.user, result.tensor_count, bytes, 8), GRAIL_ERROR_ARGUMENT,
                 "and none of number");
    assert_fails(result.load(result.user, -1, bytes, 8), GRAIL_ERROR_ARGUMENT, "none of number -1");
    assert_fails(result.load(result.user, 0, bytes, 8), GRAIL_ERROR_ARGUMENT,
                 "and the caller has room for 8");
    assert_fails(result.load(result.user, 0, NULL, 8), GRAIL_ERROR_ARGUMENT, "has room for 0");
    grail_compression_close(c);
    options.output.path = output;
    assert_ok(grail_compression_open(&options, &c));
    assert_ok(grail_compression_run(c));
    assert_fails(grail_compression_result(c, &result), GRAIL_ERROR_ARGUMENT,
                 "the run writes its result to its output and does not keep it in memory");
    assert_ok(grail_compression_finish(c));
    grail_compression_close(c);
    options.output.path = NULL;
    options.output.dry_run = 1;
    assert_ok(grail_compression_open(&options, &c));
    assert_fails(grail_compression_result(c, &result), GRAIL_ERROR_ARGUMENT, "dry_run");
    grail_compression_close(c);
}

static grail_status take_once(void *context)
{
    grail_memory_model result = {0};
    OWNED(grail_model) *model = NULL;
    CHECK(grail_compression_result(context, &result));
    CHECK(grail_model_open_memory(&result, NULL, &model));
    return grail_model_digest(model, (char[65]){0});
}

LAB_TEST(every_failing_allocation_of_taking_a_result_is_survived)
{
    const grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
    OPENED(grail_compression, c, grail_compression_open(&options, &c));
    assert_ok(grail_compression_run(c));
    support_fail_each_allocation(take_once, c);
}

/* -- what else reads a model ------------------------------------------------------------------- */

LAB_TEST(statistics_and_digest_are_those_of_the_files)
{
    OWNED(memory_lab) m;
    char digests[2][65];
    memory_lab_open(&m, lab_golden("llama3"));
    memory_lab_load(&m);
    OPENED(grail_session, session, grail_session_open_memory(&m.memory, NULL, &session));
    OPENED(grail_model, model, grail_model_open(lab_golden("llama3"), &model));
    assert_ok(grail_model_digest(model, digests[0]));
    assert_ok(grail_model_digest(grail_session_model(session), digests[1]));
    assert_string_equal(digests[0], digests[1]);
    grail_compress_options options = lab_options(l, lab_golden("llama3"), NULL);
    for (int i = 0; i < 2; i++) {
        const char *path = lab_path_of(l, "%d.gguf", i);
        const grail_gram_options gram = {.path = path};
        options.read.session = i == 0 ? NULL : session;
        assert_ok(grail_gram_write(&options, &gram, NULL));
    }
    assert_same_file(l, "0.gguf", "1.gguf");
}

LAB_TEST(files_that_need_a_tokenizer_say_so)
{
    OWNED(memory_lab) m;
    memory_lab_open(&m, lab_golden("llama3"));
    OPENED(grail_model, model, grail_model_open_memory(&m.memory, NULL, &model));
    assert_fails(grail_gguf_write(model, lab_path(l, "a.gguf"), NULL, NULL),
                 GRAIL_ERROR_UNSUPPORTED,
                 "memory: a GGUF file is made from a directory with the tokenizer's files, not "
                 "from a model in memory; write the model to a directory");
    support_write_file(l->directory, "text.txt", "a text", 6);
    const grail_text_source text = {.path = lab_path(l, "text.txt")};
    assert_fails(grail_logits_write(model, &text, &(grail_compute){.backend = "cpu"},
                                    lab_path(l, "a.safetensors")),
                 GRAIL_ERROR_IO,
                 "memory: the model in memory has no document tokenizer.json; give it, or token "
                 "ids in place of text");
}

/* -- two at once ------------------------------------------------------------------------------- */

typedef struct worker {
    const lab *l;
    const char *golden;
    char expected[LAB_PATH];
    grail_memory_model result;
    memory_lab m;
    grail_session *session;
    grail_compression *c;
    grail_status status;
} worker;

static void *work(void *user)
{
    worker *w = user;
    w->status = memory_lab_run(&w->m, lab_options(w->l, NULL, NULL), &w->session, &w->c);
    return NULL;
}

LAB_TEST(two_models_run_on_two_threads)
{
    worker workers[2] = {{.golden = "llama3"}, {.golden = "gpt2"}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        worker *w = &workers[i];
        w->l = l;
        snprintf(w->expected, sizeof w->expected, "%s/%s", l->directory, w->golden);
        const grail_compress_options options = lab_options(l, lab_golden(w->golden), w->expected);
        assert_ok(lab_compress(&options));
        memory_lab_open(&w->m, lab_golden(w->golden));
        memory_lab_load(&w->m);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        worker *w = &workers[i];
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(w->status, GRAIL_OK);
        assert_ok(grail_compression_result(w->c, &w->result));
        assert_result_is(&w->result, w->expected);
        grail_compression_close(w->c);
        grail_session_close(w->session);
        memory_lab_close(&w->m);
    }
}
