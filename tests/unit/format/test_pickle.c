/* Pickles: what values become, what is refused and by which name, numpy arrays of both Pythons. */
#include "support/support.h"

#include "base/buffer.h"
#include "format/torch/pickle.h"
#include "format/torch/torch_limits.h"

#include <string.h>

#define BYTES(text) (text), sizeof(text) - 1

static pickle *read_all(const void *bytes, size_t size)
{
    pickle *p = NULL;
    assert_ok(pickle_read(bytes, size, &p));
    return p;
}

static grail_status read_only(const void *bytes, size_t size)
{
    OWNED(pickle) *p = NULL;
    const grail_status status = pickle_read(bytes, size, &p);
    assert_true((status == GRAIL_OK) == (p != NULL));
    return status;
}

/* (None, True, False, 5, 1000, -2, 1 << 40, -1, 1.5) */
TEST(test_plain_values_are_read)
{
    static const int64_t integers[] = {1, 0, 5, 1000, -2, 1LL << 40, -1, 0};
    OWNED(pickle) *p = read_all(BYTES("\x80\x02(N\x88\x89K\x05M\xe8\x03J\xfe\xff\xff\xff"
                                      "\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\x01\xff\x8a\x00"
                                      "G\x3f\xf8\x00\x00\x00\x00\x00\x00t."));
    const pickle_value *root = pickle_root(p);
    assert_int_equal(root->kind, PICKLE_TUPLE);
    assert_int_equal(pickle_count(root), 10);
    assert_int_equal(pickle_item(root, 0)->kind, PICKLE_NONE);
    assert_int_equal(pickle_item(root, 1)->kind, PICKLE_BOOLEAN);
    for (int64_t i = 0; i < 8; i++) {
        int64_t value = 99;
        assert_true(pickle_integer(pickle_item(root, i + 1), &value));
        assert_int_equal(value, integers[i]);
    }
    assert_int_equal(pickle_item(root, 9)->kind, PICKLE_REAL);
    assert_near(pickle_item(root, 9)->real, 1.5, 0);
    assert_null(pickle_item(root, 10));
    assert_null(pickle_item(root, -1));
}

TEST(test_an_int_beyond_64_bits_is_told_apart)
{
    int64_t value = 0;
    OWNED(pickle) *p = read_all(BYTES("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."));
    assert_int_equal(pickle_root(p)->kind, PICKLE_LARGE_INTEGER);
    assert_false(pickle_integer(pickle_root(p), &value));
}

/* {"a": 1, b"b": 2, "a": 3}: texts of both kinds are keys, and the last value counts */
TEST(test_a_dict_is_found_in_by_text_and_byte_string)
{
    int64_t value = 0;
    OWNED(pickle) *p = read_all(BYTES("}(X\x01\x00\x00\x00"
                                      "aK\x01U\x01"
                                      "bK\x02\x8c\x01"
                                      "aK\x03u."));
    const pickle_value *root = pickle_root(p);
    assert_int_equal(pickle_count(root), 3);
    assert_true(pickle_integer(pickle_find(root, "a"), &value));
    assert_int_equal(value, 3);
    assert_true(pickle_integer(pickle_find(root, "b"), &value));
    assert_int_equal(value, 2);
    assert_null(pickle_find(root, "c"));
    assert_true(pickle_text_is(pickle_key(root, 0), "a"));
    assert_null(pickle_key(root, 3));
}

TEST(test_nothing_answers_like_a_value_of_the_wrong_kind)
{
    int64_t value = 0;
    pickle_span span = {0};
    assert_int_equal(pickle_count(NULL), 0);
    assert_null(pickle_item(NULL, 0));
    assert_null(pickle_key(NULL, 0));
    assert_null(pickle_find(NULL, "a"));
    assert_false(pickle_integer(NULL, &value));
    assert_false(pickle_text(NULL, &span));
    assert_false(pickle_is_global(NULL, "a", "b"));
    assert_false(pickle_is_call(NULL, "a", "b"));
    assert_string_equal(pickle_kind_text(NULL), "nothing");
}

