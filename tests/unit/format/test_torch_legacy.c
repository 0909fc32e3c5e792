/* Torch checkpoints of the format before torch 1.6, a stream of pickles and storages. */
#include "support/support.h"

#include "torch_bytes.h"
#include "torch_fixture.h"

#include <string.h>

static const char legacy_begin[] =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.";

/* A legacy file up to its object, which the caller appends. */
static void begin_legacy(torch_fixture *c, bool little_endian)
{
    assert_ok(buffer_append(&c->file, BYTES(legacy_begin)));
    assert_ok(buffer_append(&c->file, BYTES("\x80\x02}U\x0dlittle_endian")));
    assert_ok(buffer_append(&c->file, little_endian ? "\x88s." : "\x89s.", 3));
}

static void end_legacy(torch_fixture *c, const char *keys, int64_t elements, size_t bytes)
{
    assert_ok(buffer_append_string(&c->file, keys));
    assert_ok(buffer_append(&c->file, &elements, sizeof elements));
    assert_ok(buffer_append(&c->file, torch_fixture_values, bytes));
}

static grail_status open_file(torch_fixture *c)
{
    return torch_file_open_bytes("x.th", c->file.bytes, c->file.size, &c->torch);
}

static torch_tensor_bytes legacy_tensor(const char *name)
{
    torch_tensor_bytes tensor = torch_fixture_plain(name);
    tensor.function = "_rebuild_tensor";
    tensor.legacy = true;
    return tensor;
}

static void test_legacy_streams_are_read(void **state)
{
    (void)state;
    torch_fixture c = torch_fixture_begin();
    torch_tensor_bytes tensors[] = {legacy_tensor("whole"), legacy_tensor("of a view")};
    tensors[1].view_offset = 4;
    tensors[1].view_elements = 6;
    tensors[1].offset = 2;
    tensors[1].shape[0] = 4;
    begin_legacy(&c, true);
    torch_bytes_dict(&c.file, 2, tensors);
    end_legacy(&c,
               "]U\x01\x30"
               "a.",
               TORCH_FIXTURE_VALUES, sizeof torch_fixture_values);
    assert_ok(open_file(&c));
    assert_memory_equal(torch_fixture_find(c.torch, "whole")->data, torch_fixture_values,
                        sizeof torch_fixture_values);
    assert_near(torch_fixture_value(torch_fixture_find(c.torch, "of a view"), 0), 6, 0);
    torch_fixture_end(&c);
}

typedef struct legacy_lie {
    const char *keys;
    int64_t elements;
    size_t bytes;
    const char *text;
} legacy_lie;

static const legacy_lie legacy_lies[] = {
    {"]U\x01\x30"
     "a.",
     TORCH_FIXTURE_VALUES, sizeof torch_fixture_values - 4,
     "storage '0' has 24 elements of 4 bytes, but 92 bytes are left"},
    {"]U\x01\x30"
     "a.",
     25, sizeof torch_fixture_values, "storage '0' has 25 elements, but the tensors expect 24"},
    {"]U\x01\x30"
     "a.",
     -1, sizeof torch_fixture_values, "storage '0' has -1 elements"},
    {"]U\x01\x31"
     "a.",
     TORCH_FIXTURE_VALUES, sizeof torch_fixture_values,
     "storage '1' is listed, but no tensor refers to it"},
    {"](U\x01\x30U\x01\x30"
     "e.",
     TORCH_FIXTURE_VALUES, sizeof torch_fixture_values, "storage '0' is listed twice"},
    {"](U\x01\x30K\x01"
     "e.",
     TORCH_FIXTURE_VALUES, sizeof torch_fixture_values, "the key of storage 1 is not text"},
    {"N.", TORCH_FIXTURE_VALUES, sizeof torch_fixture_values, "its list of storages is None"},
    {"].", TORCH_FIXTURE_VALUES, sizeof torch_fixture_values, "its storages end at byte"},
    {"X", TORCH_FIXTURE_VALUES, 0, "its list of storages, which begins at byte"},
};

static void test_legacy_streams_that_lie_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof legacy_lies / sizeof legacy_lies[0]; i++) {
        const legacy_lie *lie = &legacy_lies[i];
        torch_fixture c = torch_fixture_begin();
        const torch_tensor_bytes tensor = legacy_tensor("x");
        begin_legacy(&c, true);
        torch_bytes_dict(&c.file, 1, &tensor);
        end_legacy(&c, lie->keys, lie->elements, lie->bytes);
        assert_fails(open_file(&c), GRAIL_ERROR_FORMAT, lie->text);
        torch_fixture_end(&c);
    }
}

