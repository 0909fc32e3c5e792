/* Torch checkpoints that are zip files: tensors, names and wrappers; every way in which one can
 * lie. */
#include "support/support.h"

#include "torch_bytes.h"
#include "torch_fixture.h"

#include <stdio.h>
#include <string.h>

static grail_status open_zip(torch_fixture *c)
{
    const torch_member members[] = {
        {"archive/data.pkl", c->object.bytes, c->object.size},
        {"archive/data/0", torch_fixture_values, sizeof torch_fixture_values},
        {"archive/version", "3\n", 2},
    };
    torch_bytes_zip(3, members, &c->file);
    return torch_file_open_bytes("x.pth", c->file.bytes, c->file.size, &c->torch);
}

static void put(torch_fixture *c, const char *text)
{
    assert_ok(buffer_append_string(&c->object, text));
}

TEST(test_contiguous_tensors_are_views_of_the_file)
{
    OWNED(torch_fixture) c = torch_fixture_begin();
    torch_tensor_bytes tensors[] = {torch_fixture_plain("whole"), torch_fixture_plain("part"),
                                    torch_fixture_plain("scalar")};
    tensors[1].rank = 2;
    tensors[1].shape[0] = 2;
    tensors[1].shape[1] = tensors[1].stride[0] = 3;
    tensors[1].stride[1] = 1;
    tensors[1].offset = 6;
    tensors[2].rank = 0;
    tensors[2].offset = 23;
    torch_bytes_dict(&c.object, 3, tensors);
    assert_ok(open_zip(&c));
    assert_int_equal(c.torch->count, 3);
    assert_string_equal(c.torch->wrapper, "");
    const tensor_view *whole = &c.torch->tensors[0];
    const tensor_view *part = torch_fixture_find(c.torch, "part");
    const tensor_view *scalar = torch_fixture_find(c.torch, "scalar");
    assert_string_equal(whole->name, "whole");
    assert_int_equal(whole->dtype, GRAIL_DTYPE_F32);
    assert_int_equal(whole->bytes, sizeof torch_fixture_values);
    assert_memory_equal(whole->data, torch_fixture_values, sizeof torch_fixture_values);
    assert_in_range((uintptr_t)whole->data, (uintptr_t)c.file.bytes,
                    (uintptr_t)c.file.bytes + c.file.size);
    assert_int_equal(part->rank, 2);
    assert_int_equal(part->shape[1], 3);
    assert_ptr_equal(part->data, (const float *)whole->data + 6);
    assert_int_equal(scalar->rank, 0);
    assert_near(torch_fixture_value(scalar, 0), 23, 0);
    assert_null(torch_fixture_find(c.torch, "other"));
    tensor_file_release(c.torch, whole);
}

/* [2, 3, 4] read as [4, 3, 2]; every second element; one row three times; a size of 1 may have any
 * stride */
TEST(test_strided_tensors_are_made_contiguous)
{
    OWNED(torch_fixture) c = torch_fixture_begin();
    torch_tensor_bytes tensors[] = {
        {.name = "turned", .rank = 3, .shape = {4, 3, 2}, .stride = {1, 4, 12}},
        {.name = "second", .rank = 1, .offset = 1, .shape = {12}, .stride = {2}},
        {.name = "expanded", .rank = 2, .offset = 20, .shape = {3, 4}, .stride = {0, 1}},
        {.name = "one", .rank = 2, .shape = {1, 24}, .stride = {INT64_MAX, 1}},
        {.name = "even", .rank = 2, .offset = 2, .shape = {1, 11}, .stride = {INT64_MAX, 2}},
    };
    for (int i = 0; i < 5; i++) {
        tensors[i].elements = TORCH_FIXTURE_VALUES;
    }
    torch_bytes_dict(&c.object, 5, tensors);
    assert_ok(open_zip(&c));
    const tensor_view *turned = &c.torch->tensors[0];
    assert_int_equal(turned->shape[0], 4);
    assert_null(turned->data);
    assert_ok(tensor_file_load(c.torch));
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 3; j++) {
            for (int k = 0; k < 2; k++) {
                assert_near(torch_fixture_value(turned, (size_t)((i * 3 + j) * 2 + k)),
                            k * 12 + j * 4 + i, 0);
            }
        }
    }
    for (size_t i = 0; i < 12; i++) {
        assert_near(torch_fixture_value(&c.torch->tensors[1], i), 2 * (double)i + 1, 0);
        assert_near(torch_fixture_value(&c.torch->tensors[2], i), 20 + (double)(i % 4), 0);
    }
    assert_near(torch_fixture_value(&c.torch->tensors[4], 10), 22, 0);
    assert_memory_equal(c.torch->tensors[3].data, torch_fixture_values,
                        sizeof torch_fixture_values);
    assert_in_range((uintptr_t)c.torch->tensors[3].data, (uintptr_t)c.file.bytes,
                    (uintptr_t)c.file.bytes + c.file.size);
    tensor_file_release(c.torch, &c.torch->tensors[0]);
    assert_near(torch_fixture_value(turned, 1), 12, 0);
}

