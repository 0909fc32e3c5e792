/* Models in memory as checkpoints: what is refused, what the function that gives tensors is asked
 * for and when, and matrices that several tensors hold. */
#include "support/support.h"

#include "format/weights/beside.h"

#include <string.h>

static const float values[6] = {1, 2, 3, 4, 5, 6};
static const int64_t two_by_three[] = {2, 3};

static grail_tensor matrix_of(const char *name)
{
    return (grail_tensor){
        .name = name, .dtype = GRAIL_DTYPE_F32, .rank = 2, .shape = two_by_three, .data = values};
}

static grail_status open_tensors(const grail_tensor tensors[], int64_t count, checkpoint **out)
{
    const grail_memory_model memory = {.name = "m", .tensors = tensors, .tensor_count = count};
    return checkpoint_open_memory(&memory, out);
}

/* -- what is refused --------------------------------------------------------------------------- */

static void assert_refused(const grail_tensor *tensor, grail_status code, const char *text)
{
    checkpoint *c = NULL;
    const grail_tensor both[] = {matrix_of("first"), *tensor};
    assert_fails(open_tensors(both, 2, &c), code, text);
    assert_null(c);
}

TEST(shapes_that_no_tensor_has_are_refused)
{
    static const int64_t negative[] = {2, -3};
    static const int64_t huge[] = {INT64_MAX, 3};
    static const int64_t large[] = {INT64_MAX / 8};
    static const int64_t odd[] = {3};
    grail_tensor t = matrix_of("t");
    t.shape = negative;
    assert_refused(&t, GRAIL_ERROR_SHAPE,
                   "m: tensor 't': has the shape [2, -3], expected numbers of 0 or more");
    t.shape = huge;
    assert_refused(&t, GRAIL_ERROR_SHAPE,
                   "m: tensor 't': [9223372036854775807, 3] elements of F32");
    t.shape = NULL;
    assert_refused(&t, GRAIL_ERROR_ARGUMENT, "m: tensor 't': has 2 dimensions, but no shape");
    t.rank = 1;
    t.shape = large;
    assert_refused(&t, GRAIL_ERROR_SHAPE, "or take 2^61 bytes or more");
    t.dtype = GRAIL_DTYPE_F4;
    t.shape = odd;
    assert_refused(&t, GRAIL_ERROR_SHAPE, "[3] elements of F4 do not fill their last byte");
    t.rank = 9;
    assert_refused(&t, GRAIL_ERROR_SHAPE, "has 9 dimensions, expected 0 to 8");
    t.rank = -1;
    assert_refused(&t, GRAIL_ERROR_SHAPE, "has -1 dimensions");
}

TEST(dtypes_that_are_none_are_refused)
{
    grail_tensor t = matrix_of("t");
    t.dtype = GRAIL_DTYPE_COUNT;
    assert_refused(&t, GRAIL_ERROR_ARGUMENT, "m: tensor 't': has the dtype ");
    t.dtype = (grail_dtype)-1;
    assert_refused(&t, GRAIL_ERROR_ARGUMENT, "m: tensor 't': has the dtype -1");
    t.dtype = GRAIL_DTYPE_Q4_K;
    assert_refused(&t, GRAIL_ERROR_UNSUPPORTED,
                   "has dtype Q4_K, whose blocks are those of GGUF files; open the file, or give "
                   "the values as F32, F16 or BF16");
}

TEST(names_and_data_that_are_missing_or_twice_are_refused)
{
    checkpoint *c = NULL;
    grail_tensor t = matrix_of("first");
    assert_refused(&t, GRAIL_ERROR_FORMAT, "m: tensor 'first' occurs twice");
    t.name = NULL;
    assert_refused(&t, GRAIL_ERROR_ARGUMENT, "m: tensor 1 has no name");
    t.name = "\xff";
    assert_refused(&t, GRAIL_ERROR_ARGUMENT, "is not UTF-8");
    t = matrix_of("t");
    t.data = NULL;
    assert_refused(&t, GRAIL_ERROR_ARGUMENT,
                   "m: tensor 't': has no data, and the model has no load function");
    assert_fails(open_tensors(NULL, 2, &c), GRAIL_ERROR_ARGUMENT, "m: has no tensors");
    assert_fails(open_tensors(&t, 0, &c), GRAIL_ERROR_ARGUMENT, "m: has no tensors");
    assert_fails(open_tensors(&t, -5, &c), GRAIL_ERROR_ARGUMENT, "m: has no tensors");
}