static void test_big_endian_streams_are_refused(void **state)
{
    (void)state;
    torch_fixture c = torch_fixture_begin();
    begin_legacy(&c, false);
    assert_fails(open_file(&c), GRAIL_ERROR_UNSUPPORTED, "is not little-endian");
    torch_fixture_end(&c);
}

static void test_unknown_protocols_are_refused(void **state)
{
    (void)state;
    torch_fixture c = torch_fixture_begin();
    begin_legacy(&c, true);
    c.file.bytes[18]++;
    assert_fails(open_file(&c), GRAIL_ERROR_UNSUPPORTED, "its protocol is not 1001");
    torch_fixture_end(&c);
}

static void test_storages_of_two_sizes_are_refused(void **state)
{
    (void)state;
    torch_fixture c = torch_fixture_begin();
    torch_tensor_bytes tensors[] = {legacy_tensor("a"), legacy_tensor("b")};
    tensors[1].class = "HalfStorage";
    begin_legacy(&c, true);
    torch_bytes_dict(&c.file, 2, tensors);
    end_legacy(&c,
               "]U\x01\x30"
               "a.",
               TORCH_FIXTURE_VALUES, sizeof torch_fixture_values);
    assert_fails(open_file(&c), GRAIL_ERROR_FORMAT,
                 "the tensors give different sizes for storage '0'");
    torch_fixture_end(&c);
}

static void test_views_behind_their_storage_are_refused(void **state)
{
    (void)state;
    torch_fixture c = torch_fixture_begin();
    torch_tensor_bytes tensor = legacy_tensor("a");
    tensor.view_offset = 20;
    tensor.view_elements = 5;
    begin_legacy(&c, true);
    torch_bytes_dict(&c.file, 1, &tensor);
    end_legacy(&c,
               "]U\x01\x30"
               "a.",
               TORCH_FIXTURE_VALUES, sizeof torch_fixture_values);
    assert_fails(open_file(&c), GRAIL_ERROR_FORMAT,
                 "its view of the storage reaches past the end of the storage");
    torch_fixture_end(&c);
}

static void test_every_failing_allocation_is_reported(void **state)
{
    (void)state;
    torch_fixture c = torch_fixture_begin();
    torch_tensor_bytes tensors[] = {torch_fixture_plain("a"), torch_fixture_plain("b")};
    tensors[1].shape[0] = 12;
    tensors[1].stride[0] = 2;
    begin_legacy(&c, true);
    torch_bytes_dict(&c.file, 2, tensors);
    end_legacy(&c,
               "]U\x01\x30"
               "a.",
               TORCH_FIXTURE_VALUES, sizeof torch_fixture_values);
    support_fail_each_allocation(torch_fixture_reopen, &c);
    torch_fixture_end(&c);
}

/* Sums by torch 1.13.1, in float64. */
static void test_a_published_legacy_checkpoint_is_read(void **state)
{
    (void)state;
    tensor_file *torch = NULL;
    assert_ok(torch_file_open(torch_fixture_shared("resnet-cifar/resnet20-12fca82f.th"), &torch));
    assert_int_equal(torch->count, 97);
    assert_string_equal(torch->wrapper, "state_dict");
    assert_string_equal(torch->tensors[0].name, "module.conv1.weight");
    const tensor_view *weight = torch_fixture_find(torch, "module.layer3.2.conv2.weight");
    assert_int_equal(weight->rank, 4);
    assert_int_equal(weight->shape[0], 64);
    assert_near(torch_fixture_sum(weight), 1.509974816668091, 1e-3);
    tensor_file_release(torch, weight);
    assert_near(torch_fixture_sum(weight), 1.509974816668091, 1e-3);
    tensor_file_close(torch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_legacy_streams_are_read),
        cmocka_unit_test(test_legacy_streams_that_lie_are_refused),
        cmocka_unit_test(test_big_endian_streams_are_refused),
        cmocka_unit_test(test_unknown_protocols_are_refused),
        cmocka_unit_test(test_storages_of_two_sizes_are_refused),
        cmocka_unit_test(test_views_behind_their_storage_are_refused),
        cmocka_unit_test(test_every_failing_allocation_is_reported),
        cmocka_unit_test(test_a_published_legacy_checkpoint_is_read),
    };
    return cmocka_run_group_tests(tests, torch_fixture_fill, NULL);
}