TEST(test_an_empty_tensor_has_no_bytes)
{
    OWNED(torch_fixture) c = torch_fixture_begin();
    torch_tensor_bytes tensor = torch_fixture_plain("none");
    tensor.rank = 2;
    tensor.shape[0] = 0;
    tensor.shape[1] = 1000;
    tensor.offset = 1000;
    torch_bytes_dict(&c.object, 1, &tensor);
    assert_ok(open_zip(&c));
    assert_int_equal(c.torch->tensors[0].bytes, 0);
}

typedef struct dtype_case {
    const char *class;
    const char *dtype; /* of _rebuild_tensor_v3 */
    grail_dtype expected;
    int64_t elements; /* of 96 bytes */
} dtype_case;

static const dtype_case dtype_cases[] = {
    {"DoubleStorage", NULL, GRAIL_DTYPE_F64, 12},
    {"HalfStorage", NULL, GRAIL_DTYPE_F16, 48},
    {"BFloat16Storage", NULL, GRAIL_DTYPE_BF16, 48},
    {"LongStorage", NULL, GRAIL_DTYPE_I64, 12},
    {"IntStorage", NULL, GRAIL_DTYPE_I32, 24},
    {"ShortStorage", NULL, GRAIL_DTYPE_I16, 48},
    {"CharStorage", NULL, GRAIL_DTYPE_I8, 96},
    {"ByteStorage", NULL, GRAIL_DTYPE_U8, 96},
    {"BoolStorage", NULL, GRAIL_DTYPE_BOOL, 96},
    {"ComplexFloatStorage", NULL, GRAIL_DTYPE_C64, 12},
    {"UntypedStorage", "float8_e4m3fn", GRAIL_DTYPE_F8_E4M3, 96},
    {"UntypedStorage", "uint16", GRAIL_DTYPE_U16, 48},
    {"UntypedStorage", "float32", GRAIL_DTYPE_F32, 24},
};

TEST(test_every_storage_class_has_its_dtype)
{
    for (size_t i = 0; i < sizeof dtype_cases / sizeof dtype_cases[0]; i++) {
        const dtype_case *d = &dtype_cases[i];
        OWNED(torch_fixture) c = torch_fixture_begin();
        const torch_tensor_bytes tensor = {
            .name = "x",
            .function = d->dtype == NULL ? NULL : "_rebuild_tensor_v3",
            .class = d->class,
            .dtype = d->dtype,
            .elements = d->dtype == NULL ? d->elements : 96,
            .rank = 1,
            .shape = {d->elements},
            .stride = {1},
        };
        torch_bytes_dict(&c.object, 1, &tensor);
        assert_ok(open_zip(&c));
        assert_int_equal(c.torch->tensors[0].dtype, d->expected);
        assert_int_equal(c.torch->tensors[0].bytes, 96);
    }
}

