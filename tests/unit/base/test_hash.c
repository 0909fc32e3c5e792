/* SHA-256 against the examples of FIPS 180-4. */
#include "support/support.h"

#include "base/hash.h"

#include <string.h>

TEST(test_the_published_examples_are_met)
{
    char text[HASH_TEXT_SIZE];
    hash_bytes("abc", 3, text);
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash_bytes("", 0, text);
    assert_string_equal(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST(test_pieces_have_the_hash_of_their_whole)
{
    hash_state hash;
    char text[HASH_TEXT_SIZE];
    hash_begin(&hash);
    hash_add(&hash, "a", 1);
    hash_add(&hash, "", 0);
    hash_add(&hash, "bc", 2);
    hash_end(&hash, text);
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* "a" a million times, the last example, whole and in pieces around the size of a block. */
TEST(test_long_inputs_have_the_hash_of_their_pieces)
{
    enum { LENGTH = 1000000 };
    static const char expected[] =
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    static const size_t pieces[] = {1, 63, 64, 65, 127, 128, 200, 1000};
    static char input[LENGTH];
    char text[HASH_TEXT_SIZE];
    memset(input, 'a', sizeof input);
    hash_bytes(input, sizeof input, text);
    assert_string_equal(text, expected);
    hash_state hash;
    hash_begin(&hash);
    for (size_t at = 0, i = 0, size = 0; at < LENGTH; at += size, i++) {
        size = pieces[i % (sizeof pieces / sizeof pieces[0])];
        size = size < LENGTH - at ? size : LENGTH - at;
        hash_add(&hash, input + at, size);
    }
    hash_end(&hash, text);
    assert_string_equal(text, expected);
}