static grail_status open_documents(const grail_document documents[], int count)
{
    grail_status status = GRAIL_OK;
    checkpoint *c = NULL;
    const grail_tensor t = matrix_of("t");
    const grail_memory_model memory = {
        .tensors = &t, .tensor_count = 1, .documents = documents, .document_count = count};
    status = checkpoint_open_memory(&memory, &c);
    checkpoint_close(c);
    return status;
}

TEST(documents_that_are_no_files_are_refused)
{
    static const char *const names[] = {"", "..", "../config.json", "a/b.json", ".hidden", NULL};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const grail_document d = {.name = names[i], .bytes = "{}", .size = 2};
        assert_fails(open_documents(&d, 1), GRAIL_ERROR_ARGUMENT,
                     names[i] == NULL ? "memory: document 0 has no name"
                                      : "is not that of a plain file");
    }
    const grail_document sizes[] = {{.name = "a", .size = -1}, {.name = "a", .size = 1}};
    assert_fails(open_documents(&sizes[0], 1), GRAIL_ERROR_ARGUMENT,
                 "memory: document 'a' has -1 bytes");
    assert_fails(open_documents(&sizes[1], 1), GRAIL_ERROR_ARGUMENT,
                 "memory: document 'a' has 1 bytes, but none are given");
    const grail_document twice[] = {{.name = "a"}, {.name = "a"}};
    assert_fails(open_documents(twice, 2), GRAIL_ERROR_ARGUMENT, "document 'a' occurs twice");
    assert_fails(open_documents(NULL, 2), GRAIL_ERROR_ARGUMENT, "has 2 documents");
    assert_fails(open_documents(twice, -1), GRAIL_ERROR_ARGUMENT, "has -1 documents");
}

/* -- what is read ------------------------------------------------------------------------------ */

TEST(data_is_the_callers_and_the_rest_is_copied)
{
    char name[] = "t";
    char text[] = "{\"a\": 1}";
    int64_t shape[] = {2, 3};
    grail_tensor t = matrix_of(name);
    t.shape = shape;
    grail_document d = {.name = name, .bytes = text, .size = (int64_t)strlen(text)};
    const grail_memory_model memory = {
        .tensors = &t, .tensor_count = 1, .documents = &d, .document_count = 1};
    checkpoint *c = NULL;
    char *place = NULL;
    json_t *read = NULL;
    assert_ok(checkpoint_open_memory(&memory, &c));
    name[0] = 'x';
    text[0] = 'x';
    shape[0] = 7;
    const tensor_view *view = checkpoint_find(c, "t");
    assert_ptr_equal(view->data, values);
    assert_int_equal(view->shape[0], 2);
    assert_int_equal(view->bytes, sizeof values);
    assert_null(checkpoint_directory(c));
    assert_ok(beside_read_json(c, "t", 100, &place, &read));
    assert_string_equal(place, "memory/t");
    assert_int_equal(json_integer_value(json_object_get(read, "a")), 1);
    json_decref(read);
    memory_free(place);
    read = NULL;
    assert_fails(beside_read_json(c, "t", 7, &place, &read), GRAIL_ERROR_FORMAT,
                 "'memory/t' has 8 bytes, more than the allowed 7");
    memory_free(place);
    assert_ok(beside_read_json(c, "other", 100, &place, &read));
    assert_null(place);
    assert_null(read);
    checkpoint_release(c, view);
    assert_ptr_equal(view->data, values);
    checkpoint_close(c);
}

/* -- tensors that a function gives ------------------------------------------------------------- */

typedef struct giver {
    int calls[4];
    grail_status answer;
    const char *words; /* that it records when it fails; NULL: none */
} giver;

static grail_status give(void *user, int64_t tensor, void *bytes, int64_t size)
{
    giver *g = user;
    g->calls[tensor]++;
    if (g->answer != GRAIL_OK) {
        if (g->words != NULL) {
            grail_error_record(g->words);
        }
        return g->answer;
    }
    assert_int_equal(size, sizeof values);
    memcpy(bytes, values, sizeof values);
    return GRAIL_OK;
}

static checkpoint *open_given(giver *g)
{
    static const int64_t none[] = {0, 5};
    checkpoint *c = NULL;
    grail_tensor tensors[] = {matrix_of("own"), matrix_of("given"), matrix_of("empty")};
    tensors[1].data = NULL;
    tensors[2].data = NULL;
    tensors[2].shape = none;
    const grail_memory_model memory = {
        .name = "m", .tensors = tensors, .tensor_count = 3, .load = give, .user = g};
    assert_ok(checkpoint_open_memory(&memory, &c));
    return c;
}