/* Parameter(tensor), _rebuild_parameter(tensor, True, ...), a subclass of Tensor */
TEST(test_parameters_and_subclasses_are_unwrapped)
{
    OWNED(torch_fixture) c = torch_fixture_begin();
    const torch_tensor_bytes tensor = torch_fixture_plain("x");
    put(&c, "}(U\x01"
            "actorch._utils\n_rebuild_parameter\n");
    torch_bytes_tensor(&c.object, &tensor);
    put(&c, "\x88N\x87RU\x01"
            "bctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_tensor_v2\n"
            "ctorch.nn.parameter\nParameter\n");
    buffer arguments = {0};
    buffer_init(&arguments, TORCH_FIXTURE_LARGEST);
    torch_bytes_tensor(&arguments, &tensor);
    const size_t function = strlen("ctorch._utils\n_rebuild_tensor_v2\n");
    assert_ok(buffer_append(&c.object, arguments.bytes + function, arguments.size - function - 1));
    buffer_fini(&arguments);
    put(&c, "}tRu.");
    assert_ok(open_zip(&c));
    assert_int_equal(c.torch->count, 2);
    assert_memory_equal(torch_fixture_find(c.torch, "a")->data, torch_fixture_values,
                        sizeof torch_fixture_values);
    assert_memory_equal(torch_fixture_find(c.torch, "b")->data, torch_fixture_values,
                        sizeof torch_fixture_values);
}

/* {"epoch": 3, "lr": 0.5, "args": Namespace(), "model": {"m": ...}, "state_dict": {"s": ...},
 *  "state_dict_ema": None} */
TEST(test_the_first_usual_key_with_tensors_is_taken)
{
    OWNED(torch_fixture) c = torch_fixture_begin();
    const torch_tensor_bytes m = torch_fixture_plain("m");
    const torch_tensor_bytes s = torch_fixture_plain("module.s");
    put(&c, "\x80\x02}(U\x05"
            "epochK\x03U\x02lrG");
    assert_ok(buffer_append(&c.object, "\x3f\xe0\0\0\0\0\0\0", 8));
    put(&c, "U\x04"
            "argscargparse\nNamespace\n)\x81}bU\x05model}(");
    torch_bytes_item(&c.object, &m);
    put(&c, "uU\x0astate_dict}(");
    torch_bytes_item(&c.object, &s);
    put(&c, "U\x05"
            "countK\x03uU\x0estate_dict_emaNu.");
    assert_ok(open_zip(&c));
    assert_string_equal(c.torch->wrapper, "state_dict");
    assert_int_equal(c.torch->count, 1);
    assert_string_equal(c.torch->tensors[0].name, "module.s");
}

/* Appends KEY: {NAME0: ..., NAME1: ..., ...}. */
static void put_tensors(torch_fixture *c, const char *key, const char *name, int count)
{
    const char length[] = {'U', (char)strlen(key), 0};
    put(c, length);
    put(c, key);
    put(c, "}(");
    for (int i = 0; i < count; i++) {
        char own[16];
        snprintf(own, sizeof own, "%s%d", name, i);
        const torch_tensor_bytes t = torch_fixture_plain(own);
        torch_bytes_item(&c->object, &t);
    }
    put(c, "u");
}