/* [{1, 2}, frozenset({3}), b"xy", module.thing()], with frame, memo and a stack global */
TEST(test_protocol_4_is_read)
{
    OWNED(pickle) *p = read_all(BYTES("\x80\x04\x95\x30\0\0\0\0\0\0\0]\x94("
                                      "\x8f(K\x01K\x02\x90"
                                      "(K\x03\x91\x94"
                                      "C\x02xy"
                                      "\x8c\x06module\x8c\x05thing\x93)\x81}b"
                                      "h\x01"
                                      "e."));
    const pickle_value *root = pickle_root(p);
    assert_int_equal(pickle_count(root), 5);
    assert_int_equal(pickle_item(root, 0)->kind, PICKLE_SET);
    assert_int_equal(pickle_count(pickle_item(root, 0)), 2);
    assert_int_equal(pickle_item(root, 1)->kind, PICKLE_SET);
    assert_int_equal(pickle_item(root, 2)->kind, PICKLE_BYTES);
    assert_true(pickle_text_is(pickle_item(root, 2), "xy"));
    assert_true(pickle_is_call(pickle_item(root, 3), "module", "thing"));
    assert_true(pickle_is_call(pickle_item(root, 3), "module", NULL));
    assert_false(pickle_is_call(pickle_item(root, 3), "module", "other"));
    assert_ptr_equal(pickle_item(root, 4), pickle_item(root, 1));
}

TEST(test_a_call_keeps_its_arguments_and_state)
{
    OWNED(pickle) *p = read_all(BYTES("cargparse\nNamespace\nK\x01\x85R}U\x01"
                                      "aK\x02sb."));
    const pickle_value *root = pickle_root(p);
    int64_t value = 0;
    assert_int_equal(root->kind, PICKLE_CALL);
    assert_true(pickle_is_global(root->call.function, "argparse", "Namespace"));
    assert_int_equal(pickle_count(root->call.arguments), 1);
    assert_true(pickle_integer(pickle_find(root->call.state, "a"), &value));
    assert_int_equal(value, 2);
}

TEST(test_what_is_put_into_an_opaque_object_is_dropped)
{
    OWNED(pickle) *p = read_all(BYTES("cmmcv\nConfigDict\n)\x81U\x01"
                                      "aK\x02s(K\x01K\x02uK\x05"
                                      "a."));
    assert_int_equal(pickle_root(p)->kind, PICKLE_CALL);
    assert_int_equal(pickle_count(pickle_root(p)), 0);
}

typedef struct dict_writing {
    const char *bytes;
    size_t size;
} dict_writing;

/* What the writers of Python 2, 3 and torch call a dict; the last sets an attribute, too. */
static const dict_writing dicts[] = {
    {BYTES("}U\x01kK\x07s.")},
    {BYTES("ccollections\nOrderedDict\n)RU\x01kK\x07s.")},
    {BYTES("ccollections\nOrderedDict\n](](U\x01kK\x07"
           "ee\x85R.")},
    {BYTES("ccollections\nCounter\n}U\x01kK\x07s\x85R.")},
    {BYTES("ccollections\ndefaultdict\nc__builtin__\nlist\n\x85RU\x01kK\x07s.")},
    {BYTES("ccollections\nOrderedDict\n)RU\x01kK\x07s}U\x09_metadataNsb.")},
};

TEST(test_every_writing_of_a_dict_is_one)
{
    for (size_t i = 0; i < sizeof dicts / sizeof dicts[0]; i++) {
        OWNED(pickle) *p = read_all(dicts[i].bytes, dicts[i].size);
        int64_t value = 0;
        assert_int_equal(pickle_root(p)->kind, PICKLE_DICT);
        assert_int_equal(pickle_count(pickle_root(p)), 1);
        assert_true(pickle_integer(pickle_find(pickle_root(p), "k"), &value));
        assert_int_equal(value, 7);
    }
}