TEST(a_tensor_is_asked_for_when_it_is_needed_and_dropped_again)
{
    giver g = {0};
    OWNED(checkpoint) *c = open_given(&g);
    const tensor_view *given = checkpoint_find(c, "given");
    assert_int_equal(g.calls[1], 0);
    const int64_t before = memory_in_use();
    for (int i = 0; i < 3; i++) {
        assert_null(given->data);
        assert_ok(checkpoint_need(c, given));
        assert_ok(checkpoint_need(c, given));
        assert_memory_equal(given->data, values, sizeof values);
        assert_int_equal(g.calls[1], i + 1);
        checkpoint_release(c, given);
        checkpoint_release(c, given);
        assert_int_equal(memory_in_use(), before);
    }
    assert_ok(checkpoint_need(c, checkpoint_find(c, "own")));
    assert_ok(checkpoint_need(c, checkpoint_find(c, "empty")));
    assert_ok(checkpoint_load(c));
    assert_int_equal(g.calls[0] + g.calls[2], 0);
    assert_ok(checkpoint_need(c, given)); /* closing frees it */
}

TEST(a_function_that_fails_is_an_error_that_names_the_tensor)
{
    giver g = {.answer = GRAIL_ERROR_CANCELLED};
    checkpoint *c = open_given(&g);
    const tensor_view *given = checkpoint_find(c, "given");
    assert_fails(checkpoint_need(c, given), GRAIL_ERROR_CANCELLED,
                 "m: the function that gives tensors gave no 'given' and returned 10 (cancelled)");
    g.words = "the disk is gone";
    for (int i = 0; i < 2; i++) { /* its own words are told each time */
        assert_fails(checkpoint_need(c, given), GRAIL_ERROR_CANCELLED,
                     "(cancelled): the disk is gone");
    }
    g.answer = (grail_status)99;
    assert_fails(checkpoint_need(c, given), GRAIL_ERROR_IO, "returned 99 (no status)");
    g.answer = (grail_status)-3;
    assert_fails(checkpoint_need(c, given), GRAIL_ERROR_IO, "returned -3 (no status)");
    assert_null(given->data);
    g.answer = GRAIL_OK;
    assert_ok(checkpoint_need(c, given));
    assert_non_null(given->data);
    checkpoint_close(c);
}

/* -- matrices that several tensors hold -------------------------------------------------------- */

static grail_status give_blocks(void *user, int64_t tensor, void *bytes, int64_t size)
{
    *(int *)user += 1;
    memset(bytes, (int)tensor + 1, (size_t)size);
    return GRAIL_OK;
}

TEST(pairs_are_joined_also_where_a_function_gives_them)
{
    static const int64_t blocks[] = {2, 3, 1, 16};
    static const int64_t scales[] = {2, 3, 1};
    const grail_tensor tensors[] = {
        {.name = "a.w_blocks", .dtype = GRAIL_DTYPE_U8, .rank = 4, .shape = blocks},
        {.name = "a.w_scales", .dtype = GRAIL_DTYPE_U8, .rank = 3, .shape = scales},
        {.name = "counter", .dtype = GRAIL_DTYPE_U8, .rank = 1, .shape = scales}};
    int calls = 0;
    const grail_memory_model memory = {
        .tensors = tensors, .tensor_count = 3, .load = give_blocks, .user = &calls};
    checkpoint *c = NULL;
    assert_ok(checkpoint_open_memory(&memory, &c));
    assert_int_equal(calls, 3);
    assert_int_equal(checkpoint_count(c), 2);
    const tensor_view *joined = checkpoint_find(c, "a.w");
    assert_non_null(joined);
    assert_null(checkpoint_find(c, "counter")->data);
    checkpoint_release(c, joined); /* stays, since its parts would have to be joined again */
    assert_ok(checkpoint_need(c, joined));
    assert_int_equal(((const unsigned char *)joined->data)[95], 1);
    assert_int_equal(((const unsigned char *)joined->scales)[5], 2);
    assert_int_equal(calls, 3);
    checkpoint_close(c);
}

static grail_status open_once(void *context)
{
    OWNED(checkpoint) *c = NULL;
    const grail_status status = checkpoint_open_memory(context, &c);
    const grail_status needed =
        status == GRAIL_OK ? checkpoint_need(c, checkpoint_at(c, 0)) : status;
    return needed;
}

TEST(every_failing_allocation_is_survived)
{
    giver g = {0};
    grail_tensor t = matrix_of("t");
    t.data = NULL;
    const grail_document d = {.name = "config.json", .bytes = "{}", .size = 2};
    grail_memory_model memory = {.tensors = &t,
                                 .tensor_count = 1,
                                 .documents = &d,
                                 .document_count = 1,
                                 .load = give,
                                 .user = &g};
    support_fail_each_allocation(open_once, &memory);
}