TEST(test_a_dictionary_as_large_as_a_network_is_taken)
{
    static const struct {
        const char *one, *other;
        int count, other_count;
        const char *taken, *rival;
    } cases[] = {
        {"ema", "model", 1, 3, "model", ""},    /* counters of an average */
        {"model", "ema", 3, 3, "ema", "model"}, /* the order of the keys does not matter */
        {"ema", "model", 2, 4, "ema", "model"}, /* half of it */
        {"other", "model", 4, 3, "model", "other"}, {"teacher", "student", 1, 3, "student", ""},
        {"teacher", "student", 3, 3, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(torch_fixture) c = torch_fixture_begin();
        put(&c, "\x80\x02}(");
        put_tensors(&c, cases[i].one, "a", cases[i].count);
        put_tensors(&c, cases[i].other, "b", cases[i].other_count);
        put(&c, "u.");
        if (cases[i].taken == NULL) {
            assert_fails(open_zip(&c), GRAIL_ERROR_UNSUPPORTED,
                         "several dictionaries of tensors, 'teacher' and 'student' among them");
        } else {
            assert_ok(open_zip(&c));
            assert_string_equal(c.torch->wrapper, cases[i].taken);
            assert_string_equal(c.torch->rival, cases[i].rival);
        }
    }
}

/* {"epoch": 3, KEY: {"w": ...}} */
TEST(test_the_keys_of_tutorials_and_collections_are_known)
{
    static const char *const keys[] = {"model_state_dict", "net", "module", "any"};
    for (int i = 0; i < 4; i++) {
        OWNED(torch_fixture) c = torch_fixture_begin();
        const torch_tensor_bytes w = torch_fixture_plain("w");
        const char length[] = {'U', (char)strlen(keys[i]), 0};
        put(&c, "\x80\x02}(U\x05"
                "epochK\x03");
        put(&c, length);
        put(&c, keys[i]);
        put(&c, "}(");
        torch_bytes_item(&c.object, &w);
        put(&c, "uu.");
        assert_ok(open_zip(&c));
        assert_string_equal(c.torch->wrapper, keys[i]);
        assert_non_null(torch_fixture_find(c.torch, "w"));
    }
}

/* A tensor called "model" is no wrapper. */
TEST(test_a_bare_dictionary_may_use_a_usual_key)
{
    OWNED(torch_fixture) c = torch_fixture_begin();
    const torch_tensor_bytes tensors[] = {torch_fixture_plain("model"),
                                          torch_fixture_plain("last")};
    torch_bytes_dict(&c.object, 2, tensors);
    assert_ok(open_zip(&c));
    assert_string_equal(c.torch->wrapper, "");
    assert_int_equal(c.torch->count, 2);
}

#define SAVED_AGAIN                                                                                \
    "; save it again in Python, torch.save(torch.load(PATH, \"cpu\", weights_only=True), "         \
    "\"checkpoint.pth\"), or open it with Model.from_torch_file of the Python package"

/* Says of the second of two members that it is deflated. */
static void compress_second(const buffer *file)
{
    unsigned char *at = file->bytes;
    const unsigned char *end = file->bytes + file->size;
    at = memmem(at + 4, (size_t)(end - at) - 4, "PK\3\4", 4);
    at[8] = 8;
    at = memmem(at, (size_t)(end - at), "PK\1\2", 4);
    at = memmem(at + 4, (size_t)(end - at) - 4, "PK\1\2", 4);
    at[10] = 8;
}

TEST(test_what_is_left_to_torch_is_refused_with_the_remedy)
{
    static const char legacy[] = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.";
    torch_fixture c = torch_fixture_begin();
    assert_fails(torch_file_open_bytes("x.th", BYTES(legacy), &c.torch), GRAIL_ERROR_UNSUPPORTED,
                 "x.th: is in the format of torch before 1.6, which is not read" SAVED_AGAIN);
    assert_fails(torch_file_open_bytes("x.th", legacy, 14, &c.torch), GRAIL_ERROR_FORMAT,
                 "is not a torch checkpoint");
    const torch_member script[] = {{"net/data.pkl", "}.", 2}, {"net/constants.pkl", ").", 2}};
    torch_bytes_zip(2, script, &c.file);
    compress_second(&c.file); /* as TorchScript does its code */
    assert_fails(torch_file_open_bytes("x.pt", c.file.bytes, c.file.size, &c.torch),
                 GRAIL_ERROR_UNSUPPORTED,
                 "x.pt: is a TorchScript archive, which is not read; save its weights in Python, "
                 "torch.save(torch.jit.load(PATH, \"cpu\").state_dict(), \"weights.pth\"), or open "
                 "it with Model.from_torch_file of the Python package");
    torch_fixture_end(&c);
    c = torch_fixture_begin();
    const torch_member members[] = {{"a/data.pkl", "}.", 2}, {"a/code", "x", 1}};
    torch_bytes_zip(2, members, &c.file);
    compress_second(&c.file);
    assert_fails(torch_file_open_bytes("x.pth", c.file.bytes, c.file.size, &c.torch),
                 GRAIL_ERROR_UNSUPPORTED,
                 "x.pth: member 'a/code' is compressed, and compressed members are not "
                 "read" SAVED_AGAIN);
    torch_fixture_end(&c);
}

/* A tensor that claims what its file does not hold, and the message. */
typedef struct tensor_lie {
    torch_tensor_bytes tensor;
    grail_status code;
    const char *text;
} tensor_lie;

static const tensor_lie tensor_lies[] = {
    {{.elements = 25, .rank = 1, .shape = {24}, .stride = {1}},
     GRAIL_ERROR_FORMAT,
     "x.pth: tensor 'x': its storage '0' has 96 bytes, expected 25 elements of 4 bytes"},
    {{.elements = INT64_MAX, .rank = 1, .shape = {24}, .stride = {1}},
     GRAIL_ERROR_FORMAT,
     "its storage '0' has 96 bytes, expected"},
    {{.elements = -1, .rank = 1, .shape = {24}, .stride = {1}},
     GRAIL_ERROR_FORMAT,
     "its storage's size is not an integer of 0 or more"},
    {{.elements = 24, .key = "1", .rank = 1, .shape = {24}, .stride = {1}},
     GRAIL_ERROR_FORMAT,
     "its storage '1' is missing"},
    {{.elements = 24, .rank = 1, .shape = {25}, .stride = {1}},
     GRAIL_ERROR_FORMAT,
     "tensor 'x': reaches element 24 of its storage '0', which has 24"},
    {{.elements = 24, .rank = 1, .offset = 1, .shape = {24}, .stride = {1}},
     GRAIL_ERROR_FORMAT,
     "reaches element 24"},
    {{.elements = 24, .rank = 2, .shape = {2, 2}, .stride = {22, 2}},
     GRAIL_ERROR_FORMAT,
     "reaches element 24"},
    {{.elements = 24, .rank = 1, .offset = -1, .shape = {2}, .stride = {1}},
     GRAIL_ERROR_FORMAT,
     "its offset is not an integer of 0 or more"},
    {{.elements = 24, .rank = 1, .offset = INT64_MAX, .shape = {2}, .stride = {1}},
     GRAIL_ERROR_FORMAT,
     "its offset and strides reach past the end of any storage"},
    {{.elements = 24, .rank = 2, .shape = {4, 4}, .stride = {INT64_MAX, 1}},
     GRAIL_ERROR_FORMAT,
     "its offset and strides reach past the end of any storage"},
    {{.elements = 24, .rank = 1, .shape = {2}, .stride = {-1}},
     GRAIL_ERROR_FORMAT,
     "stride 0 is negative or not a number"},
    {{.elements = 24, .rank = 1, .shape = {-2}, .stride = {1}},
     GRAIL_ERROR_FORMAT,
     "dimension 0 is negative"},
    {{.elements = 24, .rank = 2, .shape = {INT64_MAX, 4}, .stride = {1, 1}},
     GRAIL_ERROR_FORMAT,
     "has more elements than any storage"},
    {{.elements = 24, .rank = 2, .shape = {1 << 15, 1 << 15}, .stride = {0, 0}},
     GRAIL_ERROR_FORMAT,
     "is strided, and the contiguous copies of this file's strided tensors would take more than"},
    {{.elements = 24, .rank = 2, .strides = 1, .shape = {2, 3}, .stride = {3}},
     GRAIL_ERROR_FORMAT,
     "has 2 dimensions, but 1 strides"},
    {{.elements = 24, .rank = 9, .shape = {1, 1, 1, 1, 1, 1, 1, 1, 1}},
     GRAIL_ERROR_UNSUPPORTED,
     "has 9 dimensions, more than the supported 8"},
    {{.elements = 24, .class = "NewStorage", .rank = 1, .shape = {1}},
     GRAIL_ERROR_UNSUPPORTED,
     "its storage has the unknown class 'torch.NewStorage'"},
    {{.elements = 6, .class = "ComplexDoubleStorage", .rank = 1, .shape = {1}},
     GRAIL_ERROR_UNSUPPORTED,
     "its dtype (complex128) is not supported"},
    {{.elements = 96, .class = "UntypedStorage", .rank = 1, .shape = {1}},
     GRAIL_ERROR_UNSUPPORTED,
     "its dtype (unknown) is not supported"},
    {{.elements = 24, .function = "_rebuild_tensor_v3", .rank = 1, .shape = {1}},
     GRAIL_ERROR_UNSUPPORTED,
     "its dtype (unknown) is not supported"},
    {{.elements = 24, .function = "_rebuild_sparse_tensor", .rank = 1, .shape = {1}},
     GRAIL_ERROR_UNSUPPORTED,
     "is made by '_rebuild_sparse_tensor', which is not supported"},
};

TEST(test_a_tensor_that_lies_is_refused_by_name)
{
    for (size_t i = 0; i < sizeof tensor_lies / sizeof tensor_lies[0]; i++) {
        OWNED(torch_fixture) c = torch_fixture_begin();
        torch_tensor_bytes tensor = tensor_lies[i].tensor;
        tensor.name = "x";
        torch_bytes_dict(&c.object, 1, &tensor);
        assert_fails(open_zip(&c), tensor_lies[i].code, tensor_lies[i].text);
        assert_null(c.torch);
    }
}

/* Objects without tensors, or with tensors that are none; `text` is a pickle. */
typedef struct bad_object {
    const char *bytes;
    size_t size;
    grail_status code;
    const char *text;
} bad_object;

static const bad_object bad_objects[] = {
    {BYTES("]."), GRAIL_ERROR_FORMAT, "its object is a list, not a dictionary"},
    {BYTES("}U\x05"
           "epochK\x01s."),
     GRAIL_ERROR_FORMAT,
     "holds no tensors, neither directly nor under a key such as state_dict; "
     "its keys are 'epoch'"},
    {BYTES("cnet\nNet\n)\x81}b."), GRAIL_ERROR_UNSUPPORTED,
     "its object is an object of the class 'net.Net', not a dictionary of tensors; save its "
     "state_dict() instead"},
    {BYTES("}U\x05modelcnet\nNet\n)\x81}bs."), GRAIL_ERROR_UNSUPPORTED,
     "its 'model' is an object of the class 'net.Net', not a dictionary of tensors; save its "
     "state_dict() instead"},
    {BYTES("}U\x01xctorch._utils\n_rebuild_tensor_v2\n)Rs."), GRAIL_ERROR_FORMAT,
     "tensor 'x': its storage is nothing"},
    {BYTES("}U\x01xctorch._utils\n_rebuild_tensor_v2\n(U\x05thing\x85QK\x01tRs."),
     GRAIL_ERROR_FORMAT, "its storage is a reference to outside the pickle"},
    {BYTES("}U\x01xctorch._utils\n_rebuild_tensor_v2\n(U\x07storageN\x86QtRs."), GRAIL_ERROR_FORMAT,
     "its storage lacks a class or a key"},
    {BYTES("}U\x01xctorch._utils\n_rebuild_tensor_v2\n((U\x07storagectorch\nFloatStorage\n"
           "U\x01\x30U\x03"
           "cpuK\x18NtQtRs."),
     GRAIL_ERROR_FORMAT, "its storage is described by 6 values, expected 5"},
    {BYTES("}U\x01xctorch._utils\n_rebuild_parameter\nN\x85Rs."), GRAIL_ERROR_FORMAT,
     "is a parameter that wraps None, expected a tensor"},
    {BYTES("}U\x01xcposix\nsystem\nU\x02id\x85Rs."), GRAIL_ERROR_FORMAT,
     "x.pth: archive/data.pkl: byte 4 of the pickle: GLOBAL: names 'posix.system'"},
    {BYTES("}q\x00U\x01xh\x00s."), GRAIL_ERROR_FORMAT, "a dict contains itself"},
};

TEST(test_an_object_without_usable_tensors_is_refused)
{
    for (size_t i = 0; i < sizeof bad_objects / sizeof bad_objects[0]; i++) {
        OWNED(torch_fixture) c = torch_fixture_begin();
        assert_ok(buffer_append(&c.object, bad_objects[i].bytes, bad_objects[i].size));
        assert_fails(open_zip(&c), bad_objects[i].code, bad_objects[i].text);
    }
}

static void refuse_names(const char *first, const char *second, const char *text)
{
    OWNED(torch_fixture) c = torch_fixture_begin();
    const torch_tensor_bytes tensors[] = {torch_fixture_plain(first), torch_fixture_plain(second)};
    torch_bytes_dict(&c.object, 2, tensors);
    assert_fails(open_zip(&c), GRAIL_ERROR_FORMAT, text);
}

TEST(test_names_that_cannot_be_told_apart_are_refused)
{
    refuse_names("a", "a", "tensor 'a' occurs twice");
    refuse_names("a", "\xff", "the name of a tensor is not UTF-8 text");
}

/* Archives of other members; `torch_fixture_values` stand for storage "0" everywhere. */
static void refuse_members(int count, const torch_member members[], grail_status code,
                           const char *text)
{
    OWNED(torch_fixture) c = torch_fixture_begin();
    torch_bytes_zip(count, members, &c.file);
    assert_fails(torch_file_open_bytes("x.pth", c.file.bytes, c.file.size, &c.torch), code, text);
}

TEST(test_archives_that_are_no_checkpoints_are_refused)
{
    static const torch_member bare[] = {{"data.pkl", "}.", 2}};
    static const torch_member two[] = {{"a/data.pkl", "}.", 2}, {"b/data.pkl", "}.", 2}};
    static const torch_member big[] = {{"a/data.pkl", "}.", 2}, {"a/byteorder", "big", 3}};
    static const torch_member other[] = {{"a/data.pkl", "}.", 2}, {"a/byteorder", "biggest", 7}};
    refuse_members(
        1, bare, GRAIL_ERROR_FORMAT,
        "is a zip archive without a data.pkl in a folder, so it is not a torch checkpoint");
    refuse_members(2, two, GRAIL_ERROR_FORMAT, "holds both 'a/data.pkl' and 'b/data.pkl'");
    refuse_members(2, big, GRAIL_ERROR_UNSUPPORTED, "is not little-endian");
    refuse_members(2, other, GRAIL_ERROR_UNSUPPORTED, "is not little-endian");
}

TEST(test_other_files_are_refused)
{
    char tar[512] = {0};
    tensor_file *torch = NULL;
    memcpy(tar + 257, "ustar", 5);
    assert_fails(torch_file_open_bytes("x", tar, sizeof tar, &torch), GRAIL_ERROR_UNSUPPORTED,
                 "x: is a tar archive");
    assert_fails(torch_file_open_bytes("x", "\x80\x02}.", 4, &torch), GRAIL_ERROR_FORMAT,
                 "x: is not a torch checkpoint");
}

TEST(test_every_failing_allocation_is_reported)
{
    OWNED(torch_fixture) zip = torch_fixture_begin();
    torch_tensor_bytes tensors[] = {torch_fixture_plain("a"), torch_fixture_plain("b")};
    tensors[1].shape[0] = 12;
    tensors[1].stride[0] = 2;
    torch_bytes_dict(&zip.object, 2, tensors);
    assert_ok(open_zip(&zip));
    support_fail_each_allocation(torch_fixture_reopen, &zip);
}

/* Its sum by torch 1.13.1, in float64. */
TEST(test_a_real_zip_checkpoint_is_read)
{
    OPENED(tensor_file, torch,
           torch_file_open(torch_fixture_shared("resnet18-cifar10/resnet18_cifar10.pth"), &torch));
    assert_ok(tensor_file_load(torch));
    assert_int_equal(torch->count, 122);
    assert_string_equal(torch->wrapper, "");
    assert_int_equal(torch_fixture_find(torch, "bn1.num_batches_tracked")->dtype, GRAIL_DTYPE_I64);
    assert_near(torch_fixture_sum(torch_fixture_find(torch, "layer4.1.conv2.weight")),
                -844.4122877465473, 1e-3);
}

CMFixtureFunction support_setup = torch_fixture_fill;