/* Checkpoints keep metrics and types beside their tensors. */
TEST(test_functions_that_call_nothing_are_read)
{
    pickle_close(read_all(BYTES("c__builtin__\nlen\n.")));
    pickle_close(read_all(BYTES("cbuiltins\nmax\n.")));
}

TEST(test_latin1_text_becomes_bytes)
{
    pickle_span span = {0};
    pickle *p = read_all(BYTES("\x80\x02"
                               "c_codecs\nencode\nX\x05\0\0\0a\xc3\xbf\xc2\x80X\x06\0\0\0latin1"
                               "\x86R."));
    assert_int_equal(pickle_root(p)->kind, PICKLE_BYTES);
    assert_true(pickle_text(pickle_root(p), &span));
    assert_int_equal(span.size, 3);
    assert_memory_equal(span.data, "a\xff\x80", 3);
    pickle_close(p);
    p = read_all(BYTES("c__builtin__\nbytes\n)R."));
    assert_int_equal(pickle_root(p)->kind, PICKLE_BYTES);
    assert_true(pickle_text_is(pickle_root(p), ""));
    pickle_close(p);
}

TEST(test_bytes_behind_the_pickle_are_refused)
{
    assert_fails(read_only(BYTES("K\x01.rest")), GRAIL_ERROR_FORMAT,
                 "the pickle ends at byte 3, but 7 bytes were given");
}

typedef struct refusal {
    const char *bytes;
    size_t size;
    const char *text;
} refusal;

static const refusal forbidden[] = {
    {BYTES("cos\nsystem\nU\x02id\x85R."),
     "names 'os.system', which can run commands or change files on the machine that loads it; do "
     "not load this file with another program either"},
    {BYTES("cposix\nsystem\n."), "'posix.system'"},
    {BYTES("cnt\nsystem\n."), "'nt.system'"},
    {BYTES("csys\nexit\n."), "'sys.exit'"},
    {BYTES("cos.path\njoin\n."), "'os.path.join'"},
    {BYTES("cbuiltins\neval\n."), "'builtins.eval'"},
    {BYTES("c__builtin__\nexec\n."), "'__builtin__.exec'"},
    {BYTES("cbuiltins\ngetattr\n."), "'builtins.getattr'"},
    {BYTES("csubprocess\nPopen\n."), "'subprocess.Popen'"},
    {BYTES("cimportlib\nimport_module\n."), "'importlib.import_module'"},
    {BYTES("\x8c\x02os\x8c\x06system\x93."), "STACK_GLOBAL: names 'os.system'"},
    {BYTES("(S'id'\nios\nsystem\n."), "opcode STRING (0x53), which is not allowed"},
    {BYTES("(ios\nsystem\n."), "opcode INST (0x69), which is not allowed"},
    {BYTES("(cm\nC\no."), "opcode OBJ (0x6f)"},
    {BYTES("\x82\x01."), "opcode EXT1 (0x82)"},
    {BYTES("K\x01\x32."), "opcode DUP (0x32)"},
    {BYTES("Pid\n."), "opcode PERSID (0x50)"},
    {BYTES("I1\n."), "byte 0 of the pickle is opcode INT (0x49)"},
    {BYTES("K\x01\xff."), "byte 2 of the pickle, 0xff, is not an opcode"},
    {BYTES("cm\n\nN."), "is empty, unreadable"},
    {BYTES("cm\x1b\nname\n."), "is empty, unreadable"},
};

TEST(test_what_could_execute_is_refused_by_name)
{
    for (size_t i = 0; i < sizeof forbidden / sizeof forbidden[0]; i++) {
        assert_fails(read_only(forbidden[i].bytes, forbidden[i].size), GRAIL_ERROR_FORMAT,
                     forbidden[i].text);
    }
}

