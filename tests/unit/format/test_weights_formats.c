/* What every format that weights are written in promises: each test runs on all of the list. */
#include "support/support.h"

#include "base/file.h"
#include "format/weights/safetensors.h"
#include "format/weights/weights_format.h"
#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

#define WEIGHTS_FORMAT(name) &weights_format_##name,
static const weights_format *const formats[] = {
#include "format/weights/weights_format_list.h"
};
#undef WEIGHTS_FORMAT

/* ONNX files are written in place of one that was read (test_onnx_weights.c). */
static bool takes_any_tensors(const weights_format *format)
{
    return format != &weights_format_onnx;
}

enum { FORMATS = sizeof formats / sizeof formats[0], TENSORS = 2 };

/* A checkpoint that was read, and the file to write for it in one of the formats. */
typedef struct rewriting {
    const weights_format *format;
    char *directory;
    checkpoint *like;
    tensor_view shapes[TENSORS];
    char *path;
} rewriting;

static const float wide[] = {1.0F, -2.0F, 3.5F};
static const char narrow[] = {7, 8};

static void setup(rewriting *r, const weights_format *format)
{
    char *path = NULL;
    OWNED(char) *name = NULL;
    const tensor_view tensors[TENSORS] = {{.name = "module.b",
                                           .dtype = GRAIL_DTYPE_F32,
                                           .rank = 2,
                                           .shape = {3, 1},
                                           .data = wide,
                                           .bytes = sizeof wide},
                                          {.name = "a",
                                           .dtype = GRAIL_DTYPE_I8,
                                           .rank = 1,
                                           .shape = {2},
                                           .data = narrow,
                                           .bytes = sizeof narrow}};
    *r = (rewriting){.format = format, .directory = support_temporary_directory()};
    assert_ok(path_join(&path, r->directory, CHECKPOINT_SINGLE_NAME));
    assert_ok(safetensors_write_file(path, false, TENSORS, tensors));
    assert_ok(checkpoint_open(r->directory, &r->like));
    memcpy(r->shapes, tensors, sizeof tensors);
    assert_ok(format->file_name(r->like, 0, checkpoint_format(r->like) == format, &name));
    memory_free(path);
    path = NULL;
    assert_ok(memory_format(&path, "written-%s", name));
    assert_ok(path_join(&r->path, r->directory, path));
    memory_free(path);
}

static void teardown(rewriting *r)
{
    checkpoint_close(r->like);
    support_remove_tree(r->directory);
    memory_free(r->directory);
    memory_free(r->path);
}

OWNS(rewriting, teardown)

static grail_status open_writer(const rewriting *r, layout_start start, tensor_writer **out)
{
    const written_form form = {0};
    return r->format->open(r->path, r->like, 0, &form, TENSORS, r->shapes, start, out);
}

static void put_all(const rewriting *r, tensor_writer *writer)
{
    for (int i = 0; i < TENSORS; i++) {
        assert_ok(
            tensor_writer_put(writer, r->shapes[i].name, r->shapes[i].data, r->shapes[i].bytes));
    }
}

static void assert_holds(const rewriting *r, const tensor_writer *writer)
{
    for (int i = 0; i < TENSORS; i++) {
        char found[sizeof wide];
        assert_ok(tensor_writer_get(writer, r->shapes[i].name, found, r->shapes[i].bytes));
        assert_memory_equal(found, r->shapes[i].data, r->shapes[i].bytes);
    }
}

TEST(names_are_unique)
{
    for (int i = 0; i < FORMATS; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(formats[i]->name, formats[j]->name);
        }
    }
}

TEST(what_was_put_is_read_back)
{
    for (int i = 0; i < FORMATS; i++) {
        if (!takes_any_tensors(formats[i])) {
            continue;
        }
        OWNED(rewriting) r;
        setup(&r, formats[i]);
        OPENED(tensor_writer, writer, open_writer(&r, LAYOUT_NEW, &writer));
        put_all(&r, writer);
        assert_ok(tensor_writer_flush(writer));
        assert_holds(&r, writer);
        assert_ok(tensor_writer_seal(writer));
    }
}

TEST(a_later_writer_continues)
{
    for (int i = 0; i < FORMATS; i++) {
        if (!takes_any_tensors(formats[i])) {
            continue;
        }
        OWNED(rewriting) r;
        tensor_writer *writer = NULL;
        setup(&r, formats[i]);
        assert_ok(open_writer(&r, LAYOUT_NEW, &writer));
        put_all(&r, writer);
        assert_ok(tensor_writer_flush(writer));
        tensor_writer_close(writer);
        assert_ok(open_writer(&r, LAYOUT_CONTINUED, &writer));
        assert_holds(&r, writer);
        tensor_writer_close(writer);
    }
}

TEST(what_does_not_fit_is_refused)
{
    for (int i = 0; i < FORMATS; i++) {
        if (!takes_any_tensors(formats[i])) {
            continue;
        }
        OWNED(rewriting) r;
        tensor_writer *writer = NULL;
        char found[sizeof wide];
        setup(&r, formats[i]);
        assert_ok(open_writer(&r, LAYOUT_NEW, &writer));
        assert_fails(tensor_writer_put(writer, "a", narrow, 1), GRAIL_ERROR_SHAPE, "'a'");
        assert_fails(tensor_writer_get(writer, "a", found, 3), GRAIL_ERROR_SHAPE, "'a'");
        assert_fails(tensor_writer_put(writer, "c", narrow, 2), GRAIL_ERROR_ARGUMENT, "'c'");
        put_all(&r, writer);
        assert_fails(tensor_writer_put(writer, "a", narrow, 2), GRAIL_ERROR_ARGUMENT,
                     "second time");
        tensor_writer_close(writer);
        writer = NULL;
        assert_fails(open_writer(&r, LAYOUT_NEW, &writer), GRAIL_ERROR_EXISTS, r.path);
        assert_null(writer);
    }
}

/* Removes the file of earlier calls first. */
static grail_status write_once(void *context)
{
    const rewriting *r = context;
    OWNED(tensor_writer) *writer = NULL;
    remove(r->path);
    const grail_status status = open_writer(r, LAYOUT_NEW, &writer);
    assert_true((status == GRAIL_OK) == (writer != NULL));
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    for (int i = 0; i < FORMATS; i++) {
        if (!takes_any_tensors(formats[i])) {
            continue;
        }
        OWNED(rewriting) r;
        setup(&r, formats[i]);
        support_fail_each_allocation(write_once, &r);
    }
}

CMFixtureFunction support_setup = json_memory_use;