static const refusal malformed[] = {
    {BYTES(""), "ends without STOP"},
    {BYTES("K\x01"), "ends without STOP"},
    {BYTES("M\x01"), "BININT2: needs 2 more bytes, but 1 are left"},
    {BYTES("X\xff\xff\xff\xff."), "BINUNICODE: needs 4294967295 more bytes, but 1 are left"},
    {BYTES("\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "BINUNICODE8: needs"},
    {BYTES("\x8a\x05\x01."), "LONG1: needs 5 more bytes"},
    {BYTES("cos"), "GLOBAL: has no end of line"},
    {BYTES("."), "stops with 0 values"},
    {BYTES("NN."), "stops with 2 values"},
    {BYTES("(N."), "stops with"},
    {BYTES("t."), "TUPLE: finds no mark"},
    {BYTES("N\x87."), "TUPLE3: finds fewer than 3"},
    {BYTES("N(\x85t."), "TUPLE1: finds fewer than 1"},
    {BYTES("a."), "APPEND: finds fewer than 2"},
    {BYTES("Na."), "APPEND: finds fewer than 2"},
    {BYTES("NNa."), "APPEND: cannot put values into None"},
    {BYTES("](NNu."), "SETITEMS: cannot put values into a list"},
    {BYTES("}(Nu."), "finds a key without a value"},
    {BYTES("}Ns."), "SETITEM: finds fewer than 3"},
    {BYTES("N(NNu."), "cannot put values into None"},
    {BYTES("(e."), "APPENDS: finds no value"},
    {BYTES("q\x00."), "BINPUT: finds no value"},
    {BYTES("h\x00."), "BINGET: reads index 0 of the memo, but nothing was put there"},
    {BYTES("Nq\x00h\x05."), "reads index 5 of the memo, but nothing was put there"},
    {BYTES("Nr\xff\xff\xff\xff."), "puts a value at index 4294967295 of the memo after only"},
    {BYTES("NNR."), "REDUCE: calls None"},
    {BYTES("cm\nf\nNR."), "calls a function with None, expected a tuple"},
    {BYTES("]Nb."), "BUILD: cannot give a state to a list"},
    {BYTES("NN\x93."), "STACK_GLOBAL: finds None and None, expected two names"},
    {BYTES("ccollections\nOrderedDict\nK\x05\x85R."), "cannot make a dict of an int"},
    {BYTES("ccollections\nOrderedDict\n]Na\x85R."), "makes a dict of items that are not pairs"},
    {BYTES("c_codecs\nencode\nNU\x06latin1\x86R."),
     "makes bytes of a value that is not latin1 text"},
    {BYTES("c_codecs\nencode\nX\x03\0\0\0\xe2\x82\xacU\x06latin1\x86R."), "that is not latin1"},
    {BYTES("c_codecs\nencode\nX\x01\0\0\0\xc3U\x06latin1\x86R."), "that is not latin1"},
    {BYTES("ctorch\nSize\nN\x85R."), "cannot make a torch.Size of None"},
    {BYTES("]q\x00h\x00"
           "a."),
     "the pickle: a list contains itself"},
    {BYTES("}q\x00U\x01kh\x00s."), "a dict contains itself"},
    {BYTES("]q\x00(h\x00\x85"
           "e."),
     "a tuple contains itself"},
};

TEST(test_malformed_bytes_are_refused)
{
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        assert_fails(read_only(malformed[i].bytes, malformed[i].size), GRAIL_ERROR_FORMAT,
                     malformed[i].text);
    }
    assert_fails(read_only(BYTES("\x80\x09N.")), GRAIL_ERROR_UNSUPPORTED, "names protocol 9");
}

/* The object refers to itself through its state, as configurations do to their parents. */
TEST(test_an_opaque_object_that_refers_to_itself_loses_its_state)
{
    OWNED(pickle) *p = read_all(BYTES("}U\x01"
                                      "acm\nC\n)\x81q\x00}U\x01ph\x00sbs."));
    assert_null(pickle_find(pickle_root(p), "a")->call.state);
}

/* `levels` nested lists */
static grail_status read_nested(int levels)
{
    char bytes[1024];
    memset(bytes, ']', (size_t)levels);
    memset(bytes + levels, 'a', (size_t)levels - 1);
    bytes[2 * levels - 1] = '.';
    return read_only(bytes, 2 * (size_t)levels);
}

TEST(test_nesting_is_bounded)
{
    assert_ok(read_nested(200));
    assert_fails(read_nested(201), GRAIL_ERROR_FORMAT, "nests deeper than 200 levels");
}

/* A value of 150 levels is met first near the root, then again 100 levels down, with a flat one
 * beside it. */
TEST(test_nesting_counts_values_that_were_seen_before)
{
    OWNED(buffer) text = {0};
    buffer_init(&text, 1024);
    assert_ok(buffer_append_string(&text, "]"));
    for (int i = 0; i < 150; i++) {
        assert_ok(buffer_append_string(&text, "]"));
    }
    for (int i = 0; i < 149; i++) {
        assert_ok(buffer_append_string(&text, "a"));
    }
    assert_ok(buffer_append(&text, BYTES("q\x01\x61"))); /* put, append to the root */
    for (int i = 0; i < 100; i++) {
        assert_ok(buffer_append_string(&text, "]"));
    }
    assert_ok(buffer_append(&text, BYTES("h\x01\x61Na"))); /* get, append; None, append */
    for (int i = 0; i < 100; i++) {
        assert_ok(buffer_append_string(&text, "a"));
    }
    assert_ok(buffer_append_string(&text, "."));
    assert_fails(read_only(text.bytes, text.size), GRAIL_ERROR_FORMAT, "nests deeper");
}

/* A list of 5000 Nones, copied into a new set by every five bytes that follow. */
TEST(test_copies_cannot_multiply_memory)
{
    enum { NONES = 5000, COPIES = 5000 };
    static const char begin[] = "c__builtin__\nset\nq\x01(";
    static const char copy[] = "h\x01h\x02R";
    OWNED(buffer) text = {0};
    buffer_init(&text, 1 << 20);
    assert_ok(buffer_append(&text, BYTES(begin)));
    for (int i = 0; i < NONES; i++) {
        assert_ok(buffer_append_string(&text, "N"));
    }
    assert_ok(buffer_append_string(&text, "t\x85q\x02"));
    for (int i = 0; i < COPIES; i++) {
        assert_ok(buffer_append(&text, BYTES(copy)));
    }
    assert_fails(read_only(text.bytes, text.size), GRAIL_ERROR_FORMAT,
                 "bytes, far more than a pickle of its size needs");
}

/* Reads `count` times `piece` behind `start`. */
static void refuse_repeated(const char *start, const char *piece, int64_t count, const char *text)
{
    const size_t length = strlen(piece);
    OPENED(char, bytes, memory_new_unset(&bytes, strlen(start) + (size_t)count * length + 1, 1));
    char *end = stpcpy(bytes, start);
    for (int64_t i = 0; i < count; i++) {
        end = stpcpy(end, piece);
    }
    assert_fails(read_only(bytes, (size_t)(end - bytes)), GRAIL_ERROR_FORMAT, text);
}

TEST(test_what_piles_up_is_bounded)
{
    refuse_repeated("", "N", PICKLE_MOST_VALUES + 1, "has more than 4194304 values");
    refuse_repeated("Nq\x01", "h\x01", PICKLE_MOST_VALUES,
                    "puts more than 4194304 values on the stack");
    refuse_repeated("", "(", PICKLE_MOST_MARKS + 1, "nests more than 65536 marks");
    refuse_repeated(
        "N", "\x94", 1 << 17,
        "puts a value into the memo for the 65539th time, but only 1 values were made so far");
}

/* numpy.arange(6, dtype='u1').reshape(2, 3) by Python 2's cPickle. */
static const char python2_array[] =
    "\x80\x02"
    "cnumpy.core.multiarray\n_reconstruct\nq\x01"
    "cnumpy\nndarray\nq\x02K\0\x85U\x01"
    "b\x87Rq\x03(K\x01K\x02K\x03\x86"
    "cnumpy\ndtype\nq\x04U\x02u1K\0K\x01\x87Rq\x05(K\x03U\x01|NNNJ\xff\xff\xff\xff"
    "J\xff\xff\xff\xffK\0tb\x89T\x06\0\0\0\0\1\2\3\4\5tb.";

/* The same in Python 3, protocol 2: bytes as latin1 text. */
static const char python3_array[] =
    "\x80\x02"
    "cnumpy._core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85"
    "c_codecs\nencode\nX\x01\0\0\0bX\x06\0\0\0latin1\x86R\x87R(K\x01K\x02K\x03\x86"
    "cnumpy\ndtype\nX\x02\0\0\0u1\x89\x88\x87R(K\x03X\x01\0\0\0|NNNJ\xff\xff\xff\xff"
    "J\xff\xff\xff\xffK\0tb\x89"
    "c_codecs\nencode\nX\x06\0\0\0\0\1\2\3\4\5X\x06\0\0\0latin1\x86Rtb.";

/* The same in protocol 5. */
static const char frombuffer_array[] =
    "\x80\x05\x8c\x12numpy.core.numeric\x8c\x0b_frombuffer\x93("
    "\x96\x06\0\0\0\0\0\0\0\0\1\2\3\4\5"
    "\x8c\x05numpy\x8c\x05"
    "dtype\x93\x8c\x02u1\x89\x88\x87R(K\x03\x8c\x01<NNNJ\xff\xff\xff\xff"
    "J\xff\xff\xff\xffK\0tbK\x02K\x03\x86\x8c\x01"
    "CtR.";

static void check_array(const char *bytes, size_t size)
{
    OWNED(pickle) *p = read_all(bytes, size);
    pickle_array array = {0};
    assert_ok(pickle_read_array(pickle_root(p), &array));
    assert_int_equal(array.kind, 'u');
    assert_int_equal(array.element_size, 1);
    assert_int_equal(array.rank, 2);
    assert_int_equal(array.shape[0], 2);
    assert_int_equal(array.shape[1], 3);
    assert_int_equal(array.bytes, 6);
    assert_memory_equal(array.data, "\0\1\2\3\4\5", 6);
}

TEST(test_numpy_arrays_of_all_protocols_are_read)
{
    check_array(BYTES(python2_array));
    check_array(BYTES(python3_array));
    check_array(BYTES(frombuffer_array));
}

/* Changes the first `from` in the array and reads it. */
static grail_status read_changed_array(const char *from, const char *to)
{
    char bytes[sizeof python2_array];
    pickle_array array = {0};
    memcpy(bytes, python2_array, sizeof bytes);
    char *place = memmem(bytes, sizeof bytes, from, strlen(from));
    assert_non_null(place);
    memcpy(place, to, strlen(from));
    OPENED(pickle, p, pickle_read(bytes, sizeof bytes - 1, &p));
    return pickle_read_array(pickle_root(p), &array);
}

TEST(test_arrays_that_are_not_plain_are_refused)
{
    assert_fails(read_changed_array("u1", "O8"), GRAIL_ERROR_FORMAT,
                 "the array's dtype 'O8' is not a plain number type");
    assert_fails(read_changed_array("u1", "u2"), GRAIL_ERROR_FORMAT,
                 "shape takes 12 bytes, but 6 are given");
    assert_fails(read_changed_array("|", ">"), GRAIL_ERROR_FORMAT, "is big-endian");
    assert_fails(read_changed_array("tb\x89", "tb\x88"), GRAIL_ERROR_FORMAT, "Fortran order");
    assert_fails(read_changed_array("K\x02K\x03\x86", "(N)Nt"), GRAIL_ERROR_FORMAT,
                 "dimension 0 is not");
    assert_fails(read_changed_array("_recon", "_rectm"), GRAIL_ERROR_FORMAT,
                 "an object is not a numpy array");
    pickle_array array = {0};
    assert_fails(pickle_read_array(NULL, &array), GRAIL_ERROR_FORMAT,
                 "nothing is not a numpy array");
}

static grail_status read_python3_array(void *context)
{
    return read_only(BYTES(python3_array));
}

TEST(test_every_failing_allocation_is_reported)
{
    support_fail_each_allocation(read_python3_array, NULL);
}
